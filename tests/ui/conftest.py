"""The app on a fake experiment, with a frozen clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from tests.fakes.experiment import LOGS, NOW, FakeExperiment
from textual.pilot import Pilot

from rltui.ui.app import RltuiApp

AppMaker = Callable[..., RltuiApp]
Opener = Callable[..., AbstractAsyncContextManager[Pilot[None]]]


def make_app(experiment: FakeExperiment, **options: object) -> RltuiApp:
    """The app as the tests use it: known components, no question at the start."""
    values: dict[str, object] = {
        "component_ids": tuple(LOGS),
        "ask_to_start": False,
        "clock": lambda: NOW,
    } | options
    return RltuiApp(experiment, **values)  # type: ignore[arg-type]


async def settle(pilot: Pilot[None]) -> None:
    """Let messages, layout and short requests come to rest."""
    await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """As `Pilot.press`, with one wait per key instead of three."""
    for key in keys:
        pilot.app.simulate_key(key)
        await pilot.pause()
    await pilot.pause()


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Wait for `condition`, for as long as a slow machine may need."""
    for _ in range(100):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("waited in vain")


@pytest.fixture
def experiment() -> FakeExperiment:
    return FakeExperiment()


@pytest.fixture
def open_app() -> Opener:
    @asynccontextmanager
    async def opener(
        experiment: FakeExperiment, size: tuple[int, int] = (120, 36), **options: object
    ) -> AsyncIterator[Pilot[None]]:
        async with make_app(experiment, **options).run_test(size=size) as pilot:
            await settle(pilot)
            yield pilot

    return opener
