"""How leftover processes are told."""

from __future__ import annotations

from rltui.core.api import Orphan
from rltui.views.orphan import orphan_details, owner_text


def test_a_leftover_is_described_by_its_attempt() -> None:
    orphan = Orphan(pid=7, start=1, command="serve", component="inference", attempt=2, evidence="session")
    assert orphan_details(orphan) == ["pid 7 serve", "of inference attempt 2: runs in its session"]


def test_one_of_another_experiment_names_that() -> None:
    orphan = Orphan(pid=7, start=1, experiment="old", component="trainer", attempt=2)
    assert owner_text(orphan) == "old/trainer attempt 2"


def test_one_that_rltui_did_not_start_is_of_no_attempt() -> None:
    orphan = Orphan(pid=7, start=1, command="python train.py", gpu_bytes=12 << 30, evidence="gpu")
    assert orphan_details(orphan) == [
        "pid 7 python train.py",
        "holds 12.0 GiB of GPU memory",
        "holds GPU memory, not started by rltui",
    ]
