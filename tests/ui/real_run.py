"""A run of the embedded engine on real files, under a supervisor in this process that starts nothing.

Plans, edits, undo, journal, metrics, logs, rollouts, checkpoints and the list of runs are the real ones; only
what a plan would stop and start is written down in place of being done.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tests.fakes import rollouts
from tests.fakes.experiment import gpu_device, gpu_process
from tests.fakes.past_run import LAYOUT, write_attempt, write_finished_run
from tests.supervisor.conftest import make_checkpoints

from rltui.base.questions import Question
from rltui.client.experiment import Event
from rltui.client.local_experiment import LocalExperiment
from rltui.client.local_runs import LocalRuns
from rltui.core.experiment.api import EVENT_MODELS, Plan
from rltui.core.experiment.lifecycle import ExitInfo
from rltui.core.experiment.questions import SupervisorApi
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.report import GpuReport
from rltui.hosts.attempt import Attempt
from rltui.hosts.handles import handle_of
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.intent import Pending
from rltui.services.processes import boot_identity, read_process_id
from rltui.services.runs import catalog
from rltui.services.runs.index import RunIndex
from rltui.supervisor.answers import SupervisorAnswers
from rltui.supervisor.supervisor import Supervisor
from rltui.supervisor.watches import refresh_health

STEPS = 400
STEP_S = 4.0
CONFIG = """\
max_steps = 1000
[model]
name = "model"
[ckpt]
interval = 10
[orchestrator]
batch_size = 128
rollouts_per_example = 16
[[orchestrator.env]]
id = "reverse-text"
[trainer.optim]
lr = 2e-4
[inference]
gpu_memory_utilization = 0.9
"""
KL_OF_300 = 0.00427
"""No other step has this value."""
BEST_STEP = 370
"""A checkpoint; the reward falls a little from there on."""
WORST_OF_40 = "the worst of step 40"
TRACEBACK = """\
Traceback (most recent call last):
  File "/work/trainer.py", line 91, in step
    loss.backward()
RuntimeError: CUDA error: an illegal memory access was encountered
"""
PORT = 8123
COMPONENTS = ("inference", "orchestrator", "trainer")
GPU_GIB = (10, 20, 30, 40)
"""Memory of the trainer in the history of the GPU, a quarter each; of 80."""


class _SupervisorHere(SupervisorApi):
    """Answers as over the socket, from this process."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._answers, self._broadcast = SupervisorAnswers(supervisor), supervisor.runtime.events.broadcast
        self._current_state = supervisor.current_state

    async def ask(self, question: Question, arguments: Mapping[str, Any], **_: object) -> Any:
        return await getattr(self._answers, question.name)(**arguments)

    async def events(self) -> AsyncGenerator[Event, None]:
        async for kind, value in self._broadcast.subscribe(self._current_state()):
            yield cast(Event, EVENT_MODELS[kind].from_json(value))


@dataclass
class RealRun:
    """The run `demo`, at step 400 of 1000, its trainer in the second attempt; and the finished `base`."""

    folder: Path
    supervisor: Supervisor
    acted: list[Plan] = field(default_factory=list)
    """Plans of which something would have been stopped or started."""

    @property
    def config(self) -> Path:
        return self.folder / "rl.toml"

    @property
    def run_dir(self) -> Path:
        return self.folder / "demo"

    def experiment(self) -> LocalExperiment:
        """A client of it, as each start of the TUI makes one."""
        made = LocalExperiment(self.supervisor.runtime.setup.record)
        made._supervisor = cast(Any, _SupervisorHere(self.supervisor))
        return made

    def runs(self) -> LocalRuns:
        index = RunIndex()
        catalog.catch_up(index)
        return LocalRuns(index)

    def is_trainer_alive(self) -> bool:
        record = self.supervisor.runtime.processes.runners["trainer"].record
        return record is not None and record.living_main is not None

    def wait_for(self, component: str, reason: str) -> None:
        runner = self.supervisor.runtime.processes.runners[component]
        runner.lifecycle = replace(runner.lifecycle, state=ComponentState.WAITING, reason=reason)

    def fail(self, component: str, *, signal: str) -> None:
        runner = self.supervisor.runtime.processes.runners[component]
        exit_info = ExitInfo(signal=signal)
        runner.lifecycle = replace(runner.lifecycle, state=ComponentState.FAILED, exit=exit_info)
        assert runner.handle is not None
        path = runner.handle.attempt.folder / "attempt.json"
        values = json.loads(path.read_text()) | {
            "state": "exited", "ended_at": time.time(), "signal": signal, "pid": None, "pid_start": None,
        }  # fmt: skip
        path.write_text(json.dumps(values))


