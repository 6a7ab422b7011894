"""Who on the GPUs may be ended by a person: real processes, whatever a report claims of them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.shim_harness import Attempt, attempt, program
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.core.experiment.api import Orphan
from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.processes import Leftover, ProcessId, is_alive, read_process_id, send_signal
from rltui.services.processes.orphans import described, foreign_processes, is_rltui

__all__ = ["start"]  # a fixture, used by name

GIB = 1 << 30


pytestmark = pytest.mark.usefixtures("own_user")


def identity(pid: int) -> ProcessId:
    found = read_process_id(pid)
    assert found is not None
    return found


def held(process: ProcessId, **values: Any) -> GpuProcess:
    fields = {"pid": process.pid, "start": process.start, "used_bytes": 3 * GIB, "owner": "mine", **values}
    return GpuProcess.from_plain(fields)


def report(*processes: GpuProcess, **values: Any) -> GpuReport:
    device = GpuDevice.from_plain({"index": 0, "uuid": "GPU-1", "processes": processes, **values})
    return GpuReport(available=True, devices=(device,))


def found(made: GpuReport, *known: Orphan) -> list[int]:
    return [stranger.pid for stranger in foreign_processes(made, known)]


def test_what_rltui_did_not_start_is_described(start: Start) -> None:
    process = start("sleep", "1000")
    two = report(held(process)).devices[0], report(held(process, used_bytes=GIB), index=1).devices[0]
    [stranger] = foreign_processes(GpuReport(available=True, devices=two), ())
    assert (stranger.pid, stranger.start) == (process.pid, process.start)
    assert (stranger.command, stranger.evidence, stranger.component) == ("sleep 1000", "gpu", None)
    assert stranger.gpu_bytes == 4 * GIB
    assert stranger.age_s is not None


def test_a_leftover_has_its_memory_of_this_machine_and_no_secrets() -> None:
    process, key = identity(os.getpid()), "sk-4f7a9c21d8e6b035"
    leftover = Leftover(process, "trainer", 1, "environment", f"train --api-key={key}")
    here = report(held(process)).devices
    elsewhere = report(held(process, start=None), host="node-2", index=1).devices
    [orphan] = described([leftover], GpuReport(available=True, devices=(*here, *elsewhere)))
    assert orphan.gpu_bytes == 3 * GIB
    assert key not in orphan.command
    assert orphan.command.startswith("train --api-key=")
    assert (orphan.component, orphan.attempt, orphan.evidence) == ("trainer", 1, "environment")
    [orphan] = described([leftover], GpuReport(available=True))
    assert orphan.gpu_bytes is None


def test_all_that_is_not_clearly_ones_own_is_left_alone(start: Start) -> None:
    process = start("sleep", "1000")
    assert found(report(held(process))) == [process.pid]
    assert found(report(held(process), host="node-2")) == []
    owners: list[dict[str, Any]] = [
        {"owner": name} for name in ("component", "experiment", "other", "unknown", "hidden")
    ]
    for values in (*owners, {"start": None}, {"start": 1}, {"estimated": True}):
        assert found(report(held(process, **values))) == [], values


def test_another_users_process_is_never_listed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    made = report(held(start("sleep", "1000")))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert found(made) == []


def test_one_that_ended_is_not_listed(start: Start) -> None:
    process = start("sleep", "1000")
    made = report(held(process))
    send_signal(process, signal.SIGKILL)
    retry_until(lambda: not is_alive(process))
    assert found(made) == []


def test_leftovers_that_are_known_are_not_listed_twice(start: Start) -> None:
    one, other = start("sleep", "1000"), start("sleep", "1000")
    made = report(held(one, owner="orphan"), held(other))
    assert found(made, Orphan(pid=one.pid, start=one.start)) == [other.pid]
    assert found(made, Orphan(pid=one.pid, start=one.start + 1)) == sorted([one.pid, other.pid])


def test_this_program_and_those_above_it_are_left_alone() -> None:
    assert found(report(held(identity(os.getpid())), held(identity(os.getppid())))) == []


def test_rltui_itself_is_left_alone(start: Start) -> None:
    code = "import time; time.sleep(1000)"
    ours = start(sys.executable, "-c", code, "-m", "rltui.supervisor")
    engine = start(sys.executable, "-c", code, "-m", "rltui.tinyrl")
    assert found(report(held(ours), held(engine))) == [engine.pid]


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("/usr/bin/python3 -m rltui.supervisor /runs/out", True),
        ("/usr/bin/python3 -m rltui up rl.toml", True),
        ("/usr/bin/python3 /home/a/.venv/bin/rltui -n one", True),
        ("/usr/bin/python3 -I -S /x/rltui/hosts/shim/__main__.py /runs/out/.rltui", True),
        ("/usr/bin/python3 -I -S /x/rltui/daemon/shim/__main__.py /runs/out/.rltui", True),
        ("/usr/bin/python3 -m rltui.tinyrl trainer @ rl.toml", False),
        ("/usr/bin/python3 /home/a/rltui/train.py", False),
        ("VLLM::EngineCore", False),
        ("", False),
    ],
)
def test_a_command_line_of_rltui(command: str, ours: bool) -> None:
    assert is_rltui(command) is ours


def experiment(tmp_path: Path, argv: list[str], **spec: Any) -> Any:
    """An attempt of an experiment that is on the user's list."""
    record = ExperimentRecord("other", str(tmp_path), str(tmp_path), (), "/x.toml", "generic", 1.0)
    control = ControlFolder(tmp_path)
    control.write_record(record)
    return attempt(control.attempt_dir("trainer", 1), argv, experiment=record.tag, **spec)


