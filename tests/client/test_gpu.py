"""Which devices a person may name for an experiment, and which one all components share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rltui.client import gpu
from rltui.core.gpu.report import GpuDevice, GpuReport, GpuShare
from rltui.errors import UsageError
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.gpu.peaks import write_peaks

GIB = 1 << 30


def of_box(
    monkeypatch: pytest.MonkeyPatch, *free_gib: int, serving: tuple[int, ...] = (), **report: Any
) -> None:
    """Devices of 80 GiB; on those that are `serving`, the experiment warm is."""
    share = GpuShare(owner="experiment", experiment="warm", used_bytes=GIB)
    devices = tuple(
        GpuDevice(
            index=index, uuid=f"GPU-{index}f", total_bytes=80 * GIB, free_bytes=free * GIB,
            shares=(share,) if index in serving else (),
        )
        for index, free in enumerate(free_gib)
    )  # fmt: skip
    gpu_report = GpuReport(available=bool(devices), devices=devices, **report)
    monkeypatch.setattr(gpu, "read_once", lambda experiment=None: gpu_report)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_single_gpu_is_the_one_with_most_room(monkeypatch: pytest.MonkeyPatch) -> None:
    of_box(monkeypatch, 20, 70, 70)
    assert gpu.roomiest_device() == ("1", "all components share GPU 1: 70.0 of 80.0 GiB free")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert gpu.roomiest_device()[0] == "2", "among those that are visible"
    of_box(monkeypatch, reason="no driver")
    assert gpu.roomiest_device() == (
        None,
        "--single-gpu: cannot read any GPU of this machine (no driver)",
    )


def test_named_devices_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    of_box(monkeypatch, 20, 70)
    assert gpu.named_devices("1, 0") == "1,0"
    assert gpu.named_devices("GPU-1") == "GPU-1"
    assert gpu.named_devices(" none ") == "none"
    for wrong in ("2", "0,0", "0,7", "none,0"):
        with pytest.raises(UsageError, match="must list GPUs of this machine, each once"):
            gpu.named_devices(wrong)
    of_box(monkeypatch, reason="no driver")
    assert gpu.named_devices("3") == "3", "nobody knows better"


LAYOUT = """\
framework = "generic"
[[component]]
id = "inference"
command = ["true"]
gpus = "0,1"
gpu_memory = "0.5"
[[component]]
id = "trainer"
command = ["true"]
gpus = "1,2"
"""


def test_what_all_components_need_of_their_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_box(monkeypatch, 80, 80, 80, 80)
    (tmp_path / "run.toml").write_text(LAYOUT)
    record = ExperimentRecord(
        "a", str(tmp_path / "a"), str(tmp_path), (), str(tmp_path / "run.toml"), "generic", 1.0
    )
    engine = gpu.needed_bytes(record)["/GPU-0f"]
    assert 40 * GIB < engine < 41 * GIB, "its share, and what comes on top"
    assert gpu.needed_bytes(record) == {"/GPU-0f": engine, "/GPU-1f": engine, "/GPU-2f": 0}
    attempt = ControlFolder(tmp_path / "a").attempt_dir("trainer", 1)
    attempt.mkdir(parents=True)
    write_peaks(attempt, {"/GPU-1f": 30 * GIB, "/GPU-2f": 20 * GIB})
    assert gpu.needed_bytes(record) == {
        "/GPU-0f": engine,
        "/GPU-1f": engine + 30 * GIB,
        "/GPU-2f": 20 * GIB,
    }
    of_box(monkeypatch, reason="no driver")
    assert gpu.needed_bytes(record) == {}


RL = """\
[model]
name = "m"
[trainer]
[orchestrator]
batch_size = 8
[[orchestrator.env]]
id = "reverse-text"
[deployment]
num_train_gpus = 1
"""


def test_a_run_is_kept_off_devices_of_other_experiments(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding S1: `rl.toml` without [inference] uses one GPU, which was the first, whoever served on it."""
    (tmp_path / "rl.toml").write_text(RL)
    record = ExperimentRecord(
        "a", str(tmp_path / "a"), str(tmp_path), (str(tmp_path / "rl.toml"),),
        str(layout_files.find("prime-rl-merged")), "prime-rl-merged", 1.0,
    )  # fmt: skip

    def moved(*free_gib: int, serving: tuple[int, ...] = ()) -> tuple[str, tuple[str, ...]]:
        of_box(monkeypatch, *free_gib, serving=serving)
        now, why = gpu.with_devices(record)
        return now.devices, why

    assert moved(80, 80) == ("", ()), "nobody is in the way"
    assert moved(40, 80, 80, serving=(0,)) == ("1,2", ("GPU 0 is used by warm; this experiment uses GPU 1",))
    assert moved(2, 79) == ("1", ("GPU 0 has 2.0 GiB free; this experiment uses GPU 1",))
    assert moved(80, 2, serving=(1,)) == ("", ()), "it does not use that one"
    shared = "GPU 0 is used by warm and by this experiment; to choose other GPUs: --devices"
    assert moved(40, serving=(0,)) == ("", (shared,))
    assert moved(40, 2, serving=(0,)) == ("", (shared,))
    of_box(monkeypatch, 40, 80, serving=(0,))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert gpu.with_devices(record) == (record, (shared,)), "the person's choice"
    named = replace(record, devices="0")
    assert gpu.with_devices(named) == (named, ())
    of_box(monkeypatch, reason="no driver")
    unreadable = "--devices 0: cannot read any GPU of this machine (no driver)"
    assert gpu.with_devices(named) == (named, (unreadable,)), "it may run on the CPU, which must be said"
    none = replace(record, devices="none")
    assert gpu.with_devices(none) == (none, ())
