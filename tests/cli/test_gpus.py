"""What `rltui gpus` prints, for every width."""

from __future__ import annotations

import pytest

from rltui.cli.commands.gpus import report_lines
from rltui.core.gpu.report import (
    GpuBudget,
    GpuDevice,
    GpuProcess,
    GpuReport,
    GpuShare,
    GpuSource,
    MemoryVerdict,
)

GIB = 1 << 30
NOW = 1_800_000_000.0


def process(pid: int, gib: float | None, **values: object) -> GpuProcess:
    used = None if gib is None else int(gib * GIB)
    return GpuProcess.from_plain({"pid": pid, "used_bytes": used, **values})


def share(owner: str, gib: float, *pids: int, **values: object) -> GpuShare:
    used = int(gib * GIB)
    return GpuShare.from_plain({"owner": owner, "used_bytes": used, "pids": pids, **values})


SHARED = GpuDevice(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    total_bytes=141 * GIB,
    used_bytes=120 * GIB,
    free_bytes=21 * GIB,
    utilization=0.97,
    power_w=412.4,
    power_limit_w=700.0,
    temperature_c=61.0,
    throttle=("power brake",),
    ecc_errors=1,
    processes=(
        process(11, 1.0, owner="component", component="inference", attempt=3, user="alice", command="serve"),
        process(12, 60.0, owner="component", component="inference", attempt=3, command="VLLM::EngineCore"),
        process(13, 9.8, owner="experiment", experiment="sft", component="trainer", attempt=1),
        process(14, None, owner="orphan", experiment="old", component="trainer", attempt=2),
        process(15, 2.0, owner="mine", user="alice", command="python notebook.py", estimated=True),
        process(16, 2.0, owner="other", user="bob"),
        process(17, 0.1, owner="unknown", kind="G"),
    ),
    shares=(
        share("component", 61.0, 11, 12, component="inference", peak_bytes=62 * GIB),
        share("experiment", 9.8, 13, experiment="sft", component="trainer", peak_bytes=11 * GIB),
        share("orphan", 3.0, 14, estimated=True),
        share("mine", 2.0, 15, estimated=True),
        share("other", 2.0, 16),
        share("unknown", 0.1, 17),
        share("hidden", 42.1),
    ),
    budgets=(GpuBudget(component="inference", utilization=0.5, budget_bytes=int(70.5 * GIB)),),
)
ELSEWHERE = GpuDevice(
    index=1, mig=0, uuid="MIG-1", name="NVIDIA A100", host="node-2", problem="exited 255: ssh"
)
REPORT = GpuReport(
    available=True,
    devices=(SHARED, ELSEWHERE),
    verdicts=(
        MemoryVerdict(
            verdict="will_refuse", text="inference needs 71.9 GiB free", component="inference", device=0
        ),
    ),
    sources=(GpuSource(name="node-2", problem="exited 255: ssh"), GpuSource(name="node-3")),
    sampled_at=NOW,
)
WORDS = """\
GPU 0 · NVIDIA H200 · 120 of 141 GiB used · 21.0 free · 97% · 412 of 700 W · 61 °C
    ⚠ throttled: power brake
    ⚠ 1 uncorrected memory error (ECC)
    budget of inference: 0.5 × total = 70.5 GiB
     GIB  PID  USER   OWNER                                    COMMAND
    60.0   12         inference attempt 3, peak 62.0 together  VLLM::EngineCore
     1.0   11  alice  inference attempt 3                      serve
     9.8   13         sft/trainer attempt 1, peak 11.0
    ~3.0   14         ⚠ leftover of old/trainer attempt 2
    ~2.0   15  alice  yours, unattributed                      python notebook.py
     2.0   16  bob    another user's
     0.1   17         unknown owner (graphics)
    42.1              driver or unlisted processes
node-2: GPU 1.0 · NVIDIA A100 · ⚠ exited 255: ssh
✗ GPU 0: inference needs 71.9 GiB free
✗ node-2: exited 255: ssh
"""


def test_everything_that_is_known_is_said() -> None:
    assert report_lines(REPORT, width=None, now=NOW) == WORDS.splitlines()


def test_no_line_is_wider_than_the_terminal() -> None:
    for width in (1, 20, 40, 80):
        assert max(map(len, report_lines(REPORT, width=width, now=NOW))) <= width
    lines = report_lines(REPORT, width=73, now=NOW)
    assert lines[:2] == [
        "GPU 0 · NVIDIA H200 · 120 of 141 GiB used · 21.0 free · 97%",
        "    412 of 700 W · 61 °C",
    ], "a heading breaks between its figures"
    assert "    60.0   12         inference attempt 3" in "\n".join(lines)


@pytest.mark.parametrize(
    ("interval_s", "age_s", "line"),
    [(1.0, 2.9, None), (1.0, 12.0, "⚠ read 12s ago"), (10.0, 12.0, None)],
)
def test_old_figures_say_so(interval_s: float | None, age_s: float, line: str | None) -> None:
    report = GpuReport(available=True, devices=(SHARED,), sampled_at=NOW, interval_s=interval_s)
    last = report_lines(report, width=None, now=NOW + age_s)[-1]
    assert (last if last.startswith("⚠ read") else None) == line


def test_what_hinders_a_reading_stands_first() -> None:
    report = GpuReport(available=True, reason="the driver has not answered", devices=(SHARED,))
    assert report_lines(report, width=None, now=NOW)[0] == "⚠ the driver has not answered"
    report = GpuReport(available=False, reason="no driver", sampled_at=NOW)
    assert report_lines(report, width=80, now=NOW) == ["no GPU figures: no driver"]


def test_figures_that_are_missing_are_left_out_or_marked() -> None:
    bare = GpuDevice(index=3, processes=(process(5, None),), memory_kind="v1")
    [header, _, row] = report_lines(GpuReport(available=True, devices=(bare,)), width=80, now=NOW)
    assert header == "GPU 3 · ? of ? GiB used including driver reserve · ? free"
    assert row == "      ?    5  unknown owner"


def test_no_text_acts_on_the_terminal() -> None:
    evil = SHARED.replace(name="\x1b[2JH200\x1b]0;x\x07")
    lines = report_lines(GpuReport(available=True, devices=(evil,)), width=None, now=NOW)
    assert all(line.isprintable() for line in lines)
    assert "· ␛[2JH200␛]0;x␇ ·" in lines[0]
