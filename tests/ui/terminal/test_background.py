"""The terminal's background: asked for, told at any time or never, and never taken for keys."""

from __future__ import annotations

from functools import partial

import pytest
from tests.bench.terminal import Line, Terminal
from tests.ui.terminal.test_driver import APP, assert_given_back, at_rest, opened
from tests.waiting import retry_until

LIGHT = b"48;2;251;251;250"
DARK = b"48;2;17;20;23"
"""Backgrounds of our two themes."""
SCREENS = {
    "2": "all merged",
    "3": "- GPUs -",
    "4": "- Metrics",
    "5": "- Rollouts",
    "6": "- Config -",
    "7": " Runs -",
    "8": "- Events -",
    "?": "Keys that work here",
    "\x1b": "- Events -",
    "1": "- step 12/20",
}
"""By their keys, and what they say."""


def shows(words: str, screen: str, *, is_help: bool) -> bool:
    """The screen with those words, and the help on it or gone."""
    return words in screen and (SCREENS["?"] in screen) == is_help


def painted_last(terminal: Terminal, wanted: bytes) -> None:
    """Wait until the screen is painted on that background."""
    retry_until(lambda: max(LIGHT, DARK, key=terminal.written.rfind) == wanted)


@pytest.mark.slow
def test_a_light_terminal_is_painted_light() -> None:
    with opened(background="ffff/ffff/e0e0") as terminal:
        before = at_rest(terminal)
        painted_last(terminal, LIGHT)
        assert "Irreversible actions show a plan" not in before
        terminal.press("\x1b[?997;1n")
        painted_last(terminal, DARK)
        terminal.press("\x1b[?997;2n")
        painted_last(terminal, LIGHT)
        assert at_rest(terminal) == before, "nothing was taken for a key"
        terminal.press("q")
        assert terminal.process.wait(20) == 0
        assert_given_back(terminal)
        assert terminal.written.rpartition(b"\x1b[?2031")[2].startswith(b"l")


@pytest.mark.slow
def test_a_late_answer_is_no_key() -> None:
    with opened() as terminal:
        before = at_rest(terminal)
        assert terminal.written.count(b"\x1b]11;?") == 1
        assert LIGHT not in terminal.written
        for part in ("\x1b", "]11;rgb:f", "fff/ffff", "/ffff\x1b", "\\"):
            terminal.press(part)
        painted_last(terminal, LIGHT)
        assert at_rest(terminal) == before


@pytest.mark.slow
def test_where_no_answer_comes_keys_are_keys() -> None:
    with opened() as terminal:
        terminal.press("?")
        terminal.wait_for("Irreversible actions show a plan")
        terminal.press("\x1b")
        terminal.expect_that(lambda screen: "Irreversible actions show a plan" not in screen)
        terminal.painted_at()
        assert LIGHT not in terminal.written


@pytest.mark.slow
def test_an_answer_under_way_is_not_typed_into_the_shell() -> None:
    shell = ["sh", "-c", '"$@"; echo gone; sleep 1', "sh", *APP]
    with opened(shell, line=Line(delay_s=0.2), background="ffff/ffff/ffff") as terminal:
        terminal.press("q")
        assert terminal.process.wait(20) == 0
        terminal.wait_for("gone")
        assert "rgb:" not in terminal.text


@pytest.mark.slow
def test_a_terminal_of_few_colours_is_not_asked() -> None:
    with opened(TERM="xterm", COLORTERM="") as terminal:
        assert b"\x1b]11;?" not in terminal.written
        assert b"8;2;" not in terminal.written
        assert b"8;5;" not in terminal.written


@pytest.mark.slow
def test_the_environment_may_tell_before() -> None:
    with opened(COLORFGBG="0;15") as terminal:
        at_rest(terminal)
        assert DARK not in terminal.written


@pytest.mark.slow
@pytest.mark.parametrize("what", ["plain", "hostile"])
def test_without_utf8_nothing_but_ascii_is_written(what: str) -> None:
    argv = [*APP, "hostile"] if what == "hostile" else APP
    with opened(argv, LC_ALL="C", PYTHONUTF8="") as terminal:
        for key, words in SCREENS.items():
            terminal.press(key)
            terminal.expect_that(partial(shows, words, is_help=key == "?"))
            terminal.painted_at()
        assert terminal.written.isascii()
        text = terminal.text
        if what == "plain":
            assert "=" * 20 in text, "the frame of the pane with the focus"
            assert "-" * 20 in text
