"""Real logs of prime-rl, line by line, through the code that tells readiness, health and causes.

`tests/data/prime_rl/runs` has what the programs of August 2026 printed, on a CPU. `RUNS` says of each start
which line makes it ready, which alarms are due, by which line, and why it ended. Time passes as they say.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rltui.core.experiment.states import ComponentState
from rltui.core.logs.failure_cause import find_cause
from rltui.core.logs.lines import plain_text
from rltui.frameworks import registry
from rltui.services.experiment import layout_files
from rltui.services.experiment.probes import Probe
from rltui.services.metrics.rows import MetricSources
from rltui.services.runs.folder import RunFolder
from rltui.supervisor.events import EventBus
from rltui.supervisor.metrics.health import RunHealth
from rltui.supervisor.observation import ProgressTracker
from rltui.supervisor.runtime import Runtime
from rltui.supervisor.watches import refresh_health

PRIME_RL = registry.get("prime-rl")
LOGS = Path(__file__).parents[1] / "data/prime_rl/runs"
_TIME = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b")
LOOK_S = 5.0


@dataclass(frozen=True)
class Start:
    """Expectations of one start of the jobs of a run."""

    number: int
    at: str
    """Time at which it was started, by the journal."""
    ended: str
    step: int = 0
    """Step of the checkpoint that it goes on from."""
    ready: dict[str, int] = field(default_factory=dict)
    """Component → the line of its log that makes it ready; the others never are."""
    alarms: dict[str, str] = field(default_factory=dict)
    """Severity and title → the last thing that has been printed when it must have come."""
    cause: str = ""
    """The cause of its end, as people read it."""


USED = "/run' already contains artifacts from a previous run"
SFT = [
    Start(2, "17:17:17", "17:24:59", ready={"sft": 29}, cause="no usable GPU"),
    Start(3, "17:25:38", "17:27:46", ready={"sft": 25}, cause="ZeroDivisionError: float division by zero"),
    Start(4, "17:28:17", "17:28:41", cause=USED),
    Start(6, "17:31:08", "17:32:48", ready={"sft": 25}),
    Start(7, "17:33:36", "17:39:43", step=15, ready={"sft": 25}),  # imports for longer than any step took
    Start(8, "17:40:37", "17:41:54"),  # stopped while it imported
]
STOPPED = [Start(1, "18:03:42", "18:04:41", ready={"sft": 25}), Start(2, "18:04:52", "18:04:59", cause=USED)]
EMPTY = {
    "warning: empty batches": "Step 1: empty train batch after 24",
    "error: empty batches": "Step 2: empty train batch after 56",
}
RL = [
    Start(1, "17:32:56", "17:38:42", ready={"orchestrator": 22, "trainer": 22}, alarms=EMPTY,
          cause="10 consecutive batches had nothing to train on"),
    Start(2, "17:44:33", "17:50:06", ready={"orchestrator": 21, "trainer": 22}),
    Start(3, "17:50:07", "17:56:17", step=18, ready={"orchestrator": 22, "trainer": 22}),
    Start(4, "17:57:13", "18:02:01", step=24, ready={"orchestrator": 22, "trainer": 22}),
]  # fmt: skip
EVALS = [
    Start(1, "11:08:47", "11:11:33", ready={"online-eval": 13, "trainer": 24}),
    Start(2, "11:12:08", "11:14:20", step=20, ready={"online-eval": 13, "trainer": 24}),
]
OPD = [Start(1, "11:19:33", "11:24:02", ready={"orchestrator": 22, "trainer": 22})]
"""A teacher gives the signal, so that no rollout of any batch is "trainable"."""
RUNS = {
    "sft": ("prime-rl-sft", {"sft": "sft-{}.log"}, SFT),
    "sft that was stopped": ("prime-rl-sft", {"sft": "sftstop-{}.log"}, STOPPED),
    "sft with evals": (
        "prime-rl-sft-evals",
        {"online-eval": "evals-{}.log", "trainer": "evals-trainer-{}.log"},
        EVALS,
    ),
    "rl with a teacher": (
        "prime-rl",
        {"orchestrator": "opd-orchestrator-{}.log", "trainer": "opd-trainer-{}.log"},
        OPD,
    ),
    "rl": ("prime-rl", {"orchestrator": "orchestrator-{}.log", "trainer": "trainer-{}.log"}, RL),
}


class Replay:
    """A supervisor's view of a run whose logs grow line by line."""

    def __init__(self, folder: Path, layout: str, files: dict[str, str], clock: list[float]) -> None:
        self._files, self._clock, self.folder = files, clock, folder
        components = layout_files.load(layout_files.find(layout)).component
        self._ready = {spec.id: spec.ready for spec in components if spec.ready is not None}
        self._logs: dict[str, Path] = {}
        self.events = EventBus(folder / "journal.jsonl")
        metrics = MetricSources((folder / "metrics.jsonl",), PRIME_RL, logs=lambda: dict(self._logs))
        self.progress = ProgressTracker(metrics, files)
        run_folder = RunFolder(folder, PRIME_RL.run.locations)
        names = self.progress.component_names
        health = RunHealth("real", run_folder, folder / "journal.jsonl", self.events, names)
        self._runners = {
            name: SimpleNamespace(
                lifecycle=SimpleNamespace(state=ComponentState.STARTING),
                record=SimpleNamespace(started_at=0.0),
                activity="",
            )
            for name in files
        }
        observation = SimpleNamespace(progress=self.progress, health=health, activities={})
        processes = SimpleNamespace(run_jobs=lambda: [*self._runners.values()], runners=self._runners)
        setup = SimpleNamespace(record=SimpleNamespace(observed=False))
        self.runtime = cast(
            Runtime,
            SimpleNamespace(setup=setup, observation=observation, events=self.events, processes=processes),
        )

    async def replay(self, start: Start) -> tuple[dict[str, int], dict[str, str]]:
        """Returns the lines that made components ready, and the alarms with what had been printed by then."""
        ready: dict[str, int] = {}
        alarms: dict[str, str] = {}
        probes: dict[str, Probe] = {}
        count = dict.fromkeys(self._files, 0)
        self._clock[0] = _seconds(start.at)
        self.progress.rewind(start.step)
        for name, file in self._files.items():
            self._logs[name] = self.folder / file.format(start.number)
            self._logs[name].touch()
            probes[name] = Probe(self._ready[name], self._logs[name])
            self._runners[name].lifecycle.state = ComponentState.STARTING
            self._runners[name].record.started_at = self._clock[0]
        output = ""
        lines = merged([(name, LOGS / file.format(start.number)) for name, file in self._files.items()])
        for time_s, name, line in itertools.chain(lines, [(_seconds(start.ended), "", "")]):
            while self._clock[0] + LOOK_S < time_s:
                self._clock[0] += LOOK_S
                self._look(alarms, output)
            self._clock[0] = max(self._clock[0], time_s)
            if not name:
                break
            output = plain_text(line)
            count[name] += 1
            with self._logs[name].open("a") as log:
                log.write(line + "\n")
            if name not in ready and await probes[name].is_ready():
                ready[name] = count[name]
                self._runners[name].lifecycle.state = ComponentState.READY
            if self.progress.poll():
                self._look(alarms, output)
        return ready, alarms

    def _look(self, alarms: dict[str, str], output: str) -> None:
        refresh_health(self.runtime)
        while not self.events.outbox.empty():
            alert = self.events.outbox.get_nowait()
            alarms.setdefault(f"{alert.severity}: {alert.title}", output)


