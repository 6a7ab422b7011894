from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.supervisor.conftest import alert_titles, enter
from tests.waiting import retry_until

from rltui.core.experiment.layout import ComponentSpec, Stall
from rltui.core.experiment.states import ComponentState
from rltui.core.metrics.engine import InferenceActivity
from rltui.hosts.attempt import Attempt
from rltui.hosts.handles import handle_of
from rltui.hosts.remote import RemoteHandle
from rltui.services.experiment.journal import read_journal
from rltui.services.experiment.launch import Launch
from rltui.services.hosts.job_status import JobStatus
from rltui.services.processes import AttemptRecord, boot_identity, read_process_id
from rltui.services.processes.identity import descendants, read_stat
from rltui.services.processes.stack_dump import find_py_spy
from rltui.supervisor import stalls
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.stalls import StallWatch, rule_of, watch_starts
from rltui.supervisor.supervisor import Supervisor

HANGS = """\
import time
def wait_for_batch():
    print("hangs", flush=True)
    time.sleep(1000)
wait_for_batch()
"""
SERVER = """\
import subprocess, time
subprocess.Popen(["sleep", "60"])
print("runs", flush=True)
time.sleep(60)
"""


def exposition(activity: InferenceActivity) -> bytes:
    """The metrics text that such a server answers."""
    lines = [f"vllm:num_requests_running {activity.running}", f"vllm:num_requests_waiting {activity.waiting}"]
    if activity.generated_tokens is not None:
        lines.append(f"vllm:generation_tokens_total {activity.generated_tokens}")
    return "\n".join(lines).encode()


def ready(supervisor: Supervisor, spec: ComponentSpec, *, metrics: str | None = None) -> ComponentRunner:
    """The runner of the component, which `spec` describes, in its first attempt."""
    runner = supervisor.runtime.processes.runners[spec.id]
    runner.spec = spec
    attempt = Attempt(supervisor.runtime.setup.record, spec, 1)
    runner.handle = handle_of(attempt, runner)
    attempt.log.parent.mkdir(parents=True)
    attempt.log.write_text("started\n")
    attempt.launch = Launch(argv=("x",), cwd="/", env={}, ready=None, port=None, metrics=metrics)
    enter(supervisor, spec.id, ComponentState.READY)
    return runner


def append(path: Path | None, text: str) -> None:
    assert path is not None
    with path.open("a") as file:
        file.write(text)


def spec(component: str = "trainer", *, metrics: str = "", **stall: float | bool) -> ComponentSpec:
    return ComponentSpec(id=component, command=("x",), metrics=metrics, stall=Stall.model_validate(stall))


