"""The key that opens a page about the run, or copies its address."""

from __future__ import annotations

import base64

import pytest
from tests.fakes.experiment import FakeExperiment, running_status
from tests.ui.conftest import Opener, choose, press
from tests.ui.status_cases import PAGES, with_links
from textual.drivers.headless_driver import HeadlessDriver

from rltui.ui.dialogs.base import LinkMenu


async def test_enter_opens_a_page_and_y_copies_its_address(
    open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(HeadlessDriver, "write", lambda driver, data: written.append(data))
    monkeypatch.delenv("TMUX", raising=False)
    copied = [f"\x1b]52;c;{base64.b64encode(page.url.encode()).decode()}\x07" for page in PAGES]
    experiment = with_links()
    async with open_app(experiment) as pilot:
        await choose(pilot, "links")
        assert isinstance(pilot.app.screen, LinkMenu)
        await press(pilot, "down", "y")
        assert [data for data in written if "]52;" in data] == copied[1:]
        assert experiment.opened[-1] == "/run/trainer.log"
        await choose(pilot, "links")
        await press(pilot, "enter")
        assert experiment.opened[-1] == PAGES[0].url
        assert [data for data in written if "]52;" in data] == [copied[1], copied[0]]  # there is no browser
        experiment.has_browser = True
        await press(pilot, "4")
        await choose(pilot, "links")
        await press(pilot, "enter")
        assert experiment.opened[-1] == PAGES[0].url
        assert len([data for data in written if "]52;" in data]) == 2


async def test_without_links_the_key_does_nothing(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await choose(pilot, "links")
        assert not isinstance(pilot.app.screen, LinkMenu)
        await press(pilot, "escape")
        experiment.push(running_status(links=PAGES))
        await choose(pilot, "links")
        assert isinstance(pilot.app.screen, LinkMenu)
