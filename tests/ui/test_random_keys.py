"""Whatever keys are pressed, on whatever screen and size, however fast: nothing ends the app."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable

import pytest
from tests.fakes.experiment import (
    LOGS,
    NO_GPU,
    FakeExperiment,
    component,
    gpu_histories,
    gpu_report,
    knob_table,
    running_status,
    stopped_status,
)
from tests.params import slow_but
from tests.ui.checkpoint_cases import REPORT as CHECKPOINTS
from tests.ui.conftest import Opener, make_app, press, until
from tests.ui.trouble import REMEDIES, out_of_memory_status
from textual import events
from textual.app import App
from textual.pilot import Pilot

from rltui.client.protocol import Event
from rltui.core.api import Alert, ComponentState
from rltui.errors import RltuiError
from rltui.ui.app import RltuiApp
from rltui.ui.palette import Palette
from rltui.ui.widgets.virtual_list import VirtualList

SIZES = [(80, 24), (120, 36), (200, 50), (40, 10), (20, 5), (300, 80), (1, 1), (81, 12)]
NAMED = [
    *("enter", "escape", "tab", "shift+tab", "up", "down", "left", "right", "pageup", "pagedown"),
    *("home", "end", "space", "backspace", "delete", "insert", "f1", "shift+up", "shift+end", "alt+x"),
    *("ctrl+a", "ctrl+c", "ctrl+d", "ctrl+k", "ctrl+l", "ctrl+p", "ctrl+t", "ctrl+u", "ctrl+w", "ctrl+y"),
]
CHARACTERS = [chr(code) for code in range(33, 127) if chr(code) != "q"]
OFTEN = [
    "enter",
    "escape",
    "tab",
    "j",
    "k",
    "e",
    "6",
    "3",
    "9",
    "1",
    "colon",
    "question_mark",
    "r",
    "pagedown",
    "slash",
    "1",
    "z",
]
RUN_KEYS = 1000
DEFAULT_KEYS = 150


def any_event(rng: random.Random) -> Event:
    """What a supervisor may tell at any time."""
    return rng.choice(MAKERS)(rng)


def any_status(rng: random.Random) -> Event:
    states = [component(name, rng.choice(list(ComponentState)), log=f"/run/{name}.log") for name in LOGS]
    return running_status(components=tuple(states))


MAKERS: list[Callable[[random.Random], Event]] = [
    any_status,
    lambda _: running_status(),
    lambda _: stopped_status(),
    lambda _: out_of_memory_status(*REMEDIES),
    lambda rng: gpu_report(rng.randrange(9)),
    lambda _: NO_GPU,
    lambda _: knob_table(),
    lambda _: knob_table(files=(), knobs=()),
    lambda _: Alert(kind="crash", severity="error", title="trainer failed", text="exited 1"),
]


def make_experiment(rng: random.Random) -> FakeExperiment:
    experiment = FakeExperiment(any_status(rng), gpu_report(), knob_table(), readonly=rng.random() < 0.1)
    experiment.histories = gpu_histories(gpu_report())
    experiment.checkpoint_report = rng.choice([experiment.checkpoint_report, CHECKPOINTS])
    experiment.texts = {"/work/rl.toml": "max_steps = 20\n"}
    return experiment


def has_ended(app: App[None]) -> bool:
    """It was left, or it crashed, which `run_test` tells at its end."""
    return app._exit or app._exception is not None


class Monkey:
    """Presses keys on an app, and lets happen around it what may happen."""

    def __init__(self, seed: int, pilot: Pilot[None], experiment: FakeExperiment) -> None:
        self.rng = random.Random(seed)
        self.pilot, self.app, self.experiment = pilot, pilot.app, experiment
        self.pressed: list[str] = []

    async def play(self, keys: int) -> None:
        """Until so many keys are pressed or the app was left."""
        while len(self.pressed) < keys and not has_ended(self.app):
            for _ in range(self.rng.choice((1, 1, 2, 5, 20))):
                self.press(self.any_key())
            await self.pilot.pause(self.rng.choice((None, None, None, 0.01, 0.02)))
            await self.disturb()

    def any_key(self) -> str:
        choices = self.rng.choice((OFTEN, OFTEN, NAMED, CHARACTERS))
        return self.rng.choice(choices)

    def press(self, key: str) -> None:
        """As the driver does: into the queue, whatever is busy."""
        self.pressed.append(key)
        event = events.Key(key, key if len(key) == 1 else None)
        event.set_sender(self.app)
        self.app.post_message(event)

    async def disturb(self) -> None:
        """Now and then: another size, news, an error, a supervisor that goes away."""
        chance = self.rng.random()
        if chance < 0.03:
            await self.pilot.resize_terminal(*self.rng.choice(SIZES))
        elif chance < 0.12:
            self.experiment.push(any_event(self.rng))
        elif chance < 0.13:
            self.experiment.end_stream()
        elif chance < 0.16:
            self.experiment.error = self.rng.choice((None, RltuiError("it did not work", hint="try again")))
        elif chance < 0.18:
            self.experiment.plan_delay_s = self.rng.choice((0.0, 0.05))


async def play(seed: int, keys: int) -> int:
    """Press random keys on a new app; returns how many."""
    rng = random.Random(seed)
    experiment = make_experiment(rng)
    app: RltuiApp = make_app(experiment, ask_to_start=rng.random() < 0.2)
    pressed: list[str] = []
    try:
        async with app.run_test(size=rng.choice(SIZES)) as pilot:
            monkey = Monkey(seed, pilot, experiment)
            pressed = monkey.pressed
            await monkey.play(keys)
            while app.message_queue_size and not has_ended(app):  # `run_test` does not wait for them
                await pilot.pause()
    except BaseException:
        print(f"seed {seed}, size {app.size}, the last keys: {' '.join(pressed[-40:])}")
        raise
    return len(pressed)


@pytest.mark.parametrize("seed", slow_but(range(3), "1"))
async def test_random_keys_end_nothing(seed: int) -> None:
    await play(seed, DEFAULT_KEYS)


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_many_random_keys_end_nothing() -> None:
    """`RANDOM_KEYS` of them, from the seed `RANDOM_SEED` on."""
    left = int(os.environ.get("RANDOM_KEYS", "100000"))
    seed = int(os.environ.get("RANDOM_SEED", "1000"))
    while left > 0:
        left -= await play(seed, min(left, RUN_KEYS))
        seed += 1


async def test_a_sign_that_is_bound_to_nothing_ends_no_screen(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    """Finding X3: `@` ended six of them, whose list had a method that was called `key_at`."""
    async with open_app(experiment) as pilot:
        for screen in "1234567890":
            await press(pilot, screen, "at", "tab", "at", "tab", "at")
            assert not has_ended(pilot.app), screen


async def test_a_page_key_before_the_palette_is_laid_out_ends_nothing(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    """Finding H1."""
    async with open_app(experiment) as pilot:
        for key in ("colon", "pagedown", "pageup", "pagedown"):
            pilot.app.simulate_key(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, Palette))
        await press(pilot, "pagedown")
        assert pilot.app.screen.query_one(VirtualList).at > 1


@pytest.mark.parametrize("opening", ["6", "3"])
async def test_a_second_escape_in_haste_leaves_nothing_more(
    experiment: FakeExperiment, open_app: Opener, opening: str
) -> None:
    """Random keys found it: the second took the overview away, and the TUI ended."""
    async with open_app(experiment) as pilot:
        below = pilot.app.screen
        await press(pilot, opening)
        opened = pilot.app.screen
        assert opened is not below
        await asyncio.gather(opened.run_action("show_overview"), opened.run_action("show_overview"))
        await pilot.pause()
        assert pilot.app.screen is below
