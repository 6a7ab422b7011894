"""How leftover processes are told."""

from __future__ import annotations

from rltui.core.experiment.api import Orphan
from rltui.views.orphan import VIEW, orphan_details, orphan_text, owner_text


def test_a_leftover_is_described_by_its_attempt() -> None:
    orphan = Orphan(pid=7, start=1, command="serve", component="inference", attempt=2, evidence="session")
    assert orphan_details(orphan) == ["pid 7 serve", "of inference attempt 2: in its session"]


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


def test_one_in_columns_as_far_as_it_is_known() -> None:
    orphan = Orphan(
        pid=7, start=1, command="/usr/bin/serve", component="inference", attempt=2, age_s=252.0,
        gpu_bytes=58 << 30, ports=(8001, 8000), evidence="session",
    )  # fmt: skip
    cells = [column.cell(orphan, 0.0).text for column in VIEW.columns]
    assert cells == ["7", "serve", "inference attempt 2", "4m12s", "58.0 GiB", ":8000 :8001"]
    assert orphan_text(orphan) == "pid 7 serve · of inference attempt 2 · 4m12s · 58.0 GiB · :8000 :8001"
