"""What people want of a run, from the screen alone: a few keys, the words that must be seen, what is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.experiment import FakeExperiment, running_status
from tests.fakes.runs import FakeRuns, run_row
from tests.params import slow_but
from tests.ui.checkpoint_cases import with_checkpoints
from tests.ui.compare_cases import compared_runs
from tests.ui.config_cases import BATCH, OFFER, SHARE, config_experiment
from tests.ui.conftest import make_app, press, said, screen_text, settle, until
from tests.ui.journal import journal
from tests.ui.metric_cases import experiment_with_run
from tests.ui.queue_cases import with_queue
from tests.ui.rollout_cases import stream
from tests.ui.status_cases import failed_status
from tests.ui.trouble import waiting_status
from textual.pilot import Pilot

from rltui.core.api import Request
from rltui.core.forks import ForkRequest

pytestmark = pytest.mark.usefixtures("utc")

LR = "trainer.optim.lr"


@dataclass
class World:
    """An experiment that is open, and all runs; what was asked of them."""

    experiment: FakeExperiment = field(default_factory=FakeExperiment)
    runs: FakeRuns = field(default_factory=lambda: FakeRuns(run_row("base", folder="/run"), run_row("other")))

    def executed(self) -> list[Request]:
        return self.experiment.executed


@dataclass(frozen=True)
class Task:
    make: Callable[[Path], World]
    keys: tuple[str, ...]
    words: tuple[str, ...] = ()
    """They are seen, or were said, at the end."""
    done: Callable[[World, Pilot[None]], object] = lambda *_: True


def of(experiment: Callable[[], FakeExperiment]) -> Callable[[Path], World]:
    return lambda _: World(experiment())


def with_status(**values: object) -> Callable[[Path], World]:
    def make(_: Path) -> World:
        experiment = config_experiment()
        experiment.push(running_status(**values))
        return World(experiment)

    return make


def failed(_: Path) -> World:
    experiment = FakeExperiment()
    experiment.push(failed_status())
    return World(experiment)


def waiting(_: Path) -> World:
    experiment = FakeExperiment()
    experiment.push(waiting_status())
    return World(experiment)


def with_rollouts(folder: Path) -> World:
    experiment = FakeExperiment()
    experiment.rollouts = stream(folder)
    return World(experiment)


def with_journal(_: Path) -> World:
    experiment = FakeExperiment()
    experiment.entries = journal()
    return World(experiment)


def edits(key: str, value: object) -> Callable[[World, Pilot[None]], object]:
    """The edit is written, and what reads it restarts."""
    return lambda world, _: (
        [(request.edits, request.restart) for request in world.executed()] == [({key: value}, True)]
    )


def does(request: Request) -> Callable[[World, Pilot[None]], object]:
    return lambda world, _: world.executed() == [request]


TASKS: dict[str, Task] = {
    "batch size and restart": Task(
        of(config_experiment), ("ctrl+k", "enter", *["backspace"] * 2, *"128", "ctrl+r"),
        done=edits(BATCH, 128),
    ),
    "new lr, trainer only": Task(
        of(config_experiment),
        ("6", "slash", *"optim.lr", "enter", "e", *["backspace"] * 5, *"1e-4", "ctrl+r"),
        done=edits(LR, 1e-4),
    ),
    "halve inference memory": Task(
        of(config_experiment),
        ("6", "slash", *"gpu_mem", "enter", "e", *["backspace"] * 4, *"0.25", "ctrl+r"),
        done=edits(SHARE, 0.25),
    ),
    "back to the best checkpoint": Task(
        of(with_checkpoints), ("9", "greater_than_sign", "home", "enter", "y"),
        done=does(Request(action="restart", resume_step=420)),
    ),
    "out of a collapse": Task(
        with_status(rollback=OFFER.model_copy(update={"reason": "reward collapsed", "resume_step": 420})),
        ("B", "y"),
        done=lambda world, _: [request.action for request in world.executed()] == ["undo"]
        and world.executed()[0].resume_step == 420,
    ),
    "restart after a crash": Task(
        failed, ("r", "enter"), done=does(Request(action="restart", components=("inference",)))
    ),
    "compare two runs' lr and reward": Task(
        lambda _: World(runs=compared_runs()), ("7", "m", "m", "c"), ("Config · ", "lr", "reward last"),
    ),
    "worst answer of an earlier step": Task(
        with_rollouts, ("5", *["left_square_bracket"] * 3), ("Samples of step 5 · worst first", "answer 5"),
    ),
    "why does it wait": Task(waiting, (), ("waits for GPU 0: needs 71.9 GiB free, 12.1 GiB free",)),
    "why does a queued run wait": Task(
        lambda _: World(runs=with_queue()), ("Q", "j", "j", "j"), ("4 of 8 GPUs needed, 3 free",),
    ),
    "who is the bottleneck": Task(of(FakeExperiment), (), ("waiting for batch",)),
    "tag a run": Task(
        of(FakeExperiment), ("7", "e", *"paper", "enter"),
        done=lambda world, _: [change.add_tags for _, change in world.runs.changes] == [("paper",)],
    ),
    "rename a run": Task(
        of(FakeExperiment), ("7", "colon", *"rename", "enter", *["backspace"] * 5, *"new", "enter"),
        done=lambda world, _: [change.name for _, change in world.runs.changes] == ["new"],
    ),
    "command, environment, folder, pid and port of a component": Task(
        of(FakeExperiment), ("t", "I"),
        ("trainer of reverse-text", "python -m trainer @ rl.toml", "CUDA_VISIBLE_DEVICES=0", "/work", "pid"),
    ),
    "copy the failing command": Task(failed, ("I", "enter"), ("Copied the command",)),
    "copy a log line": Task(of(FakeExperiment), ("t", "v", "y"), ("Copied",)),
    "chart beside the logs": Task(of(experiment_with_run), ("C",), ("reward", "trainer")),
    "what did I change": Task(
        of(config_experiment), ("d",), ("File and running differ", "orchestrator.batch_size 128 → 64")
    ),
    "undo": Task(
        of(config_experiment), ("u", "y"),
        done=lambda world, _: [request.action for request in world.executed()] == ["undo"],
    ),
    "note": Task(
        of(FakeExperiment), ("number_sign", *"new data", "enter"),
        done=lambda world, _: [entry.text for entry in world.experiment.entries] == ["new data"],
    ),
    "only edits in events": Task(
        with_journal, ("8", "f", *["down"] * 5, "enter", "k"), ("2 of 15 · only edit", "trainer.optim.lr")
    ),
    "fork with another lr": Task(
        of(FakeExperiment), ("7", "Y", *"lr=1e-3", "enter"),
        done=lambda world, _: [wish for _, wish in world.runs.forked] == [ForkRequest(edits={"lr": "1e-3"})],
    ),
    "evaluate a checkpoint": Task(
        of(with_checkpoints), ("9", "j", "s", "enter"),
        done=lambda world, _: len(world.experiment.evaluated) == 1,
    ),
    "queue a run": Task(
        of(FakeExperiment), ("7", "Y", *["tab"] * 3, *"queue", "enter"),
        done=lambda world, _: [wish.is_queued for _, wish in world.runs.forked] == [True],
    ),
    "pause the queue": Task(
        lambda _: World(runs=with_queue()), ("Q", "P"),
        done=lambda world, _: world.runs.queue_requests == [("pause", "", "")],
    ),
    "another run": Task(
        of(FakeExperiment), ("7", "j", "enter"), done=lambda world, _: len(world.runs.opened) == 1
    ),
    "theme": Task(
        of(FakeExperiment), ("colon", *"light", "enter"),
        done=lambda _, pilot: "light" in pilot.app.theme,
    ),
    "leave": Task(of(FakeExperiment), ("q",), done=lambda _, pilot: pilot.app._exit),
    "GPU memory over time": Task(of(FakeExperiment), ("3",), ("Memory",)),
    "KL over the steps": Task(
        of(experiment_with_run), ("4", "slash", *"kl", "enter"), ("KL to the sampler",)
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "task", slow_but(TASKS, "queue a run", "rename a run", "back to the best checkpoint")
)
async def test_it_is_done_from_the_screen_alone(task: Task, tmp_path: Path) -> None:
    world = task.make(tmp_path)
    app = make_app(world.experiment, runs=world.runs)
    app.animation_level = "none"
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        for key in task.keys:
            await press(pilot, key)
        try:
            await until(pilot, lambda: task.done(world, pilot) and not missing(task, pilot))
        except AssertionError:
            raise AssertionError(
                f"{missing(task, pilot)} not in\n{screen_text(pilot)}\n{said(pilot)}"
            ) from None


def missing(task: Task, pilot: Pilot[None]) -> list[str]:
    text = "\n".join([screen_text(pilot), *said(pilot)])
    return [word for word in task.words if word not in text]