def family(tmp_path: Path, ending: str, *kinds: str) -> list[str]:
    folder = ControlFolder(tmp_path).attempt_dir("trainer", 1)
    return program("family.py", folder / "pids", ending, *kinds)


def claimed(run: Attempt, owner: str) -> GpuReport:
    """As a report would have it that took them all for something else."""
    return report(*(held(identity(pid), owner=owner) for pid in run.pids().values()))


def test_living_components_are_left_alone_whatever_the_report_says(tmp_path: Path) -> None:
    argv = family(tmp_path, "wait", "child", "session", "daemon", "titled")
    with experiment(tmp_path, argv) as run:
        run.start()
        main = run.running().main
        for owner in ("mine", "orphan"):
            assert found(claimed(run, owner)) == found(report(held(main, owner=owner))) == []


def test_living_components_without_a_shim_are_left_alone_too(tmp_path: Path) -> None:
    """Title and environment of one do not tell: it was recorded while the shim lived."""
    with experiment(tmp_path, family(tmp_path, "wait", "child", "session", "titled")) as run:
        run.start()
        pids = set(run.pids().values())
        retry_until(lambda: pids <= {process.pid for process in run.record.descendants})
        main = run.running().main
        assert run.process is not None
        run.process.kill()
        run.process.wait()
        assert found(claimed(run, "mine")) == found(report(held(main))) == []
        send_signal(main, signal.SIGKILL)
        retry_until(lambda: not is_alive(main))
        assert set(found(claimed(run, "mine"))) == {pid for pid in pids if read_process_id(pid)}


def test_what_a_dead_attempt_of_another_experiment_left_is_listed(tmp_path: Path) -> None:
    stop = {"signal": "SIGTERM", "grace_s": 20.0, "leftovers": "keep"}
    with experiment(tmp_path, family(tmp_path, "3", "titled"), stop=stop) as run:
        run.start()
        pid = run.pids()["titled"]
        retry_until(lambda: run.record.ended_at)
        owner = {"owner": "orphan", "experiment": "other", "component": "trainer", "attempt": 1}
        [orphan] = foreign_processes(report(held(identity(pid), **owner)), ())
        assert (orphan.experiment, orphan.component, orphan.attempt) == ("other", "trainer", 1)
        assert orphan.evidence == "environment"
