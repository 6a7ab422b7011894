"""Which attempt started a process, told of real processes below real shims."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.daemon.shim_harness import Attempt, attempt, program
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.services.processes import ancestors, is_alive, send_signal
from rltui.services.processes.origin import Origin, read_evidence
from rltui.services.processes.origin import origin as origin_of
from rltui.services.runs.experiment_files import ControlFolder

__all__ = ["start"]  # a fixture, used by name


def origin(pid: int) -> Origin | None:
    return origin_of(map(read_evidence, ancestors(pid)))


def folder_of(output_dir: Path, component: str = "trainer", number: int = 1) -> Path:
    return ControlFolder(output_dir).attempt_dir(component, number)


def family(output_dir: Path, ending: str, *kinds: str) -> list[str]:
    return program("family.py", folder_of(output_dir) / "pids", ending, *kinds)


def tag(output_dir: Path) -> str:
    return f"first-{os.getpid()}@{output_dir}"


def name() -> str:
    return f"first-{os.getpid()}"


def kill_shim(run: Attempt) -> None:
    assert run.process is not None
    run.process.kill()
    run.process.wait()


def test_processes_below_a_shim_are_its_attempts_whatever_they_did(tmp_path: Path) -> None:
    kinds = ("child", "session", "daemon", "titled")
    with attempt(folder_of(tmp_path), family(tmp_path, "wait", *kinds), experiment=tag(tmp_path)) as run:
        run.start()
        facts = run.pids()
        expected = Origin(name(), "trainer", 1, lives=True)
        assert {kind: origin(pid) for kind, pid in facts.items()} == dict.fromkeys(kinds, expected)


def test_what_a_shim_keeps_after_the_end_is_of_a_dead_attempt(tmp_path: Path) -> None:
    stop = {"signal": "SIGTERM", "grace_s": 20.0, "leftovers": "keep"}
    argv = family(tmp_path, "3", "child", "titled")
    with attempt(folder_of(tmp_path), argv, experiment=tag(tmp_path), stop=stop) as run:
        run.start()
        facts = run.pids()
        retry_until(lambda: run.record.ended_at)
        dead = Origin(name(), "trainer", 1, lives=False)
        assert {kind: origin(pid) for kind, pid in facts.items()} == {"child": dead, "titled": dead}


def test_without_its_shim_the_tags_lead_to_the_record(tmp_path: Path) -> None:
    argv = family(tmp_path, "wait", "child")
    with attempt(folder_of(tmp_path), argv, experiment=tag(tmp_path)) as run:
        run.start()
        child = run.pids()["child"]
        main = run.running().main
        assert main is not None
        kill_shim(run)
        assert origin(child) == Origin(name(), "trainer", 1, lives=True)
        send_signal(main, signal.SIGKILL)
        retry_until(lambda: not is_alive(main))
        assert origin(child) == Origin(name(), "trainer", 1, lives=False)


@pytest.mark.slow
def test_a_shim_without_a_record_is_a_living_attempt(tmp_path: Path) -> None:
    """As on a machine that shows its processes and not its files."""
    with attempt(folder_of(tmp_path), ["sleep", "1000"], experiment=tag(tmp_path)) as run:
        run.start()
        main = run.running().main
        assert main is not None
        (run.folder / "attempt.json").write_text("{")
        assert origin(main.pid) == Origin(name(), "trainer", 1, lives=True)


def test_an_attempt_without_shim_and_record_is_dead(start: Start, tmp_path: Path) -> None:
    tags = {"RLTUI_EXPERIMENT": tag(tmp_path), "RLTUI_COMPONENT": "inference", "RLTUI_ATTEMPT": "4"}
    process = start("sleep", "1000", env={"RLTUI_TMUX_SOCKET": "x", **tags})
    assert origin(process.pid) == Origin(name(), "inference", 4, lives=False)


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param({}, id="none"),
        pytest.param({"RLTUI_TMUX_SOCKET": "x"}, id="another-variable"),
        pytest.param({"RLTUI_EXPERIMENT": "e@/tmp"}, id="half"),
    ],
)
def test_processes_without_tags_have_no_origin(start: Start, tags: dict[str, str]) -> None:
    assert origin(start("sleep", "1000", env=tags).pid) is None


def test_tags_are_those_of_the_nearest_ancestor(start: Start, tmp_path: Path) -> None:
    """A child whose environment was wiped, below a variable of rltui's that is no tag."""
    tags = {"RLTUI_EXPERIMENT": tag(tmp_path), "RLTUI_COMPONENT": "inference", "RLTUI_ATTEMPT": "4"}
    below = tmp_path / "below"
    script = f"env -i RLTUI_TMUX_SOCKET=x sleep 1000 & echo $! > {below}.part; mv {below}.part {below}; wait"
    start("sh", "-c", script, env={"PATH": os.environ["PATH"], **tags})
    retry_until(below.exists)
    pid = int(below.read_text())
    try:
        retry_until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep"))
        assert origin(pid) == Origin(name(), "inference", 4, lives=False)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_an_ended_process_has_no_origin() -> None:
    assert origin(2**22 + 1) is None