def merged(logs: Sequence[tuple[str, Path]]) -> Iterator[tuple[float, str, str]]:
    """Time, component and line; a line without a time has that of the one before."""
    lines_by_time: list[tuple[float, str, str]] = []
    for name, path in logs:
        time_s = 0.0
        for line in path.read_bytes().decode().split("\n")[:-1]:
            if match := _TIME.search(plain_text(line)[:30]):
                time_s = _seconds(match[0])
            lines_by_time.append((time_s, name, line))
    yield from sorted(lines_by_time, key=lambda each: each[0])


def _seconds(text: str) -> float:
    hours, minutes, seconds = map(int, text.split(":"))
    return 1.79e9 + 3600.0 * hours + 60 * minutes + seconds


@pytest.mark.parametrize("name", RUNS)
async def test_each_start_is_ready_when_it_works_and_alarms_come_where_they_are_due(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, files, starts = RUNS[name]
    clock = [0.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    replay = Replay(tmp_path, layout, files, clock)
    for start in starts:
        ready, alarms = await replay.replay(start)
        assert ready == start.ready, start
        assert alarms.keys() == start.alarms.keys(), start
        assert all(alarm in alarms[title] for title, alarm in start.alarms.items()), (start, alarms)


CAUSES = {
    **{
        f"{next(iter(files.values())).format(start.number)}": start.cause
        for _, files, starts in RUNS.values()
        for start in starts
    },
    "sftstop-1.log": "torch.distributed.elastic.multiprocessing.api.SignalException",  # a person stopped it
    "inference-1.log": "ImportError: cannot import name 'ReasoningEffort'",
    "inference-2.log": "Worker failed with error 'Could not run 'aten::mm.dtype'",
    "inference-4.log": "",
}


@pytest.mark.parametrize(("file", "cause"), CAUSES.items(), ids=CAUSES)
def test_what_a_failed_program_printed_tells_its_cause_and_no_other_has_one(file: str, cause: str) -> None:
    lines = [plain_text(line) for line in (LOGS / file).read_bytes().decode().split("\n")]
    found_cause = find_cause(lines, PRIME_RL.failures)
    assert (found_cause is None) == (not cause)
    assert cause in (found_cause.text if found_cause is not None else "")
