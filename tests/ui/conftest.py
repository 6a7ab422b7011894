"""The app on a fake experiment, with a frozen clock."""

from __future__ import annotations

import asyncio
import base64
import string
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakSet

import pytest
from rich.console import RenderableType
from tests.fakes.experiment import NOW, FakeExperiment
from tests.fakes.runs import FakeRuns
from textual import events
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.screen import Screen

from rltui.client.experiment import Experiment
from rltui.ui.actions import Use, label_of
from rltui.ui.app import RltuiApp
from rltui.ui.base_screen import BaseScreen
from rltui.ui.key_names import character_key
from rltui.ui.messages import NotifyingApp
from rltui.ui.palette.providers import offered_actions

AppMaker = Callable[..., RltuiApp]
Opener = Callable[..., AbstractAsyncContextManager[Pilot[None]]]
S = TypeVar("S", bound=Screen[Any])
SILENT = ("TMUX", "STY", "TERM_PROGRAM", "VTE_VERSION")
"""Variables of terminals that pass no copy on."""
STAY_S = 600.0
REST_S = 5.0
"""Longer than anything here is busy; the same without end is for the test to tell."""


def make_app(
    experiment: Experiment | None,
    *,
    component_ids: tuple[str, ...] | None = None,
    log_ids: tuple[str, ...] | None = None,
    **options: Any,
) -> RltuiApp:
    """The app as the tests use it: known components, no question at the start. Without an experiment, on all
    runs.
    """
    if experiment is not None:
        ids = {"component_ids": component_ids, "log_ids": log_ids}
        changes: Any = {name: value for name, value in ids.items() if value is not None}
        experiment.description = replace(experiment.description, **changes)
    values: dict[str, object] = {
        "runs": FakeRuns(),
        "ask_to_start": False,
        "clock": lambda: NOW,
    } | options
    return RltuiApp(experiment, **values)  # type: ignore[arg-type]


async def come_to_rest(*_: object) -> None:
    """Until there is nothing to do at once: no message on its way, no callback due, no thread at work."""
    loop = asyncio.get_running_loop()
    last = loop.time() + REST_S
    is_busy = True
    while is_busy and loop.time() < last:
        await asyncio.sleep(0.001 if threads_work(loop) else 0)
        is_busy = bool(loop._ready) or threads_work(loop)  # type: ignore[attr-defined]


def threads_work(loop: asyncio.AbstractEventLoop) -> bool:
    """For `asyncio.to_thread`; one that is done has told so."""
    executor = loop._default_executor  # type: ignore[attr-defined]
    return executor is not None and executor._idle_semaphore._value < len(executor._threads)


@pytest.fixture
def painted() -> None:
    """For a test of what painting does: all of it is painted, as on a terminal."""


@pytest.fixture(autouse=True)
def unseen_is_not_painted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sees what an app without a terminal paints, which would take half the time of these tests: each
    screen is painted when it is first shown, when the test looks at it, and as the test leaves it.
    """
    if "painted" in request.fixturenames:
        return
    known: WeakSet[Compositor] = WeakSet()
    paint = Compositor.render_update

    def render_update(compositor: Compositor, full: bool = False, **options: Any) -> RenderableType | None:
        if full or compositor not in known:
            known.add(compositor)
            return paint(compositor, full, **options)
        compositor._dirty_regions.clear()
        return None

    monkeypatch.setattr(Compositor, "render_update", render_update)


@pytest.fixture(autouse=True)
def messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message does not go while a test on a slow machine comes to look at it."""
    monkeypatch.setattr(
        "rltui.ui.messages._STAY_S", dict.fromkeys(("information", "warning", "error"), STAY_S)
    )


@pytest.fixture(autouse=True)
def pilots_wait_for_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's own waits until the process uses little of a CPU: 20 ms at least, a guess when it is busy."""

    async def wait_for_screen(pilot: Pilot[None], *_: object) -> bool:
        await come_to_rest()
        if pilot.app._resize_timer is not None:  # it waits a little for more sizes
            pilot.app._check_resize()
            await come_to_rest()
        return True

    monkeypatch.setattr(Pilot, "_wait_for_screen", wait_for_screen)
    monkeypatch.setattr("textual.pilot.wait_for_idle", come_to_rest)


async def settle(pilot: Pilot[None]) -> None:
    """Let messages, layout and short requests come to rest, and what the new layout brings."""
    await pilot.pause()
    await pilot.pause()


_CHARACTERS = {character_key(character): character for character in f" {string.punctuation}"}
"""By the names of their keys."""


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, by name or by character, as a terminal sends them: each after the effects of the last."""
    for key in keys:
        name = character_key(key) if len(key) == 1 else key
        pilot.app.post_message(events.Key(name, key if len(key) == 1 else _CHARACTERS.get(name)))
        await settle(pilot)


async def choose(pilot: Pilot[None], action_id: str) -> None:
    """By the palette, as an action without a key is chosen."""
    await press(pilot, "colon", *f">{label_of(action_id)}", "enter")


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Wait for `condition`, for as long as a slow machine may need."""
    for _ in range(100):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("waited in vain")


def screen_lines(pilot: Pilot[None]) -> list[str]:
    """What the terminal shows, row by row, with what lies under a dialog."""
    visible_screen_stack.set(pilot.app._background_screens)  # for a dialog that was not painted
    return [strip.text for strip in pilot.app.screen._compositor.render_strips()]


def screen_text(pilot: Pilot[None]) -> str:
    return "\n".join(screen_lines(pilot))


async def opened(pilot: Pilot[None], kind: type[S], *keys: str) -> S:
    """The screen that the last of `keys` has opened, once it has read what it shows."""
    await press(pilot, *keys)
    screen = pilot.app.screen
    assert isinstance(screen, kind)
    await until(pilot, lambda: "reading…" not in screen_text(pilot))
    await settle(pilot)
    return screen


def said(pilot: Pilot[None]) -> list[str]:
    """All that the app has said, oldest first."""
    assert isinstance(pilot.app, NotifyingApp)
    return [each.text for each in pilot.app.messages.said]


def forget(pilot: Pilot[None]) -> None:
    """What the app has said so far."""
    assert isinstance(pilot.app, NotifyingApp)
    pilot.app.messages.said.clear()


def offered(pilot: Pilot[None]) -> tuple[Use, ...]:
    """What the palette has of the actions on the screen that is shown."""
    screen = pilot.app.screen
    assert isinstance(screen, BaseScreen)
    return tuple(use for _, use in offered_actions(screen))


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of day are the same wherever the tests run."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reached the clipboard, through a terminal that passes it on."""
    texts: list[str] = []

    def write(_: HeadlessDriver, data: str) -> None:
        if data.startswith("\x1b]52;c;"):
            texts.append(base64.b64decode(data[len("\x1b]52;c;") :].partition("\x07")[0]).decode())

    monkeypatch.setattr(HeadlessDriver, "write", write)
    for name in SILENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return texts


@pytest.fixture
def experiment() -> FakeExperiment:
    return FakeExperiment()


@pytest.fixture
def open_app() -> Opener:
    @asynccontextmanager
    async def opener(
        experiment: FakeExperiment | None, size: tuple[int, int] = (120, 36), **options: Any
    ) -> AsyncIterator[Pilot[None]]:
        async with make_app(experiment, **options).run_test(size=size) as pilot:
            await settle(pilot)
            yield pilot
            if pilot.app.screen_stack:
                screen_lines(pilot)

    return opener
