"""A page about the run in the person's browser, where there is one to be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.client.programs import open_url

URL = "https://wandb.ai/t/p/runs/ab12"


async def test_the_browser_of_the_environment_is_told_the_address_and_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho loud; echo loud >&2; printf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    assert await open_url(URL)
    assert (tmp_path / "opened").read_text() == URL
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
async def test_a_browser_that_fails_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = tmp_path / "browser"
    browser.write_text("#!/bin/sh\nexit 1\n")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    assert not await open_url(URL)


async def test_without_a_display_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not await open_url(URL)
