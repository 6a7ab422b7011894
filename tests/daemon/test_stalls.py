from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.waiting import retry_until

from rltui.core.engine_metrics import InferenceActivity
from rltui.core.layout import ComponentSpec, Stall
from rltui.core.lifecycle import Lifecycle
from rltui.core.stalls import WatchClock
from rltui.core.states import ComponentState
from rltui.daemon import stalls
from rltui.daemon.component import ComponentRunner
from rltui.daemon.events import EventBus
from rltui.daemon.observation import ProgressTracker
from rltui.daemon.remote_attempt import RemoteAttempt
from rltui.daemon.sampling import RunSampler
from rltui.daemon.stalls import StallWatch, _StartWatch, rule_of
from rltui.frameworks.base import RunFiles
from rltui.frameworks.failures import COMMON
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.job_status import JobStatus
from rltui.services.launch import Launch
from rltui.services.metrics.sources import RunMetrics
from rltui.services.processes import AttemptRecord, boot_identity, read_process_id
from rltui.services.processes.identity import read_stat
from rltui.services.runs.journal import read_journal
from rltui.services.runs.run_folder import RunFolder
from rltui.services.stack_dump import find_py_spy

HANGS = """\
import time
def wait_for_batch():
    print("hangs", flush=True)
    time.sleep(1000)
wait_for_batch()
"""


def exposition(activity: InferenceActivity) -> bytes:
    """The metrics text that such a server answers."""
    lines = [f"vllm:num_requests_running {activity.running}", f"vllm:num_requests_waiting {activity.waiting}"]
    if activity.generated_tokens is not None:
        lines.append(f"vllm:generation_tokens_total {activity.generated_tokens}")
    return "\n".join(lines).encode()


@dataclass
class Runner:
    """A `ComponentRunner` as the watch sees it."""

    spec: ComponentSpec
    attempt_dir: Path
    lifecycle: Lifecycle
    record: AttemptRecord | None = None
    launch: Launch | None = None
    attempt: int | None = 1
    remote_attempt: RemoteAttempt = field(default_factory=lambda: RemoteAttempt(lambda _: None))

    @property
    def log(self) -> Path:
        return self.attempt_dir / "output.log"

    def enter(self, state: ComponentState, *, epoch: int = 1) -> None:
        self.lifecycle = replace(self.lifecycle, state=state, epoch=epoch)


@dataclass
class Host:
    root: Path
    runners: dict[str, Runner] = field(default_factory=dict)
    stalls: list[tuple[str, str | None]] = field(default_factory=list)
    activities: list[InferenceActivity | None] = field(default_factory=list)
    sampler: RunSampler = field(default_factory=lambda: RunSampler(lambda values, source: None))

    def __post_init__(self) -> None:
        self.folder = RunFolder(self.root, RunFiles(beats={"trainer": "trainer_step"}))
        self.events = EventBus(self.root / "journal.jsonl")
        self.progress = ProgressTracker(RunMetrics(self.folder.metrics, TINYRL), TINYRL)

    def add(self, spec: ComponentSpec, *, metrics: str | None = None) -> Runner:
        folder = self.root / spec.id
        folder.mkdir()
        (folder / "output.log").write_text("started\n")
        runner = Runner(spec, folder, Lifecycle(kind=spec.kind, state=ComponentState.READY, epoch=1))
        runner.launch = Launch(argv=("x",), cwd="/", env={}, ready=None, port=None, metrics=metrics)
        self.runners[spec.id] = runner
        return runner

    def set_stall(self, component: str, evidence: str | None) -> None:
        self.stalls.append((component, evidence))

    def set_activity(self, component: str, activity: InferenceActivity | None) -> None:
        self.activities.append(activity)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def spec(component: str = "trainer", *, metrics: str = "", **stall: float | bool) -> ComponentSpec:
    return ComponentSpec(id=component, command=("x",), metrics=metrics, stall=Stall.model_validate(stall))


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    program = tmp_path / "hangs.py"
    program.write_text(HANGS)
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "hangs\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def record_of(process: subprocess.Popen[str], runner: Runner) -> AttemptRecord:
    main = read_process_id(process.pid)
    return AttemptRecord(
        experiment="x", component=runner.spec.id, attempt=1, state="running", boot=boot_identity(),
        shim=None, main=main, session=None, argv=(), cwd="/", log=str(runner.log), started_at=0.0,
        ended_at=None, exit_code=None, signal=None, error=None, stop_requested=False, descendants=(),
    )  # fmt: skip


def watch_of(host: Host) -> StallWatch:
    """The host is its components and what is seen of the run, in one."""
    return StallWatch(cast(Any, host), cast(Any, host), host.events)