@contextmanager
def running(path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """The Python program, once it has printed a line."""
    path.write_text(program)
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        children = descendants(process.pid)
        yield process
        for pid in (*(child.pid for child in children), process.pid):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with running(tmp_path / "hangs.py", HANGS) as process:
        yield process


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """It has a child, its engine."""
    with running(tmp_path / "server.py", SERVER) as process:
        yield process


def set_main(runner: ComponentRunner, process: subprocess.Popen[str]) -> None:
    """Make `process` the main process of its attempt."""
    assert runner.handle is not None
    main = read_process_id(process.pid)
    runner.handle.attempt.record = AttemptRecord(
        experiment="x", component=runner.spec.id, attempt=1, state="running", boot=boot_identity(),
        shim=None, main=main, session=None, argv=(), cwd="/", log=str(runner.log), started_at=0.0,
        ended_at=None, exit_code=None, signal=None, error=None, stop_requested=False, descendants=(),
    )  # fmt: skip


def poll_for(watch: StallWatch, since: float, seconds: float) -> float:
    """Look every two seconds of fake time; returns the time of the last look."""
    now = since
    while now < since + seconds:
        now += 2.0
        watch.poll(now)
    return now


async def test_a_silent_job_is_told_once_and_its_evidence_kept_up_to_date(supervisor: Supervisor) -> None:
    runner = ready(supervisor, spec(dump=False))
    watch = StallWatch(supervisor.runtime)
    now = poll_for(watch, 0.0, 304.0)
    assert runner.evidence == "no output for 5m02s"
    now = poll_for(watch, now, 10.0)
    assert runner.evidence == "no output for 5m12s"
    append(runner.log, "step 1\n")
    poll_for(watch, now, 4.0)
    assert runner.evidence is None
    assert alert_titles(supervisor) == ["trainer stalled", "trainer is no longer stalled"]


async def test_the_silence_of_one_whose_host_does_not_answer_is_no_evidence(supervisor: Supervisor) -> None:
    runner = ready(supervisor, spec(dump=False).model_copy(update={"node": "node-2"}))
    watch = StallWatch(supervisor.runtime)
    handle = runner.handle
    assert isinstance(handle, RemoteHandle)
    handle.status = JobStatus(id="x", phase="running", lost_at=1.0)
    now = poll_for(watch, 0.0, 1000.0)
    handle.status = JobStatus(id="x", phase="running")
    now = poll_for(watch, now, 200.0)
    assert runner.evidence is None
    poll_for(watch, now, 104.0)
    assert runner.evidence == "no output for 5m02s"


async def test_only_ready_components_are_watched_and_a_new_start_begins_anew(supervisor: Supervisor) -> None:
    runner = ready(supervisor, spec(dump=False))
    enter(supervisor, "trainer", ComponentState.STARTING)
    watch = StallWatch(supervisor.runtime)
    now = poll_for(watch, 0.0, 1000.0)
    enter(supervisor, "trainer", ComponentState.READY)
    now = poll_for(watch, now, 200.0)
    enter(supervisor, "trainer", ComponentState.STOPPING)
    now = poll_for(watch, now, 1000.0)
    for epoch in (2, 3):
        runner.lifecycle = replace(runner.lifecycle, state=ComponentState.READY, epoch=epoch)
        now = poll_for(watch, now, 300.0)
        assert runner.evidence is None
    poll_for(watch, now, 4.0)
    assert runner.evidence is not None


async def test_metric_rows_count_for_their_writer_only(supervisor: Supervisor) -> None:
    trainer = ready(supervisor, spec("trainer", dump=False, silence_s=20))
    orchestrator = ready(supervisor, spec("orchestrator", dump=False, silence_s=20))
    watch = StallWatch(supervisor.runtime)
    metrics = Path(supervisor.runtime.setup.record.run_dir, "metrics.jsonl")
    now = 0.0
    for step in range(1, 30):
        append(metrics, json.dumps({"step": step, "loss/mean": 0.1, "time/step": 2.0}) + "\n")
        supervisor.runtime.observation.progress.poll()
        now = poll_for(watch, now, 2.0)
    assert (trainer.evidence, orchestrator.evidence) == (None, "no output for 52s")
    poll_for(watch, now, 22.0)
    assert trainer.evidence == "no metrics for 22s (usually every 2.0s), no output for 1m18s"


async def test_a_frozen_engine_is_told_although_its_server_answers_that_nothing_runs(
    supervisor: Supervisor, server: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # G9
    async def answer(url: str) -> bytes:
        return exposition(InferenceActivity(running=0, waiting=0, generated_tokens=7))

    monkeypatch.setattr(stalls, "read_exposition", answer)
    runner = ready(supervisor, spec("inference", dump=False), metrics="http://127.0.0.1:1/metrics")
    set_main(runner, server)
    (engine,) = [process.pid for process in descendants(server.pid)]
    watch = StallWatch(supervisor.runtime)
    watch.poll(2.0)
    assert runner.evidence is None
    os.kill(engine, signal.SIGSTOP)
    retry_until(lambda: is_stopped(engine))
    watch.poll(14.0)
    assert runner.evidence == f"pid {engine} is stopped by a signal; resume it: kill -CONT {engine}"
    os.kill(engine, signal.SIGCONT)
    retry_until(lambda: not is_stopped(engine))
    watch.poll(16.0)
    assert runner.evidence is None


def is_stopped(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state == "T"


async def test_a_stopped_process_is_told_at_the_next_look(
    supervisor: Supervisor, hanging: subprocess.Popen[str]
) -> None:
    runner = ready(supervisor, spec(dump=False))
    set_main(runner, hanging)
    watch = StallWatch(supervisor.runtime)
    watch.poll(0.0)
    hanging.send_signal(signal.SIGSTOP)
    retry_until(lambda: is_stopped(hanging.pid))
    watch.poll(2.0)
    assert runner.evidence == f"pid {hanging.pid} is stopped by a signal; resume it: kill -CONT {hanging.pid}"
    hanging.send_signal(signal.SIGCONT)
    retry_until(lambda: not is_stopped(hanging.pid))
    watch.poll(4.0)
    assert runner.evidence is None


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
async def test_the_stacks_of_a_hanging_program_are_written_once(
    supervisor: Supervisor, hanging: subprocess.Popen[str]
) -> None:
    runner = ready(supervisor, spec())
    set_main(runner, hanging)
    watch = StallWatch(supervisor.runtime)
    poll_for(watch, 0.0, 400.0)
    (writing,) = [task for task in asyncio.all_tasks() if task.get_name() == "stacks of trainer"]
    await writing
    journal = read_journal(supervisor.runtime.setup.control.journal_file)
    (entry,) = [entry for entry in journal if entry.kind == "stall"]
    assert (entry.component, entry.attempt) == ("trainer", 1)
    assert "wait_for_batch (hangs.py:4)" in entry.data["stacks"]
    dump_files = list(supervisor.runtime.setup.control.attempt_dir("trainer", 1).glob("stall-*.txt"))
    assert [str(path) for path in dump_files] == [entry.data["dump"]]
    assert "wait_for_batch (hangs.py:4)" in dump_files[0].read_text()


async def test_a_server_is_asked_and_its_silence_told(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[InferenceActivity | None] = [InferenceActivity(running=2, generated_tokens=5)]
    requests: list[str] = []

    async def answer(url: str) -> bytes | None:
        requests.append(url)
        return None if answers[-1] is None else exposition(answers[-1])

    now = 0.0
    monkeypatch.setattr(stalls, "read_exposition", answer)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    runner = ready(supervisor, spec("inference", silence_s=60, dump=False), metrics="http://x/metrics")
    watch = StallWatch(supervisor.runtime)

    async def pass_time(seconds: float) -> None:
        nonlocal now
        for _ in range(int(seconds / 2)):
            now += 2.0
            watch.poll(now)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    await pass_time(20)
    assert requests == ["http://x/metrics"] * 2, "nobody looks: every ten seconds"
    subscription = supervisor.runtime.events.broadcast.subscribe([])
    await pass_time(20)
    assert len(requests) == 12, "somebody looks: at every look"
    supervisor.runtime.events.broadcast.unsubscribe(subscription)
    activities = supervisor.runtime.observation.activities
    assert activities == {"inference": answers[-1]}
    assert runner.evidence is None
    await pass_time(60)
    alert = supervisor.runtime.events.outbox.get_nowait()
    assert alert.text == "no token for 1m08s while 2 requests are running and 0 waiting"
    answers.append(InferenceActivity(running=2, generated_tokens=6))
    await pass_time(12)
    assert (runner.evidence, activities) == (None, {"inference": answers[-1]})
    answers.append(None)
    await pass_time(40)
    assert activities == {}
    answers.append(InferenceActivity(generated_tokens=7))
    await pass_time(12)
    assert activities == {"inference": answers[-1]}
    enter(supervisor, "inference", ComponentState.STOPPING)
    await pass_time(2)
    assert activities == {}


def test_a_silent_service_without_metrics_needs_an_entry_of_its_own() -> None:
    service = ComponentSpec(id="env", command=("x",), kind="service")
    assert not rule_of(service).output_suffices
    assert rule_of(service.model_copy(update={"stall": Stall(silence_s=60)})).output_suffices
    assert rule_of(spec()).output_suffices


async def look_at_starts(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def end(_: float) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch, suppress(asyncio.CancelledError):
        patch.setattr(asyncio, "sleep", end)
        await watch_starts(supervisor.runtime)


async def test_a_start_tells_how_far_it_is_and_what_it_will_die_of(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:  # G12
    runner = ready(supervisor, spec("inference"))
    enter(supervisor, "inference", ComponentState.STARTING)
    append(runner.log, "Starting to load model x...\n")
    await look_at_starts(supervisor, monkeypatch)
    assert (runner.phase, runner.evidence) == ("loading the model", None)
    append(runner.log, "nothing of interest\n" * 10_000)
    await look_at_starts(supervisor, monkeypatch)
    assert runner.phase == "loading the model", "until it says otherwise"
    append(runner.log, "ValueError: No available memory for the cache blocks. Try\n")
    await look_at_starts(supervisor, monkeypatch)
    assert "its output: out of GPU memory" in (runner.evidence or "")


async def test_the_newest_line_of_one_that_goes_on_is_no_failure(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tinyrl's last line tells its failure once it has ended; until then it may be a progress bar."""
    runner = ready(supervisor, spec("inference"))
    enter(supervisor, "inference", ComponentState.STARTING)
    append(runner.log, "Generating rollouts (train):   0%|          | 0/128 [00:00<?, ?it/s]")
    await look_at_starts(supervisor, monkeypatch)
    assert runner.evidence is None
