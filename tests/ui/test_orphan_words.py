"""What is said of processes that a person may end."""

from __future__ import annotations

from rltui.core.api import Orphan
from rltui.ui.orphans import bar_lines, details, owner_text


def test_a_leftover_is_described_by_its_attempt() -> None:
    orphan = Orphan(pid=7, start=1, command="serve", component="inference", attempt=2, evidence="session")
    assert details(orphan) == ("pid 7 serve", "", "of inference attempt 2: runs in its session")


def test_one_of_another_experiment_names_that() -> None:
    orphan = Orphan(pid=7, start=1, experiment="old", component="trainer", attempt=2)
    assert owner_text(orphan) == "old/trainer attempt 2"


def test_one_that_rltui_did_not_start_is_of_no_attempt() -> None:
    orphan = Orphan(pid=7, start=1, command="python train.py", gpu_bytes=12 << 30, evidence="gpu")
    assert details(orphan) == (
        "pid 7 python train.py",
        "holds 12.0 GiB of GPU memory",
        "holds GPU memory, not started by rltui",
    )


def test_what_matters_is_named_first() -> None:  # G12
    tracker = Orphan(
        pid=5, start=1, command="python -c from multiprocessing.resource_tracker import main", component="i"
    )
    engine = Orphan(pid=9, start=1, command="VLLM::EngineCore", component="i")
    (line,) = bar_lines([tracker, engine], 60, rows=1, hint="")
    assert "pid 9 VLLM::EngineCore, …" in line
    holder = Orphan(pid=11, start=1, command="VLLM::Worker", component="i", gpu_bytes=60 << 30)
    (line,) = bar_lines([tracker, engine, holder], 70, rows=1, hint="")
    assert "pid 11 VLLM::Worker" in line
