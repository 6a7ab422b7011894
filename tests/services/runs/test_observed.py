"""How long a run will be, from what it wrote down itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rltui.errors import NotFoundError, UsageError
from rltui.frameworks.run_settings import RunFiles
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.runs.observed import DetectedRun, find_run, written_max_steps


@pytest.mark.parametrize(
    ("name", "text", "steps"),
    [
        ("configs/trainer.json", '{"max_steps": 20, "model": {}}', 20),
        ("configs/latest/resolved/trainer.json", '{"max_steps": 21}', 21),
        ("configs/trainer.toml", "max_steps = 30\n", 30),
        ("run_default/control/orch.toml", "max_steps = 40\n", 40),
        ("configs/trainer.json", '{"max_steps": null}', None),
        ("configs/trainer.json", '{"max_steps": tr', None),
        ("configs/trainer.toml", "max_steps = true\n", None),
    ],
)
def test_first_that_says_so(tmp_path: Path, name: str, text: str, steps: int | None) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    assert written_max_steps(tmp_path, RunFiles()) == steps


def test_a_file_without_it_leaves_it_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "trainer.json").write_text("{}")
    (tmp_path / "configs" / "sft.json").write_text('{"max_steps": 9}')
    assert written_max_steps(tmp_path, RunFiles()) == 9


def run_of_today(folder: Path, at: float | None = None) -> Path:
    (folder / "logs" / "attempt_1").mkdir(parents=True)
    (folder / "logs" / "latest").symlink_to("attempt_1")
    if at is not None:
        os.utime(folder, (at, at))
    return folder


def test_the_folder_itself(tmp_path: Path) -> None:
    run = run_of_today(tmp_path / "run")
    assert find_run(run) == DetectedRun(run, "prime-rl")
    (tmp_path / "link").symlink_to("run")
    assert find_run(tmp_path / "link").path == run


def test_the_only_run_in_it(tmp_path: Path) -> None:
    run = run_of_today(tmp_path / "outputs" / "reverse-text--0bff9f83")
    (tmp_path / "outputs" / "notes").mkdir()
    assert find_run(tmp_path / "outputs") == DetectedRun(run, "prime-rl")


def test_of_several_none_is_chosen(tmp_path: Path) -> None:
    old, new = run_of_today(tmp_path / "a", at=1e9), run_of_today(tmp_path / "b", at=2e9)
    with pytest.raises(UsageError, match="contains 2 runs") as caught:
        find_run(tmp_path)
    assert caught.value.details == (f"rltui watch {new}", f"rltui watch {old}")


def test_a_folder_of_nothing_unless_a_framework_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no run of a known framework"):
        find_run(tmp_path)
    assert find_run(tmp_path, "prime-rl-split") == DetectedRun(tmp_path, "prime-rl-split")
    with pytest.raises(NotFoundError, match="folder not found"):
        find_run(tmp_path / "none")


def test_a_run_of_another_persons_rltui(own_user: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    record = ExperimentRecord(
        "x", "/moved/out", "/w", (), "/l.toml", "prime-rl", 1.0, run_dir="/moved/out/run"
    )
    (theirs / "run").mkdir(parents=True)
    control = ControlFolder(theirs)
    control.write_record(record)
    assert find_run(theirs) == DetectedRun(theirs / "run", "prime-rl")
