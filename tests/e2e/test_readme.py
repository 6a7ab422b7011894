"""The README's five minutes, followed to the letter: what it says to type, in its order, on the real demo."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conftest import Box
from tests.terminal import Terminal
from tests.waiting import retry_until

README = Path(__file__).parents[2] / "README.md"
_KEYS = {"enter": "Enter", "esc": "Escape", "ctrl+r": "C-r"}
_ON_THE_OVERVIEW = r"orchestrator ● "
_BUSY_MACHINE_S = 600.0


class Move(NamedTuple):
    """What the README says to type, and what the screen then shows."""

    typed: str
    shows: str
    """A regular expression; empty: the next one follows at once, or the README only names the key."""
    after: str = ""
    """What is on the screen before."""


def _editor(part: str, component: str, knob: str, name: str, value: str) -> tuple[Move, ...]:
    return (
        Move(part, rf"▸ {component}"),
        Move("e", rf"Knobs of {component}"),
        Move(knob, rf"{name} = "),
        Move("enter", rf"─ {name} ─"),
        Move(value, rf"\b{value}\b"),
    )


STEPS: tuple[tuple[Move, ...], ...] = (
    (
        Move("i", r"▸ inference", after=r"orchestrator ● .*reward"),
        Move("o", r"▸ orchestrator"),
        Move("t", r"▸ trainer"),
        Move("z", r"\A(?!.*orchestrator ●)"),
        Move("z", _ON_THE_OVERVIEW),
        Move("4", r"demo · Metrics"),
        Move("1", _ON_THE_OVERVIEW),
    ),
    (
        Move("5", r"demo · Rollouts", after=r"rollouts are cut off"),
        Move("1", _ON_THE_OVERVIEW),
    ),
    (
        *_editor("o", "orchestrator", "max_tok", "orchestrator.sampling.max_tokens", "16"),
        Move("enter", "", after=r"keep +inference"),
    ),
    (Move("ctrl+r", r"orchestrator ◐"),),
    (
        *_editor("t", "trainer", "optim.lr", "trainer.optim.lr", "50"),
        Move("ctrl+r", r"Write anyway\?"),
        Move("y", r"reward collapsed"),
        Move("B", r"Go back to checkpoint \d+"),
        Move("y", r"orchestrator ◐"),
    ),
    (Move(":", r"> action"), Move("esc", r"orchestrator ● .*reward"), Move("?", r"Keys that work here")),
    (Move("esc", _ON_THE_OVERVIEW), Move("q", "")),
)


def _steps_of_the_readme() -> list[tuple[str, ...]]:
    """Step → what it says to type in the TUI; names of commands and files are not."""
    text = README.read_text().partition("## Five minutes")[2].partition("\n## ")[0]
    steps = re.split(r"^\d\. ", text, flags=re.MULTILINE)[1:]
    return [
        tuple(word for word in re.findall(r"`([^`]+)`", step) if not word.startswith(("rltui", "outputs/")))
        for step in steps
    ]


def test_the_walk_is_the_one_of_the_readme() -> None:
    assert _steps_of_the_readme() == [tuple(move.typed for move in moves) for moves in STEPS]


@pytest.mark.e2e
@pytest.mark.tmux
@pytest.mark.slow
@pytest.mark.timeout(3 * _BUSY_MACHINE_S)
def test_five_minutes(box: Box) -> None:
    """The warning comes, the edit and the restart keep inference warm, the rescue leaves the reward intact,
    leaving leaves all alive.
    """
    pytest.importorskip("torch")
    argv = [sys.executable, "-m", "rltui", "demo"]
    with closing(Terminal(argv, cwd=box.work, env=box.env, columns=120, rows=36)) as terminal:
        terminal.wait_for("about 5 minutes")
        for moves in STEPS[:-1]:
            for move in moves:
                _make(terminal, move)
        status = box.json("status", "demo")
        attempts = {item["id"]: item["attempt"] for item in status["components"]}
        assert attempts["inference"] == 1
        assert attempts["orchestrator"] >= 3
        assert box.json("knobs", "demo", "sampling.max_tokens")["knobs"][0]["running"] == 16
        assert box.json("knobs", "demo", "optim.lr")["knobs"][0]["running"] == 1e-5
        _make(terminal, STEPS[-1][0])
        _make(terminal, STEPS[-1][1])
        terminal.wait_for_end()
    before = box.json("status", "demo")["step"]
    retry_until(lambda: box.json("status", "demo")["step"] > before, timeout_s=60)
    assert box.run("down", "demo").returncode == 0


def _make(terminal: Terminal, move: Move) -> None:
    if move.after:
        terminal.wait_until(_matches(move.after), move.after, timeout_s=_BUSY_MACHINE_S)
    if move.typed == "enter" and not move.shows:
        return  # the README says what it would do
    terminal.press(_KEYS.get(move.typed, move.typed))
    if move.shows:
        terminal.wait_until(_matches(move.shows), move.shows, timeout_s=_BUSY_MACHINE_S)


def _matches(pattern: str) -> Callable[[str], str]:
    """Returns the screen where it matches, else nothing."""
    return lambda screen: screen if re.search(pattern, screen, re.DOTALL) else ""
