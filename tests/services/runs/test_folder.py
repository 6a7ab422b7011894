from __future__ import annotations

import os
from pathlib import Path

import pytest

from rltui.frameworks.run_settings import RunFiles
from rltui.services.runs.folder import RunFolder

FILES = RunFiles(stale_after_resume=("rollouts", "broadcasts"))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    for step in (5, 10, 15):
        for name in ("rollouts", "broadcasts", "checkpoints"):
            (tmp_path / name / f"step_{step}").mkdir(parents=True)
    for step in (5, 10):
        (tmp_path / "checkpoints" / f"step_{step}" / "STABLE").touch()
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    return RunFolder(tmp_path, FILES)


def test_only_complete_checkpoints_count(folder: RunFolder) -> None:
    assert folder.checkpoints() == [5, 10]
    assert folder.latest_checkpoint() == 10
    assert RunFolder(folder.path / "none", FILES).latest_checkpoint() is None


def test_resuming_moves_only_what_lies_beyond(folder: RunFolder) -> None:
    aside = folder.move_stale_aside(10)
    assert aside is not None
    assert sorted(path.name for path in (folder.path / "rollouts").iterdir()) == ["step_10", "step_5"]
    assert (aside / "rollouts" / "step_15").is_dir()
    assert (aside / "broadcasts" / "step_15").is_dir()
    assert (folder.path / "metrics.jsonl").exists()
    assert folder.move_stale_aside(10) is None


def test_from_the_beginning_nothing_is_lost(folder: RunFolder) -> None:
    aside = folder.move_stale_aside(None)
    assert aside is not None
    assert folder.artifacts() == []
    assert (aside / "metrics.jsonl").read_text() == "{}\n"
    assert (aside / "checkpoints" / "step_10" / "STABLE").exists()


def test_what_a_person_keeps_beside_the_steps_is_neither_offered_nor_moved(folder: RunFolder) -> None:
    """Finding A8."""
    for name in ("best_step_400", "step_0400", "step_12_before_collapse"):
        (folder.path / "checkpoints" / name).mkdir()
        (folder.path / "checkpoints" / name / "STABLE").touch()
    (folder.path / "checkpoints" / "step_500").write_text("a note")
    mine = {"best_step_400", "step_0400", "step_12_before_collapse", "step_500"}
    assert folder.checkpoints() == [5, 10]
    folder.move_stale_aside(5)
    assert {path.name for path in (folder.path / "checkpoints").iterdir()} >= mine
    folder.move_stale_aside(None)
    assert {path.name for path in (folder.path / "checkpoints").iterdir()} == mine


def test_what_is_moved_aside_goes_to_the_output_folder(tmp_path: Path) -> None:
    run = tmp_path / "out" / "run"
    run.mkdir(parents=True)
    archives = set()
    for _ in range(2):  # within one second
        (run / "metrics.jsonl").write_text("{}")
        aside = RunFolder(run, RunFiles(), tmp_path / "out").move_stale_aside(None)
        assert aside is not None
        archives.add(aside)
        assert list(run.iterdir()) == []
    assert {aside.parent for aside in archives} == {tmp_path / "out" / ".rltui" / "archive"}
    assert len(archives) == 2


@pytest.mark.parametrize(("first_step", "kept"), [(0, ["step_4"]), (1, ["step_4", "step_5"])])
def test_batches_of_steps_to_come_are_stale(tmp_path: Path, first_step: int, kept: list[str]) -> None:
    for step in (4, 5, 6):
        (tmp_path / "rollouts" / f"step_{step}").mkdir(parents=True)
    RunFolder(tmp_path, RunFiles(stale_batches=("rollouts",), first_step=first_step)).move_stale_aside(5)
    assert sorted(path.name for path in (tmp_path / "rollouts").iterdir()) == kept


def test_what_is_always_stale_goes_whatever_its_step(tmp_path: Path) -> None:
    for step in (0, 5):
        (tmp_path / "broadcasts" / f"step_{step}").mkdir(parents=True)
    aside = RunFolder(tmp_path, RunFiles(stale_always=("broadcasts",))).move_stale_aside(5)
    assert aside is not None
    assert len(list((aside / "broadcasts").iterdir())) == 2


def test_an_empty_folder_of_a_run_that_stopped_early_goes_too(tmp_path: Path) -> None:
    """prime-rl makes `checkpoints` with its first step, and its launcher refuses a folder that has it. R1."""
    (tmp_path / "checkpoints").mkdir()
    folder = RunFolder(tmp_path, RunFiles())
    assert folder.artifacts() == ["checkpoints"]
    aside = folder.move_stale_aside(None)
    assert aside is not None
    assert (aside / "checkpoints").is_dir()
    assert folder.artifacts() == []


def test_the_folder_that_rltui_makes_is_no_run(tmp_path: Path) -> None:
    files = RunFiles(artifacts=("logs",), made_by_rltui="logs/rltui")
    (tmp_path / "logs/rltui").mkdir(parents=True)
    assert RunFolder(tmp_path, files).artifacts() == []
    (tmp_path / "logs/rltui/a.log").touch()
    assert RunFolder(tmp_path, files).artifacts() == ["logs"]


def test_file_that_is_written_with_each_step_beats(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, RunFiles(beats={"trainer": "trainer_step"}))
    assert folder.beat("trainer") is None
    (tmp_path / "trainer_step").write_text("1")
    os.utime(tmp_path / "trainer_step", ns=(5, 5))
    assert (folder.beat("trainer"), folder.beat("inference")) == (5, None)
