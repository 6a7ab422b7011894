"""The app on a terminal of its own: what it writes, and that it gives the terminal back."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.bench.terminal import NEAR, Line, Terminal
from tests.keys import typed
from tests.waiting import retry_until

REPOSITORY = Path(__file__).parents[3]
APP = [sys.executable, "-m", "tests.ui.terminal.fake_app"]
TAKEN = ("?1049", "?1000", "?1003", "?1004", "?2004")
"""Modes that a shell does not want: alternate screen, mouse, focus, paste."""
OTHERS = (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


@contextmanager
def opened(
    argv: list[str] = APP,
    *,
    line: Line = NEAR,
    answers: bool = True,
    background: str = "",
    **variables: str,
) -> Iterator[Terminal]:
    """`variables`: of the environment; without the empty ones."""
    outer = ("TMUX", "COLUMNS", "LINES", "COLORFGBG")
    env = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"} | variables
    env = {key: value for key, value in env.items() if value}
    terminal = Terminal(
        argv,
        cwd=REPOSITORY,
        env=env,
        columns=120,
        rows=36,
        line=line,
        answers=answers,
        background=background,
    )
    try:
        ready = "trainer * running" if "LC_ALL" in variables else "trainer ● running"
        terminal.expect(ready, "1 change needs", "A apply")
        terminal.painted_at()
        yield terminal
    finally:
        terminal.close()


def at_rest(terminal: Terminal) -> str:
    """The text of the screen once that stays the same."""
    texts = [""]

    def rests() -> bool:
        texts.append(terminal.text)
        return texts[-1] == texts[-2]

    retry_until(rests, interval_s=0.3)
    return texts[-1]


def assert_given_back(terminal: Terminal) -> None:
    for mode in TAKEN:
        last = terminal.written.rpartition(f"\x1b[{mode}".encode())[2]
        assert last.startswith(b"l"), mode
    assert terminal.written.rpartition(b"\x1b[?25")[2].startswith(b"h"), "the cursor is hidden"
    assert b"\x1b[<u" in terminal.written
    assert terminal.echoes


@pytest.mark.slow
def test_a_terminal_that_never_answers_shows_what_others_show() -> None:
    with opened(answers=False) as terminal:
        terminal.press(typed("help"))
        terminal.wait_for("Irreversible actions show a plan")


@pytest.mark.slow
def test_what_was_below_a_dialog_comes_back() -> None:
    with opened() as terminal:
        assert "reverse-text" in terminal.text.splitlines()[0]
        before = at_rest(terminal)
        terminal.press(typed("help"))
        terminal.wait_for("Irreversible actions show a plan")
        terminal.press(typed("help.close"))
        terminal.expect_that(lambda screen: screen == before)
        terminal.painted_at(timeout_s=10)
        written = terminal.bytes_total
        terminal.press(typed("pane.next"))
        terminal.wait_for("╭─ inference")
        assert terminal.bytes_total - written < 4000


@pytest.mark.parametrize(
    "signum",
    [signal.SIGTERM, *(pytest.param(signum, marks=pytest.mark.slow) for signum in OTHERS)],
)
def test_a_signal_gives_the_terminal_back(signum: signal.Signals) -> None:
    with opened() as terminal:
        assert not terminal.echoes
        terminal.process.send_signal(signum)
        assert terminal.process.wait(10) == 128 + signum
        assert_given_back(terminal)


def test_who_leaves_is_told_how_to_come_back() -> None:
    with opened() as terminal:
        terminal.press(typed("detach"))
        assert terminal.process.wait(10) == 0
        assert_given_back(terminal)
        terminal.expect_that(
            lambda screen: screen.startswith(
                "Detached: everything keeps running. rltui reverse-text opens it"
            )
        )


@pytest.mark.slow
def test_a_terminal_that_goes_away_ends_the_app() -> None:
    with opened() as terminal:
        terminal.hang_up()
        assert terminal.process.wait(10) == 128 + signal.SIGHUP


@pytest.mark.slow
def test_bytes_that_are_no_text_are_no_reason_to_end() -> None:
    with opened() as terminal:
        terminal.press(b"\xe9\xff\xc3")
        terminal.press(typed("help"))
        terminal.wait_for("Irreversible actions show a plan")


@pytest.mark.slow
def test_answers_under_way_are_not_typed_into_the_shell() -> None:
    with opened(["sh", "-c", '"$@"; echo gone; sleep 1', "sh", *APP], line=Line(delay_s=0.2)) as terminal:
        terminal.press("jkjkq")
        assert terminal.process.wait(20) == 0
        terminal.wait_for("gone")
        assert "1;1R" not in terminal.text
        assert terminal.written.count(b"\x1b[6n")


def state_of(terminal: Terminal) -> str:
    """`T` where it is stopped."""
    return Path(f"/proc/{terminal.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def has_it_again(terminal: Terminal, written: int) -> bool:
    return terminal.bytes_total > written and not terminal.echoes


@pytest.mark.slow
def test_a_stopped_app_gives_the_terminal_back_and_takes_it_again() -> None:
    """Finding X4: `Bad file descriptor` after a stop at the wrong moment."""
    with opened() as terminal:
        for _ in range(2):
            terminal.process.send_signal(signal.SIGTSTP)
            terminal.process.send_signal(signal.SIGTSTP)
            retry_until(lambda: state_of(terminal) == "T")
            retry_until(lambda: terminal.written.rpartition(b"\x1b[?1004")[2].startswith(b"l"))
            assert_given_back(terminal)
            written = terminal.bytes_total
            terminal.process.send_signal(signal.SIGCONT)
            retry_until(partial(has_it_again, terminal, written))
            terminal.painted_at()
        terminal.process.send_signal(signal.SIGCONT)  # also to one that runs
        terminal.press(typed("help"))
        terminal.wait_for("Irreversible actions show a plan")
        terminal.press("\x1b")
        terminal.expect_that(lambda screen: "Irreversible actions show a plan" not in screen)
        terminal.painted_at()
        terminal.press("q")
        assert terminal.process.wait(20) == 0
        assert_given_back(terminal)
        assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_answers_that_nobody_waits_for_are_no_keys() -> None:
    """Finding U31: the help opened, and 62c was typed into it."""
    with opened() as terminal:
        before = at_rest(terminal)
        for answer in ("\x1b[?62c", "\x1b[>41;388;0c", "\x1bP!|00000000\x1b\\", "\x1b]10;rgb:ff/ff/ff\x07"):
            terminal.press(answer)
            for part in answer[:2], answer[2:5], answer[5:]:
                terminal.press(part)
        assert at_rest(terminal) == before
        terminal.press(typed("help"))
        terminal.wait_for("Irreversible actions show a plan")


@pytest.mark.slow
def test_letters_behind_the_key_that_opens_a_line_come_in_one_write() -> None:
    """Finding U6: S, I, R, M of "SIGTERM" would have started and restarted things."""
    with opened() as terminal:
        terminal.press("/SIGTERM i S I R M x q")
        terminal.wait_for("SIGTERM i S I R M x q")
        assert "/ SIGTERM i S I R M x q" in terminal.text