def poll_for(watch: StallWatch, since: float, seconds: float) -> float:
    """Look every two seconds of fake time; returns the time of the last look."""
    now = since
    while now < since + seconds:
        now += 2.0
        watch.poll(now)
    return now


def test_a_silent_job_is_told_once_and_its_evidence_kept_up_to_date(host: Host) -> None:
    runner = host.add(spec(dump=False))
    watch = watch_of(host)
    now = poll_for(watch, 0.0, 304.0)
    assert host.stalls == [("trainer", "no output for 5m02s")]
    now = poll_for(watch, now, 10.0)
    assert host.stalls[1:] == [("trainer", "no output for 5m12s")]
    with runner.log.open("a") as log:
        log.write("step 1\n")
    poll_for(watch, now, 4.0)
    assert host.stalls[2:] == [("trainer", None)]


def test_the_silence_of_one_whose_host_does_not_answer_is_no_evidence(host: Host) -> None:
    runner = host.add(spec(dump=False).model_copy(update={"node": "node-2"}))
    watch = watch_of(host)
    runner.remote_attempt.job_status = JobStatus(id="x", phase="running", lost_at=1.0)
    now = poll_for(watch, 0.0, 1000.0)
    runner.remote_attempt.job_status = JobStatus(id="x", phase="running")
    now = poll_for(watch, now, 200.0)
    assert host.stalls == []
    poll_for(watch, now, 104.0)
    assert host.stalls == [("trainer", "no output for 5m02s")]


def test_only_ready_components_are_watched_and_a_new_start_begins_anew(host: Host) -> None:
    runner = host.add(spec(dump=False))
    runner.enter(ComponentState.STARTING)
    watch = watch_of(host)
    now = poll_for(watch, 0.0, 1000.0)
    runner.enter(ComponentState.READY)
    now = poll_for(watch, now, 200.0)
    runner.enter(ComponentState.STOPPING)
    now = poll_for(watch, now, 1000.0)
    runner.enter(ComponentState.READY, epoch=2)
    now = poll_for(watch, now, 300.0)
    assert host.stalls == []
    poll_for(watch, now, 4.0)
    assert len(host.stalls) == 1


def test_metric_rows_count_for_their_writer_only(host: Host) -> None:
    host.add(spec("trainer", dump=False, silence_s=20))
    host.add(spec("orchestrator", dump=False, silence_s=20))
    watch = watch_of(host)
    metrics = host.root / "metrics.jsonl"
    now = 0.0
    for step in range(1, 30):
        with metrics.open("a") as file:
            file.write(json.dumps({"step": step, "loss/mean": 0.1, "time/step": 2.0}) + "\n")
        host.progress.poll()
        now = poll_for(watch, now, 2.0)
    assert [name for name, _ in host.stalls if name == "trainer"] == []
    assert ("orchestrator", "no output for 22s") in host.stalls
    poll_for(watch, now, 30.0)
    assert ("trainer", "no metric row for 22s (usually every 2.0s), no output for 1m18s") in host.stalls


def test_a_frozen_engine_is_told_although_its_server_answers_that_nothing_runs(host: Host) -> None:  # G9
    runner = host.add(spec("inference", dump=False), metrics="http://127.0.0.1:1/metrics")
    program = (
        "import subprocess, time\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)\ntime.sleep(60)"
    )
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    engine = int(server.stdout.readline())
    try:
        runner.record = record_of(server, runner)
        watched = stalls._ComponentWatch(
            cast(Any, runner), cast(Any, host), cast(Any, host), host.events, WatchClock()
        )
        watched._requested_at = math.inf  # it is not asked here
        watched._heartbeat.answered(InferenceActivity(running=0, waiting=0, generated_tokens=7), 0.0)
        watched.poll(2.0)
        assert host.stalls == []
        os.kill(engine, signal.SIGSTOP)
        retry_until(lambda: is_stopped(engine))
        watched.poll(14.0)
        evidence = f"pid {engine} is stopped by a signal; go on with: kill -CONT {engine}"
        assert host.stalls == [("inference", evidence)]
        os.kill(engine, signal.SIGCONT)
        retry_until(lambda: not is_stopped(engine))
        watched.poll(16.0)
        assert host.stalls[1:] == [("inference", None)]
    finally:
        for pid in (engine, server.pid):
            os.kill(pid, signal.SIGKILL)
        server.wait()
        server.stdout.close()


