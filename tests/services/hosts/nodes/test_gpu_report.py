"""What a node says of its GPUs, by an nvidia-smi that answers as the real one does."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from rltui.core.gpu.report import GpuReport
from rltui.services.gpu.other_hosts import ReportReader
from rltui.services.hosts.nodes import gpu_command, gpu_report, node_tag

SMI = """\
#!/bin/sh
case "$1" in
*memory.reserved*{refused}) echo 'Field "memory.reserved" is not a valid field to query.'; exit 2;;
--query-gpu=*) echo "0, GPU-a, NVIDIA H200, 143771, 61440, 81500, {reserved}37, 12, 340.21, 700.00, 54"
echo "1, GPU-b, NVIDIA H200, 143771, 0, 142940, {reserved}[N/A], [N/A], 76.00, 700.00, 31";;
--query-compute-apps=*) echo "GPU-a, {pid}, 61440";;
esac
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    for name in ("bin", "home"):
        (tmp_path / name).mkdir()
    return tmp_path


def report_of(
    node: Path, tag: str = "", *, login: bool = True, of_job: tuple[str, int] | None = None
) -> GpuReport:
    command, stdin = gpu_command(["env"], python=sys.executable, login=login, tag=tag, of_job=of_job)
    job = {} if of_job is None else {"SLURM_JOB_ID": "7"}
    env = {**job, "PATH": f"{node}/bin:/usr/bin:/bin", "SHELL": "/bin/sh", "HOME": str(node / "home")}
    (node / "home/.profile").write_text(f"echo welcome; cat; PATH={node}/bin:/usr/bin:/bin\n")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(stdin)
        process.stdin.close()
        reader = ReportReader()
        reports: list[GpuReport] = []
        while not reports:
            reports = reader.feed(process.stdout.readline())
        process.kill()
    return reports[0]


@pytest.mark.parametrize("is_old", [False, True], ids=["driver of now", "old driver"])
def test_figures_and_owners(node: Path, is_old: bool) -> None:
    tags = {"RLTUI_EXPERIMENT": node_tag("one@/run"), "RLTUI_COMPONENT": "trainer", "RLTUI_ATTEMPT": "3"}
    with subprocess.Popen(["sleep", "60"], env={**os.environ, **tags}) as holder:
        smi = node / "bin/nvidia-smi"
        smi.write_text(
            SMI.format(refused="" if is_old else "never", reserved="" if is_old else "831, ", pid=holder.pid)
        )
        smi.chmod(0o755)
        report = report_of(node, "one@/run")
        other = report_of(node, "two@/run")
        holder.kill()
    first, second = report.devices
    assert (first.total_bytes, first.utilization, first.power_w) == (143771 << 20, 0.37, 340.21)
    assert first.reserved_bytes == (None if is_old else 831 << 20)
    assert (second.used_bytes, second.utilization) == (0, None)
    (share,) = first.shares
    assert (share.owner, share.component, share.used_bytes) == ("component", "trainer", 61440 << 20)
    assert (other.devices[0].shares[0].owner, other.devices[0].shares[0].experiment) == ("experiment", "one")


def test_a_node_without_gpus_says_so(node: Path) -> None:
    report = report_of(node)
    assert not report.available
    assert report.reason == "has no GPU: nvidia-smi not found"


def test_the_programs_text_is_on_no_command_line(node: Path) -> None:
    smi = node / "bin/nvidia-smi"
    smi.write_text(f"#!/bin/sh\ntr '\\0' ' ' < /proc/$PPID/cmdline > {node}/seen\nenv >> {node}/seen\n")
    smi.chmod(0o755)
    for login in (False, True):
        assert report_of(node, login=login).available
        seen = (node / "seen").read_text()
        assert seen.startswith(f"{sys.executable} -I -u - ")
        assert "nvidia-smi --query" not in seen
        assert "RLTUI" not in seen


@pytest.mark.parametrize(("job", "owner"), [("7", "component"), ("8", "mine")])
def test_what_runs_in_the_same_job_is_of_its_component(node: Path, job: str, owner: str) -> None:
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "SLURM_JOB_ID": job}) as holder:
        smi = node / "bin/nvidia-smi"
        smi.write_text(SMI.format(refused="never", reserved="831, ", pid=holder.pid))
        smi.chmod(0o755)
        report = report_of(node, "one@/run", login=False, of_job=("trainer", 3))
        holder.kill()
    (share,) = report.devices[0].shares
    assert share.owner == owner
    assert share.component == ("trainer" if owner == "component" else None)


def test_the_next_reading_comes_after_its_interval(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []

    class Poll:
        def register(self, descriptor: int, events: int) -> None:
            assert (descriptor, events) == (1, 0)

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            waits.append(milliseconds)
            return [(1, 16)] if len(waits) == 2 else []

    monkeypatch.setattr(select, "poll", Poll)
    monkeypatch.setattr(gpu_report, "report", lambda tag, of_job: {"available": False, "interval_s": 5})
    gpu_report.watch("tag", None)
    assert waits == [5000, 5000]
    assert len(capsys.readouterr().out.splitlines()) == 2
