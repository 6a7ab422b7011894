"""Which attempt started a process, told of real processes below real shims."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.services.processes import ancestors
from rltui.services.processes.origin import Origin, read_evidence
from rltui.services.processes.origin import origin as origin_of

__all__ = ["start"]  # a fixture, used by name


def origin(pid: int) -> Origin | None:
    return origin_of(map(read_evidence, ancestors(pid)))


def tag(output_dir: Path) -> str:
    return f"first-{os.getpid()}@{output_dir}"


def name() -> str:
    return f"first-{os.getpid()}"


def test_processes_without_tags_have_no_origin(start: Start) -> None:
    for tags in ({}, {"RLTUI_TMUX_SOCKET": "x"}, {"RLTUI_EXPERIMENT": "e@/tmp"}):
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