def is_stopped(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state == "T"


def test_a_stopped_process_is_told_at_the_next_look(host: Host, hanging: subprocess.Popen[str]) -> None:
    runner = host.add(spec(dump=False))
    runner.record = record_of(hanging, runner)
    watch = watch_of(host)
    watch.poll(0.0)
    hanging.send_signal(signal.SIGSTOP)
    retry_until(lambda: is_stopped(hanging.pid))
    watch.poll(2.0)
    evidence = f"pid {hanging.pid} is stopped by a signal; go on with: kill -CONT {hanging.pid}"
    assert host.stalls == [("trainer", evidence)]
    hanging.send_signal(signal.SIGCONT)
    retry_until(lambda: not is_stopped(hanging.pid))
    watch.poll(4.0)
    assert host.stalls[1:] == [("trainer", None)]


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
async def test_the_stacks_of_a_hanging_program_are_written_once(
    host: Host, hanging: subprocess.Popen[str]
) -> None:
    runner = host.add(spec())
    runner.record = record_of(hanging, runner)
    watch = watch_of(host)
    poll_for(watch, 0.0, 400.0)
    (writing,) = [task for task in asyncio.all_tasks() if task.get_name() == "stacks of trainer"]
    await writing
    entries = read_journal(host.root / "journal.jsonl")
    assert [entry.kind for entry in entries] == ["stall"]
    assert (entries[0].component, entries[0].attempt) == ("trainer", 1)
    assert "wait_for_batch (hangs.py:4)" in entries[0].data["stacks"]
    dump_files = list(runner.attempt_dir.glob("stall-*.txt"))
    assert [str(path) for path in dump_files] == [entries[0].data["dump"]]
    assert "wait_for_batch (hangs.py:4)" in dump_files[0].read_text()


async def test_a_server_is_asked_and_its_silence_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[InferenceActivity | None] = [InferenceActivity(running=2, generated_tokens=5)]
    requests: list[str] = []

    async def answer(url: str) -> bytes | None:
        requests.append(url)
        return None if answers[-1] is None else exposition(answers[-1])

    now = 0.0
    monkeypatch.setattr(stalls, "read_exposition", answer)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    runner = host.add(spec("inference", silence_s=60, dump=False), metrics="http://x/metrics")
    watch = watch_of(host)

    async def pass_time(seconds: float) -> None:
        nonlocal now
        for _ in range(int(seconds / 2)):
            now += 2.0
            watch.poll(now)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    await pass_time(20)
    assert requests == ["http://x/metrics"] * 2, "nobody looks: every ten seconds"
    subscription = host.events.broadcast.subscribe([])
    await pass_time(20)
    assert len(requests) == 12, "somebody looks: at every look"
    host.events.broadcast.unsubscribe(subscription)
    assert host.activities == answers
    assert host.stalls == []
    await pass_time(60)
    assert host.stalls[0] == ("inference", "no token for 1m08s while 2 requests run and 0 wait")
    answers.append(InferenceActivity(running=2, generated_tokens=6))
    await pass_time(12)
    assert host.stalls[-1] == ("inference", None)
    answers.append(None)
    await pass_time(40)
    assert host.activities[1:] == [InferenceActivity(running=2, generated_tokens=6), None]
    answers.append(InferenceActivity(generated_tokens=7))
    await pass_time(12)
    runner.enter(ComponentState.STOPPING)
    await pass_time(2)
    assert host.activities[3:] == [InferenceActivity(generated_tokens=7), None]


def test_a_silent_service_without_metrics_needs_an_entry_of_its_own() -> None:
    service = ComponentSpec(id="env", command=("x",), kind="service")
    assert not rule_of(service).output_suffices
    assert rule_of(service.model_copy(update={"stall": Stall(silence_s=60)})).output_suffices
    assert rule_of(spec()).output_suffices


class Starting:
    """A component that is starting."""

    def __init__(self, log: Path) -> None:
        self.spec = ComponentSpec(id="inference", command=("x",), kind="service")
        self.lifecycle = Lifecycle(kind="service", epoch=1)
        self.log = log
        self.phase: str | None = None


async def test_a_start_tells_how_far_it_is_and_what_it_will_die_of(tmp_path: Path) -> None:  # G12
    log = tmp_path / "output.log"
    log.write_text("Starting to load model x...\n")
    runner = Starting(log)
    start = _StartWatch(cast("ComponentRunner", runner))
    assert await start.poll(COMMON) is None
    assert runner.phase == "loads the model"
    with log.open("a") as file:
        file.write("nothing of interest\n")
    await start.poll(COMMON)
    assert runner.phase == "loads the model", "until it says otherwise"
    with log.open("a") as file:
        file.write("ValueError: No available memory for the cache blocks. Try\n")
    assert "its output says: out of GPU memory" in (await start.poll(COMMON) or "")


async def test_the_newest_line_of_one_that_goes_on_is_no_failure(tmp_path: Path) -> None:
    """tinyrl's last line tells its failure once it has ended; until then it may be a progress bar."""
    log = tmp_path / "output.log"
    log.write_text("Generating rollouts (train):   0%|          | 0/128 [00:00<?, ?it/s]")
    start = _StartWatch(cast("ComponentRunner", Starting(log)))
    assert await start.poll(TINYRL.failures) is None
