"""Work in the background is given as what to call: called off before it began, it leaves nothing to await."""

from __future__ import annotations

import ast
import asyncio
import gc
from pathlib import Path

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import Opener, press, settle
from textual.events import ScreenResume
from textual.widgets import Input
from textual.worker import WorkerFailed

import rltui.ui
from rltui.ui.background import in_background
from rltui.ui.dialogs.base import NoteDialog

SCREENS = "24578"
"""Keys of those that begin to read each time they come to the top."""


@pytest.mark.slow
async def test_what_is_called_off_before_it_began_leaves_no_warning(
    experiment: FakeExperiment, open_app: Opener, recwarn: pytest.WarningsRecorder
) -> None:
    async with open_app(experiment) as pilot:
        for key in SCREENS:
            await press(pilot, key)
            screen = pilot.app.screen
            for _ in range(2):
                screen.post_message(ScreenResume())
            await settle(pilot)
            await press(pilot, "1")
    gc.collect()
    assert [str(each.message) for each in recwarn if "never awaited" in str(each.message)] == []


def test_no_worker_is_given_a_coroutine() -> None:
    for path in Path(rltui.ui.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "run_worker":
                work = node.args[0]
                is_coroutine = isinstance(work, ast.Call) and getattr(work.func, "id", "") != "partial"
                assert not is_coroutine, f"{path}:{node.lineno}: {ast.unparse(work)}"


async def test_an_answer_for_a_dialog_that_is_gone_is_dropped(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding X4: its children had gone before Textual called its work off, and the TUI ended."""
    parts_go = asyncio.Event()
    monkeypatch.setattr(Input, "on_unmount", lambda _: parts_go.set(), raising=False)

    async def late() -> None:
        await parts_go.wait()
        dialog.query_one("#gone-already")

    async with open_app(experiment) as pilot:
        dialog = NoteDialog()
        await pilot.app.push_screen(dialog)
        in_background(dialog, late, group="late")
        await settle(pilot)
        await press(pilot, "escape")
        assert parts_go.is_set()
        assert not dialog.is_attached


async def test_a_fault_of_work_for_what_is_there_is_told(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async def faulty() -> None:
        pilot.app.screen.query_one("#nothing-has-this-id")

    with pytest.raises(WorkerFailed):  # noqa: PT012
        async with open_app(experiment) as pilot:
            in_background(pilot.app.screen, faulty, group="faulty")
            await settle(pilot)