def real_run(folder: Path, pid: int, *, collapsed: bool = False) -> RealRun:
    """`folder` is empty, and the user's own folders are the test's. `pid`: of a living process that counts as
    the trainer. `collapsed`: the reward is near 0 for the last 30 steps.
    """
    (folder / "rl.toml").write_text(CONFIG)
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")  # so that the warm-up is not needed
    record = ExperimentRecord(
        name="demo", output_dir=str(folder / "demo"), workspace=str(folder),
        config_files=(str(folder / "rl.toml"),), layout_file=str(LAYOUT), framework="tinyrl",
        created_at=time.time() - STEPS * STEP_S,
    )  # fmt: skip
    record.control.write_record(record)
    write_finished_run(folder / "base", steps=9)
    run_dir = Path(record.run_dir)
    _write_metrics(run_dir, collapsed=collapsed)
    _write_rollouts(run_dir)
    for step in range(350, STEPS, 10):
        weights = run_dir / "weights" / f"step_{step}"
        weights.mkdir(parents=True)
        (weights / "config.json").write_text("{}")
        (weights / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
        (weights / "STABLE").touch()
    make_checkpoints(run_dir, *range(350, STEPS, 10))
    _write_attempts(record, pid)
    no_tmux: Any = None
    supervisor = Supervisor(record, tmux=no_tmux)
    for name, runner in supervisor.runtime.processes.runners.items():
        if name in COMPONENTS:
            runner.handle = handle_of(Attempt(record, runner.spec, 2), runner)
            assert runner.log is not None
            supervisor.runtime.observation.follow(name, runner.log)
            runner.lifecycle = replace(runner.lifecycle, state=ComponentState.READY)
    _fill_gpu_history(supervisor, pid)
    while supervisor.runtime.observation.recorder.poll():
        pass
    while supervisor.runtime.observation.progress.poll():
        pass
    supervisor.runtime.events.changed("knobs")  # health knows the knobs from it
    refresh_health(supervisor.runtime)
    made = RealRun(folder, supervisor)
    transactions = supervisor.commands._transactions
    transactions.resume = lambda pending: _note(made, pending)  # type: ignore[method-assign]
    return made


def _note(run: RealRun, pending: Pending) -> None:
    run.acted.append(pending.plan)


def _write_metrics(run_dir: Path, *, collapsed: bool) -> None:
    begin = time.time() - STEPS * STEP_S
    rows: list[dict[str, float]] = []
    for step in range(1, STEPS + 1):
        reward = 0.9 - 0.8 * math.exp(-step / 80) - 0.001 * max(0, step - BEST_STEP)
        if collapsed and step > STEPS - 30:
            reward = 0.02
        at = {"step": step, "time": begin + step * STEP_S}
        rows.append(at | {"train/agg/effective/agent/reward/mean": reward})
        kl = KL_OF_300 if step == 300 else 1e-5 * step
        rows.append(
            at | {
                "loss/mean": 1.0 / step, "mismatch_kl/all/mean": kl, "optim/lr": 2e-4,
                "time/wait_for_batch": 0.75 * STEP_S, "time/step": STEP_S,
            }
        )  # fmt: skip
    rollouts.write_lines(run_dir / "metrics.jsonl", rows)


def _write_rollouts(run_dir: Path) -> None:
    """16 answers a step: the worst is one in the middle, whose text tells its step."""
    for step in (*range(38, 44), STEPS):
        rows = [
            rollouts.flat_row(number // 4, number % 4, 0.2 + number / 20, step=step) for number in range(16)
        ]
        message = {"role": "assistant", "content": f"the worst of step {step}"}
        rows[9] |= {"reward": 0.0, "advantage": -0.5, "completion": [message]}
        rollouts.write_lines(run_dir / "rollouts" / f"step_{step}" / "train_rollouts.jsonl", rows)


def _write_attempts(record: ExperimentRecord, pid: int) -> None:
    begin = time.time() - STEPS * STEP_S
    for name in COMPONENTS:
        for number, lines in enumerate((_first_lines(name), _lines(name)), 1):
            folder = record.control.attempt_dir(name, record.control.new_attempt(name))
            process = read_process_id(pid) if (name, number) == ("trainer", 2) else None
            living = (
                {"boot": boot_identity(), "pid": process.pid, "pid_start": process.start} if process else {}
            )
            argv = ["python", "-m", "rltui.tinyrl", name, "@", "rl.toml"]
            ended = begin + 100 if number == 1 else None
            write_attempt(
                folder, experiment=record.tag, started_at=begin + 200 * (number - 1), ended_at=ended,
                exit_code=None if ended is None else 1, argv=argv, cwd=record.workspace, **living,
            )  # fmt: skip
            spec = {
                "argv": argv, "cwd": record.workspace, "env": {"CUDA_VISIBLE_DEVICES": "0"},
                "port": PORT if name == "inference" else None, "gpus": {"text": "0"}, "ready": None,
            }  # fmt: skip
            (folder / "config").mkdir()
            (folder / "config" / "rl.toml").write_text(CONFIG)
            (folder / "spec.json").write_text(json.dumps(spec))
            (folder / "output.log").write_text("".join(f"{line}\n" for line in lines))


def _first_lines(component: str) -> Iterable[str]:
    """Two tracebacks, of which the first is far from the end."""
    steps = [f"12:{step // 60:02}:{step % 60:02} INFO {component} does step {step}" for step in range(300)]
    if component != "trainer":
        return steps
    later = TRACEBACK.replace("step\n", "close\n").replace("CUDA error", "Lost the GPU")
    return [*steps[:30], *TRACEBACK.splitlines(), *steps[30:250], *later.splitlines(), *steps[250:]]


def _lines(component: str) -> Sequence[str]:
    return [f"12:{step // 60:02}:{step % 60:02} INFO {component} does step {step}" for step in range(1, 200)]


def _fill_gpu_history(supervisor: Supervisor, pid: int) -> None:
    """Twenty minutes, in which the trainer takes more in four steps."""
    now, readings = time.time(), 240
    for number in range(readings):
        size = GPU_GIB[number * len(GPU_GIB) // readings]
        process = gpu_process(pid, size)
        device = gpu_device(0, [process], total_gib=80)
        reading = GpuReport(available=True, devices=(device,), sampled_at=now - 5 * (readings - 1 - number))
        supervisor.runtime.gpu_readings.take(
            supervisor.runtime.gpu_account.report(reading, (), interval_s=1.0)
        )
