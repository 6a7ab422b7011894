"""What people want of a run, from the screen alone: keys, what they read, what has changed in files then.

The run is that of `tests.ui.real_run`: only what would stop and start processes is noted in place of being
done.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.params import slow_but
from tests.ui.conftest import make_app, press, said, screen_text, settle, until
from tests.ui.real_run import BEST_STEP, CONFIG, KL_OF_300, PORT, TRACEBACK, WORST_OF_40, RealRun, real_run
from textual.app import App
from textual.pilot import Pilot

from rltui import paths, settings
from rltui.client.starting import Started, StartOrder
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import Request
from rltui.core.experiment.states import ComponentState
from rltui.services.actor import acting_as
from rltui.services.experiment.journal import read_journal
from rltui.services.experiment.registry import find_experiment
from rltui.services.runs.queue_file import read_queue
from rltui.ui import actions, keymap

pytestmark = pytest.mark.usefixtures("utc", "own_user")

MOST_KEYS = 8
LR = "trainer.optim.lr"


class Word(str):
    """Typed, and not counted as keys."""

    __slots__ = ()


@dataclass(frozen=True)
class Sees:
    """Words that are on the screen, or have been said, before the next key."""

    words: tuple[str, ...]


def sees(*words: str) -> Sees:
    return Sees(words)


AGAIN = "opened again"
"""The TUI has ended, and is opened again."""


@dataclass
class World:
    run: RealRun
    copied: list[str]
    """What has reached the clipboard, through a terminal that passes it on."""
    forked: list[Mapping[str, str]]
    """Forks that would have been made."""
    theme: str = ""

    @property
    def config(self) -> dict[str, Any]:
        return tomllib.loads(self.run.config.read_text())

    def metadata(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.run.run_dir / ".rltui" / "run.json").read_text())
        return values

    def notes(self) -> list[str]:
        entries = read_journal(self.run.supervisor.runtime.setup.control.journal_file)
        return [entry.text for entry in entries if entry.kind == "note"]

    def restarts(self) -> list[tuple[tuple[str, ...], tuple[str, ...], int | None]]:
        """What would have been started, what kept, and from which checkpoint."""
        return [(plan.start, plan.keep, plan.resume_from) for plan in self.run.acted]


Act = Callable[[World], object]
Step = str | Sees


@dataclass(frozen=True)
class Task:
    keys: int
    """How many, besides the words that are typed."""
    steps: tuple[Step, ...]
    done: Act = lambda _: True
    before: Act = lambda _: None
    """What has happened to the run before it is opened."""
    collapsed: bool = False


PAIR = ("orchestrator", "trainer")
ALL = ("inference", *PAIR)


async def edit_lr(world: World) -> None:
    supervisor = world.run.supervisor
    supervisor.runtime.events.journal.note("before the edit")
    with acting_as(Actor(kind="tui", user="ada", pid=7)):
        await supervisor.commands.execute(Request(action="set", edits={LR: 5e-4}))


def kill_trainer(world: World) -> None:
    world.run.fail("trainer", signal="SIGKILL")


def wait_for_gpu(world: World) -> None:
    world.run.wait_for("trainer", "waiting for GPU 0: needs 71.9 GiB free, 12.1 GiB free")


def choose_editor(world: World) -> None:
    """An editor that gives the zoom another key, below the table of keys."""
    script = world.run.folder / "editor.sh"
    script.write_text('#!/bin/sh\nfor file; do :; done\nsed -i \'s/^.keys.$/&\\nzoom = "ctrl+o"/\' "$file"\n')
    script.chmod(0o700)
    os.environ["EDITOR"] = os.environ["VISUAL"] = str(script)


def lives_as_before(world: World) -> bool:
    runners = world.run.supervisor.runtime.processes.runners
    states = {runners[name].lifecycle.state for name in ALL}
    return states == {ComponentState.READY} and world.run.acted == [] and world.run.is_trainer_alive()


TASKS: dict[str, Task] = {
    "batch size and restart": Task(
        5,
        ("6", "/", Word("batch_size"), "enter", "e", Word("64"),
         sees("+batch_size = 64", "start      orchestrator → trainer", "keep       inference (not touched)",
              "lose       10 steps · from the newest checkpoint (390 now)"),
         "ctrl+r", sees("Written. Restarting orchestrator and trainer")),
        done=lambda world: world.config["orchestrator"]["batch_size"] == 64
        and world.restarts() == [(PAIR, ("inference",), None)],
    ),
    "new lr, trainer only": Task(
        5,
        ("6", "/", Word("optim.lr"), "enter", "e", Word("1e-4"),
         sees("+lr = 0.0001", "stop       trainer → orchestrator", "keep       inference (not touched)",
              "because    trainer.optim.lr is read by trainer at start",
              "trainer cannot restart alone: orchestrator restarts with"),
         "ctrl+r", sees("Restarting orchestrator and trainer")),
        done=lambda world: world.config["trainer"]["optim"]["lr"] == 1e-4
        and world.restarts() == [(PAIR, ("inference",), None)],
    ),
    "halve inference memory": Task(
        6,
        ("6", "/", Word("gpu_mem"), "enter", "e", sees("* / ×2 ÷2"), "/",
         sees("+gpu_memory_utilization = 0.45", "start      inference → orchestrator → trainer"),
         "ctrl+r", sees("Restarting inference, orchestrator and trainer")),
        done=lambda world: world.config["inference"]["gpu_memory_utilization"] == 0.45
        and world.restarts() == [(ALL, (), None)],
    ),
    "back to the best checkpoint": Task(
        5,
        ("9", sees("highest reward"), ">", sees("highest reward first"), "home", sees(f"▸  {BEST_STEP}"),
         "enter",
         sees(f"Restart from checkpoint {BEST_STEP}?", f"resumes after step {BEST_STEP}", "set aside"), "y",
         sees("Restarting orchestrator and trainer")),
        done=lambda world: world.restarts() == [(PAIR, ("inference",), BEST_STEP)],
    ),
    "out of a collapse": Task(
        2,
        (sees("⚠ reward collapsed", "B roll back"), "B",
         sees("Go back to checkpoint 370 with trainer.optim.lr = 0.0001?",
              "reward collapsed: the reward was", "resumes after step 370"),
         "enter", sees("Restarting orchestrator and trainer")),
        done=lambda world: world.config["trainer"]["optim"]["lr"] == 1e-4
        and world.restarts() == [(PAIR, ("inference",), 370)],
        collapsed=True,
    ),
    "restart after SIGKILL": Task(
        2,
        (sees("✗ failed: trainer", "▸ trainer ✗ failed SIGKILL"), "r", sees("Restart trainer?"), "enter",
         sees("Restarting orchestrator and trainer")),
        done=lambda world: world.restarts() == [(PAIR, ("inference",), None)],
        before=kill_trainer,
    ),
    "first traceback of attempt 1": Task(
        4,
        ("t", "[", sees("attempt 1, ] later", "E errors"), "E", sees("errors 2 of 2"), "E",
         sees("errors 1 of 2", *TRACEBACK.splitlines())),
    ),
    "compare two runs' lr and reward": Task(
        4,
        ("7", "m", "m", sees("m mark"), "c",
         sees("Compare · 2 runs", "trainer.optim.lr", "0.0002", "0.00025", "reward last 10")),
    ),
    "worst answer at step 40": Task(
        3,
        ("5", ":", Word("40"), "enter",
         sees("Samples of step 40 · worst first", "reward 0.000", WORST_OF_40)),
    ),
    "why does it wait": Task(
        0, (sees("waiting for GPU 0: needs 71.9 GiB free, 12.1 GiB free"),), before=wait_for_gpu
    ),
    "who is the bottleneck": Task(0, (sees("trainer waits for a batch 75 %"),)),
    "remap a key": Task(
        4,
        (":", Word("keys"), sees("setting    keys "), "enter", sees("Written: "), "q", AGAIN,
         sees("ctrl+o zoom"), "ctrl+o", sees("orchestrator does step 180")),
        done=lambda _: settings.load(paths.settings_file()).keys == {"zoom": ("ctrl+o",)},
        before=choose_editor,
    ),
    "tag a run": Task(
        3, ("7", "e", sees("Tags"), Word("paper"), "enter", sees("paper")),
        done=lambda world: world.metadata()["tags"] == ["paper"],
    ),
    "rename a run": Task(
        4,
        ("7", ":", Word("rename"), "enter", sees("─ Rename demo ─"), Word("better"), "enter",
         sees("demo renamed to better")),
        done=lambda _: find_experiment("better") is not None and find_experiment("demo") is None,
    ),
    "command, environment and folder of a component": Task(
        2,
        ("t", "I",
         sees("trainer of demo", "python -m rltui.tinyrl trainer @ rl.toml", "CUDA_VISIBLE_DEVICES=0",
              "│ folder ", "/work ")),
    ),
    "pid and port": Task(
        5,
        ("t", "I", sees("pid ", "trainer of demo"), "escape", "i", "I",
         sees("inference of demo", "port", str(PORT))),
    ),
    "copy a log line": Task(
        3, ("t", "v", "y", sees("Copied 1 line")),
        done=lambda world: world.copied == ["12:03:19 INFO trainer does step 199"],
    ),
    "copy the failing command": Task(
        2, ("I", sees("trainer of demo", "SIGKILL"), "enter", sees("Copied the command")),
        done=lambda world: world.copied == ["python -m rltui.tinyrl trainer @ rl.toml"],
        before=kill_trainer,
    ),
    "KL at step 300": Task(
        3,
        ("4", ":", Word("300"), "enter", sees("step 300 ", f"KL to the sampler {KL_OF_300}")),
    ),
    "chart beside the logs": Task(
        1, ("C", sees("─ Charts ─", "Reward 0.8", "trainer does step 199")),
    ),
    "what did I change": Task(
        1,
        (sees("1 change needs a restart"), "d",
         sees("Differences", "trainer.optim.lr 0.0002 → 0.0005")),
        before=edit_lr,
    ),
    "undo": Task(
        2,
        ("u", sees("-lr = 0.0005", "+lr = 2e-4"), "y", sees("Written")),
        done=lambda world: world.run.config.read_text() == CONFIG and world.run.acted == [],
        before=edit_lr,
    ),
    "note": Task(
        2, ("#", Word("new data from here"), "enter"),
        done=lambda world: world.notes() == ["new data from here"],
    ),
    "only edits in events": Task(
        3,
        ("8", sees("before the edit"), "f", Word("edit"), "enter",
         sees("1 of 2 · only edit", f"{LR} 0.0002 → 0.0005")),
        before=edit_lr,
    ),
    "fork with another lr": Task(
        3,
        ("7", "Y", sees("Fork demo"), Word("lr=1e-3"), sees("demo-lr1e-3, a fork of demo", "+lr = 0.001"),
         "enter", sees("demo-lr1e-3 created: 7")),
        done=lambda world: world.forked == [{"lr": "1e-3"}],
    ),
    "evaluate a checkpoint": Task(
        4,
        ("9", "j", "s", sees("checkpoint 380, on a separate server"), "enter"),
        done=lambda world: [entry.request.target.step for entry in world.run.supervisor.evals.queue] == [380],
    ),
    "queue a run": Task(
        6,
        ("7", "Y", *["tab"] * 3, Word("queue"), "enter"),
        done=lambda _: [f"{entry.name} {entry.state}" for entry in read_queue().entries]
        == ["demo-fork queued"],
    ),
    "pause the queue": Task(
        2, ("Q", sees("P pause"), "P", sees("Paused: by hand. P resumes.")),
        done=lambda _: read_queue().paused == "by hand",
    ),
    "another run": Task(3, ("7", "j", "enter", sees("rltui base · read-only", "✓ done"))),
    "theme": Task(
        3, (":", Word("theme nord"), "enter", "q", AGAIN), done=lambda world: world.theme == "nord"
    ),
    "leave and come back": Task(
        4,
        ("t", "z", "4", sees("KL to the sampler"), "q", AGAIN, sees("Metrics", "KL to the sampler")),
        done=lives_as_before,
    ),
    "GPU memory over time": Task(
        2,
        ("3", sees("Memory of GPU 0 · last 10 minutes", "peak 40.0 GiB", "█"), "-",
         sees("whole run", "▇▇▇▇", "19m ago", "trainer 40.0")),
    ),
}  # fmt: skip


@pytest.fixture
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[str]
) -> Iterator[World]:
    """Of the task; what would start programs for other runs is noted or left out."""
    task: Task = request.getfixturevalue("task")
    monkeypatch.setattr("rltui.client.queue.commands.ensure_scheduler", lambda: None)
    forked: list[Mapping[str, str]] = []

    def start_in_subprocess(order: StartOrder) -> Started:
        forked.append(order.request.config.edits)
        return Started(output_dir="")

    monkeypatch.setattr("rltui.client.starting.start_in_subprocess", start_in_subprocess)
    monkeypatch.setattr(App, "suspend", lambda _: nullcontext())
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.setenv(name, "")
    folder = tmp_path / "work"
    folder.mkdir()
    trainer = subprocess.Popen(["sleep", "600"])
    try:
        yield World(real_run(folder, trainer.pid, collapsed=task.collapsed), copied, forked)
    finally:
        actions.remap({})
        trainer.kill()
        trainer.wait()


@pytest.mark.parametrize(
    "task",
    slow_but(
        TASKS, "new lr, trainer only", "KL at step 300", "worst answer at step 40", "leave and come back"
    ),
)
async def test_it_is_done_from_the_screen_alone(task: Task, world: World) -> None:
    if inspect.isawaitable(happens := task.before(world)):
        await happens
    sessions: list[list[Step]] = [[]]
    for step in task.steps:
        if step == AGAIN:
            sessions.append([])
        else:
            sessions[-1].append(step)
    pressed = 0
    for session in sessions:
        is_last = session is sessions[-1]
        app = make_app(
            world.run.experiment(), runs=world.run.runs(), clock=time.time,
            keys=keymap.load(paths.settings_file()),
        )  # fmt: skip
        app.animation_level = "none"
        async with app.run_test(size=(120, 36)) as pilot:
            await settle(pilot)
            for step in session:
                pressed += await take(pilot, step)
            if is_last:
                world.theme = app.theme
                try:
                    await until(pilot, lambda: task.done(world))
                except AssertionError:
                    raise AssertionError(f"not done\n{screen_text(pilot)}\n{said(pilot)}") from None
            else:
                await until(pilot, partial(has_ended, pilot))
    assert pressed == task.keys <= MOST_KEYS


async def take(pilot: Pilot[None], step: Step) -> int:
    """Returns the number of keys."""
    if isinstance(step, Sees):
        try:
            await until(pilot, lambda: not missing(step, pilot))
        except AssertionError:
            text = f"{screen_text(pilot)}\n{said(pilot)}"
            raise AssertionError(f"{missing(step, pilot)} not in\n{text}") from None
        return 0
    await press(pilot, *(step if isinstance(step, Word) else (step,)))
    return 0 if isinstance(step, Word) else 1


def has_ended(pilot: Pilot[None]) -> bool:
    return pilot.app._exit


def missing(step: Sees, pilot: Pilot[None]) -> list[str]:
    text = "\n".join([screen_text(pilot), *said(pilot)])
    return [word for word in step.words if word not in text]
