"""A screen that tests look at: how one gets there, and the words that must be seen at which size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import make_app, press, screen_lines, screen_text, settle, until
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.ui.app import RltuiApp

Walk = Callable[[Pilot[None]], Awaitable[None]]
SMALL, MIDDLE, MEDIUM, WIDE, HUGE = (80, 24), (120, 36), (130, 40), (160, 45), (200, 50)
SIZES = {
    "small": SMALL, "middle": MIDDLE, "medium": MEDIUM, "wide": WIDE, "huge": HUGE,
    "panes": (80, 30), "narrow": (60, 36),
}  # fmt: skip
"""Columns and rows, by the names that cases have."""


@dataclass(frozen=True)
class Scene:
    """An app, the way to a screen of it, and the words of that screen, each within one line."""

    app: Callable[[Path], App[Any]]
    """Made anew for each case; it may write into the folder."""
    walk: Walk
    words: tuple[str, ...]
    """Those that every size shows."""
    sizes: Mapping[str, tuple[str, ...]]
    """What each size shows beside them."""

    def open(self, folder: Path) -> App[Any]:
        app = self.app(folder)
        app.animation_level = "none"
        return app

    async def reach(self, pilot: Pilot[None], size: str) -> None:
        """Walk there, and see all that must be seen.

        Raises:
            AssertionError: something is not there, or is cut.
        """
        await settle(pilot)
        await self.walk(pilot)
        await settle(pilot)
        words = (*self.words, *self.sizes[size])
        try:
            await until(pilot, lambda: not missing(pilot, words))
        except AssertionError:
            raise AssertionError(f"{missing(pilot, words)} not in\n{screen_text(pilot)}") from None
        for field in pilot.app.screen.query(Input):
            field.cursor_blink = False
        await settle(pilot)
        if isinstance(pilot.app, RltuiApp):
            assert_whole(pilot)


def scene(
    app: Callable[[Path], App[Any]],
    way: tuple[str, ...] | Walk,
    *words: str,
    **sizes: tuple[str, ...],
) -> Scene:
    """A scene whose way is keys, or more than that."""
    return Scene(app, pressed(*way) if isinstance(way, tuple) else way, words, sizes)


def on(experiment: Callable[[], FakeExperiment]) -> Callable[[Path], RltuiApp]:
    """The app on an separate experiment."""
    return lambda folder: make_app(experiment())


def pressed(*keys: str) -> Walk:
    async def walk(pilot: Pilot[None]) -> None:
        await press(pilot, *keys)

    return walk


def missing(pilot: Pilot[None], words: tuple[str, ...]) -> list[str]:
    text = screen_text(pilot)
    return [word for word in words if word not in text]


def assert_whole(pilot: Pilot[None]) -> None:
    """Title above, keys below, and nothing beyond the right edge."""
    columns, rows = pilot.app.size
    lines = screen_lines(pilot)
    assert len(lines) == rows
    assert all(cell_len(line) <= columns for line in lines)
    assert lines[0].startswith(" rltui"), lines[0]
    keys, rest, _ = lines[-1].partition("q detach")
    assert keys.strip(), "no keys"
    assert not rest or "…" not in keys, keys
