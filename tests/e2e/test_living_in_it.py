"""Habits of people, in a real terminal: tour, palette, own keys, arrangement, and all of it saved."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.conftest import Box
from tests.terminal import Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


@pytest.fixture
def running(counters: Box) -> Iterator[Box]:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "demo", "-o", "out")
    yield counters
    assert counters.run("down").returncode == 0


def open_app(box: Box, *arguments: str, columns: int = 110, rows: int = 36) -> Terminal:
    argv = [sys.executable, "-m", "rltui", *arguments]
    return Terminal(argv, cwd=box.work, env=box.env, columns=columns, rows=rows)


def state_file(box: Box) -> str:
    return f"{box.env['XDG_STATE_HOME']}/rltui/screen/app.json"


@pytest.mark.slow
def test_who_comes_for_the_first_time_is_shown_around_once(running: Box) -> None:
    with open(state_file(running), "w") as file:  # noqa: PTH123
        file.write("{}")
    with closing(open_app(running)) as terminal:
        terminal.wait_for("1/5 ")
        terminal.press("Enter")
        terminal.wait_for("2/5 ")
        terminal.press("Escape")
        terminal.wait_until(lambda screen: "gone" if "/5 " not in screen else "", "the tour's end")
        terminal.press("q")
        terminal.wait_for_end()
    with closing(open_app(running)) as terminal:
        terminal.wait_for("trainer")
        terminal.press("Z")
        assert "/5 " not in terminal.wait_for("Z does nothing here. z: ")


def run_action(terminal: Terminal, action: str, description: str) -> None:
    """Run an action that has no key, from the palette."""
    terminal.press(":", *action)
    terminal.wait_for(description)
    terminal.press("Enter")


@pytest.mark.slow
def test_arrangement_theme_and_place_outlive_the_terminal(running: Box) -> None:
    with closing(open_app(running)) as terminal:
        terminal.wait_for("Knobs")
        terminal.press("C-k")
        run_action(terminal, "hide panel", "Hide the focused panel")
        terminal.wait_until(lambda screen: "hidden" if "Knobs" not in screen else "", "the knobs hidden")
        terminal.press("t")
        terminal.wait_for("▸ trainer")
        terminal.press(":")
        terminal.press(*"dracula")
        terminal.wait_for("theme      dracula")
        terminal.press("Enter")
        terminal.wait_until(lambda screen: "shut" if "theme      " not in screen else "", "the palette shut")
        terminal.press("q")
        terminal.wait_for_end()
    with closing(open_app(running)) as terminal:
        assert "Knobs" not in terminal.wait_for("▸ trainer")
        run_action(terminal, "all panels", "Show the hidden panels")
        terminal.wait_for("Knobs")
    with open(state_file(running)) as file:  # noqa: PTH123
        assert '"theme":"dracula"' in file.read()


@pytest.mark.slow
def test_own_keys_count_everywhere_and_a_conflict_is_told(running: Box) -> None:
    folder = running.root / "config" / "rltui"
    settings = folder / "settings.toml"
    running.env["XDG_CONFIG_HOME"] = str(folder.parent)
    folder.mkdir(parents=True)
    settings.write_text('[keys]\n"component.restart" = "ctrl+r"\n')
    with closing(open_app(running)) as terminal:
        assert "ctrl+r restart" in terminal.wait_for("restart")
        terminal.press("i")
        terminal.wait_for("▸ inference")
        terminal.press("r")
        terminal.wait_for("r does nothing here")
        terminal.press("C-r")
        terminal.wait_for("Restart inference?")
    settings.write_text('[keys]\n"component.restart" = "x"\n')
    listing = running.run("keys")
    assert listing.returncode == 3
    assert "component.restart" in listing.stderr
    assert "component.stop" in listing.stderr
