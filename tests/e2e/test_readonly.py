"""`rltui --readonly`: everything is seen, nothing is changed, nothing is started."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def journal(box: Box) -> str:
    return (box.work / "out/.rltui/journal.jsonl").read_text()


@pytest.mark.slow
def test_readonly_app_shows_all_changes_nothing_and_starts_nothing(counters: Box) -> None:
    counters.json(*UP)
    before = counters.status()["components"]
    entries = journal(counters)
    argv = [sys.executable, "-m", "rltui", "--readonly", "one"]
    terminal = Terminal(argv, cwd=counters.work, env=counters.env)
    try:
        terminal.wait_for("trainer ● running")
        terminal.wait_for("count ")
        terminal.wait_for("read-only")
        for action in ("stop", "restart", "start"):
            terminal.press(typed("component.trainer"), typed(f"component.{action}"), "Enter")
        terminal.press(":", *"kill")  # which has no key
        assert "Kill the selected" not in terminal.wait_for("search all logs for kill")
        terminal.press("Escape")
        terminal.wait_until(
            lambda screen: "gone" if "search all logs" not in screen else "", "the palette gone"
        )
        terminal.press(typed("zoom"))
        terminal.wait_for("trainer ● running")
        after = counters.status()["components"]
        assert [(item["pid"], item["state"]) for item in after] == [
            (item["pid"], item["state"]) for item in before
        ]
        assert journal(counters) == entries

        supervisor = int(re.findall(r"supervisor started, pid (\d+)", entries)[-1])
        os.kill(supervisor, signal.SIGKILL)
        terminal.wait_for("a read-only client does not start one")
        assert journal(counters) == entries, "it started no supervisor"
        counters.status()  # this does
        terminal.wait_for("trainer ● running")
        retry_until(lambda: "reconnecting" not in terminal.screen())
    finally:
        terminal.close()

    counters.run("down")
    argv = [sys.executable, "-m", "rltui", "one", "--readonly"]
    export_folder = counters.work / "shown"
    shell = ["sh", "-c", f"{' '.join(argv)} 2>{export_folder}; echo ended; sleep 100"]
    terminal = Terminal(shell, cwd=counters.work, env=counters.env)
    try:
        terminal.wait_for("ended")
    finally:
        terminal.close()
    assert "one has no supervisor, and a read-only client does not start one" in export_folder.read_text()
    assert "rltui status one" in export_folder.read_text()
    assert not list((counters.root / "run/rltui").glob("*.sock"))


@pytest.mark.parametrize(
    ("arguments", "output_texts"),
    [
        (("run.toml",), "--readonly takes one running run"),
        (("a", "b"), "--readonly takes one running run"),
        (("a", "-o", "elsewhere"), "--readonly takes one running run"),
        (("nobody",), "run not found: nobody"),
    ],
)
def test_readonly_usage(counters: Box, arguments: tuple[str, ...], output_texts: str) -> None:
    result = counters.run("--readonly", *arguments)
    assert result.returncode == 2
    assert output_texts in result.stderr
    assert not Path(counters.work / "elsewhere").exists()
