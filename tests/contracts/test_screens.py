"""What each screen of the app shows of runs that have ended, in a real tmux, by keys."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import forked
from tests.contracts.conftest import RecordedBox
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

PROGRAM = Path(__file__).with_name("still_clock.py")
SCREENS = (
    ("2", "all merged"),
    ("4", "Reward 0.0"),
    ("5", "Sample 1 of 32"),
    ("6", "· Config ·"),
    ("9", "· Checkpoints ·"),
    ("7", "rltui Runs ·"),
    ("Q", "rltui Queue ·"),
)
"""Keys, and what is on the screen that each of them opens."""
PICTURES = Path(__file__).with_name("screens")
STILL_LOOKS = 30
"""Alike in a row, a tenth of a second apart: what is recorded is whole."""


@contextmanager
def opened(box: RecordedBox, *words: str, columns: int = 120, rows: int = 36) -> Iterator[Terminal]:
    env = {name: value for name, value in box.env.items() if name not in (forked.CLOCK, "COLUMNS")}
    argv = [sys.executable, "-P", str(PROGRAM), box.env[forked.CLOCK], *words]
    terminal = Terminal(argv, cwd=box.work, env=env, columns=columns, rows=rows)
    try:
        yield terminal
    finally:
        terminal.close()
        box.output("down", words[0])


@dataclass(frozen=True)
class Looks:
    """At one terminal, compared with the recorded pictures of a folder; `--snapshot-update` records them."""

    terminal: Terminal
    box: RecordedBox
    pictures: Path
    updates: bool

    def look(self, name: str, *, once: str) -> None:
        """Until the screen that has the text `once` is as it was recorded."""
        self.terminal.wait_for(once)
        picture = self.pictures / f"{name}.txt"
        if self.updates:
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_text(self._rested())
        recorded = picture.read_text()
        try:
            retry_until(lambda: self._shown() == recorded, timeout_s=20.0, interval_s=0.1)
        except TimeoutError:
            assert self._shown() == recorded, picture

    def _shown(self) -> str:
        return self.box.with_placeholders(self.terminal.screen())

    def _rested(self) -> str:
        seen: list[str] = []

        def is_still() -> bool:
            seen.append(self._shown())
            return len(seen) >= STILL_LOOKS and len({*seen[-STILL_LOOKS:]}) == 1

        retry_until(is_still, timeout_s=60.0, interval_s=0.1)
        return seen[-1]


@pytest.fixture
def updates(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.option.update_snapshots)


def test_screens_of_a_run(own_box: RecordedBox, updates: bool) -> None:
    with opened(own_box, "first") as terminal:
        looks = Looks(terminal, own_box, PICTURES / "first", updates)
        looks.look("1", once="done · step 24/24")
        for key, text in SCREENS:
            terminal.press(key)
            looks.look(key, once=text)


def test_screens_at_80_by_24(own_box: RecordedBox, updates: bool) -> None:
    with opened(own_box, "second", columns=80, rows=24) as terminal:
        looks = Looks(terminal, own_box, PICTURES / "second", updates)
        looks.look("1", once="second")
        for key, name, text in (
            ("?", "help", "Keys that work here"),
            ("Escape", "1", "second"),
            ("7", "7", "rltui Runs ·"),
        ):
            terminal.press(key)
            looks.look(name, once=text)
