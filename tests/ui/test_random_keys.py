"""Whatever keys are pressed, on whatever screen and size, however fast: nothing ends the app."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from itertools import chain, count

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
from tests.fakes.runs import FakeRuns
from tests.params import slow_but
from tests.ui.checkpoint_cases import REPORT as CHECKPOINTS
from tests.ui.conftest import Opener, make_app, press, until
from tests.ui.run_cases import RUNS
from tests.ui.terminal.test_incoming import ANSWERS
from tests.ui.trouble import REMEDIES, out_of_memory_status
from textual.app import App
from textual.pilot import Pilot

from rltui.client.experiment import Event
from rltui.core.experiment.api import Alert
from rltui.core.experiment.states import ComponentState
from rltui.errors import RltuiError
from rltui.ui.app import RltuiApp
from rltui.ui.palette.screen import Palette
from rltui.ui.terminal.incoming import Incoming
from rltui.ui.widgets.virtual_list import VirtualList

pytestmark = pytest.mark.usefixtures("painted")

SIZES = [(80, 24), (120, 36), (200, 50), (40, 10), (20, 5), (300, 80), (1, 1), (81, 12)]
CHARACTERS = [chr(code) for code in range(32, 127) if chr(code) != "q"] + ["é", "漢", "👍"]
CONTROLS = [chr(code) for code in range(1, 32)] + ["\x7f"]
"""Also ctrl+z, and escape, which makes alt of a letter behind it."""
SEQUENCES = [
    *(f"\x1b[{key}" for key in "ABCDHFZP"),
    *(f"\x1b[1;{modifier}{key}" for modifier in "2356" for key in "ABCDHF"),
    *(f"\x1b[{number}~" for number in (2, 3, 5, 6, 15, 17, 24)),
    *("\x1bOP", "\x1bOQ", "\x1bOH", "\x1b[97;5u", "\x1b[57414u", "\x1b[13;2u", "\x1b[I", "\x1b[O"),
]
OFTEN = [*"\r\x1b\tjk\x1be63948572013r:?r/1z#f@E[]", "\x1b[6~", "\x1b[B", "\x1b[A"]
PASTES = ["SIGTERM sxSRq", "two\nlines\n", "", "\x1b[?62c", "x" * 5000, "0.5", "[red]q[/red]"]
FAULTY_SEEDS = (1023,)
"""Those that once ended the app, first of all."""
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


def make_experiment(rng: random.Random) -> FakeExperiment | None:
    """One that runs, one that is over, or none: all runs."""
    if rng.random() < 0.15:
        return None
    experiment = FakeExperiment(any_status(rng), gpu_report(), knob_table(), readonly=rng.random() < 0.1)
    if rng.random() < 0.2:
        experiment = FakeExperiment(stopped_status(), readonly=True)
        experiment.finished = True
    experiment.histories = gpu_histories(gpu_report())
    experiment.checkpoint_report = rng.choice([experiment.checkpoint_report, CHECKPOINTS])
    experiment.texts = {"/work/rl.toml": "max_steps = 20\n"}
    return experiment


def has_ended(app: App[None]) -> bool:
    """It was left, or it crashed, which `run_test` tells at its end."""
    return app._exit or app._exception is not None


class Monkey:
    """Types on an app, and lets happen around it what may happen."""

    def __init__(self, seed: int, pilot: Pilot[None], experiment: FakeExperiment | None) -> None:
        self.rng = random.Random(seed)
        self.pilot, self.app, self.experiment = pilot, pilot.app, experiment
        self.incoming = Incoming()
        self.pressed: list[str] = []

    async def play(self, keys: int) -> None:
        """Until so many keys are pressed or the app was left."""
        while len(self.pressed) < keys and not has_ended(self.app):
            typed = [self.any_key() for _ in range(self.rng.choice((1, 1, 2, 5, 20)))]
            self.pressed += typed
            self.read("".join([*typed, self.anything_else()]))
            await self.pilot.pause(self.rng.choice((None, None, None, 0.01, 0.02)))
            await self.disturb()

    def any_key(self) -> str:
        kind: list[str] = self.rng.choice((OFTEN, OFTEN, OFTEN, CHARACTERS, CONTROLS, SEQUENCES))
        return self.rng.choice(kind)

    def anything_else(self) -> str:
        """Also in between: a paste, the mouse, an answer that nobody waits for."""
        chance = self.rng.random()
        if chance < 0.03:
            return f"\x1b[200~{self.rng.choice(PASTES)}\x1b[201~"
        if chance < 0.08:
            return self.rng.choice(list(ANSWERS.values()))
        if chance < 0.15:
            at = f"{self.rng.randint(1, 220)};{self.rng.randint(1, 60)}"
            return (
                f"\x1b[<0;{at}M\x1b[<0;{at}m"
                if chance < 0.12
                else f"\x1b[<{self.rng.choice(['65', '64', '35'])};{at}M"
            )
        return ""

    def read(self, text: str) -> None:
        """As the driver does, cut anywhere: into the queue, whatever is busy."""
        cut = self.rng.randint(0, len(text))
        for message in (
            *self.incoming.feed(text[:cut]),
            *self.incoming.feed(text[cut:]),
            *self.incoming.flush(),
        ):
            message.set_sender(self.app)
            self.app.post_message(message)

    async def disturb(self) -> None:
        """Now and then: another size, news, an error, a supervisor that goes away."""
        chance, experiment = self.rng.random(), self.experiment
        if chance < 0.03:
            await self.pilot.resize_terminal(*self.rng.choice(SIZES))
        elif experiment is None or experiment.finished:
            return
        elif chance < 0.12:
            experiment.push(any_event(self.rng))
        elif chance < 0.13:
            experiment.end_stream()
        elif chance < 0.16:
            experiment.error = self.rng.choice((None, RltuiError("it did not work", hint="try again")))
        elif chance < 0.18:
            experiment.plan_delay_s = self.rng.choice((0.0, 0.05))


async def play(seed: int, keys: int) -> int:
    """Press random keys on a new app; returns how many."""
    rng = random.Random(seed)
    experiment = make_experiment(rng)
    runs = FakeRuns(*RUNS)
    app: RltuiApp = make_app(experiment, runs=runs, ask_to_start=rng.random() < 0.2)
    pressed: list[str] = []
    try:
        async with app.run_test(size=rng.choice(SIZES)) as pilot:
            monkey = Monkey(seed, pilot, experiment)
            pressed = monkey.pressed
            await monkey.play(keys)
            while app.message_queue_size and not has_ended(app):  # `run_test` does not wait for them
                await pilot.pause()
    except BaseException:
        print(f"seed {seed}, size {app.size}, {len(pressed)} keys, the last of them: {pressed[-50:]}")
        raise
    return len(pressed)


@pytest.mark.parametrize("seed", slow_but(range(3), "1"))
async def test_random_keys_end_nothing(seed: int) -> None:
    await play(seed, DEFAULT_KEYS)


@pytest.mark.faults
@pytest.mark.timeout(7200)
async def test_many_random_keys_end_nothing() -> None:
    """`RANDOM_KEYS` of them: the seeds that once ended it, then those from `RANDOM_SEED` on."""
    left = int(os.environ.get("RANDOM_KEYS", "100000"))
    seeds = chain(FAULTY_SEEDS, count(int(os.environ.get("RANDOM_SEED", "1000"))))
    while left > 0:
        left -= await play(next(seeds), min(left, RUN_KEYS))


@pytest.mark.slow
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
        assert pilot.app.screen.query_one(VirtualList).cursor_index > 1


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
