from __future__ import annotations

from pathlib import Path

import pytest

from rltui.frameworks.base import RunFiles
from rltui.services.run_folder import RunFolder, next_free

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


def test_two_archives_in_one_second_do_not_meet(folder: RunFolder) -> None:
    first = folder.move_stale_aside(None)
    (folder.path / "metrics.jsonl").write_text("again")
    second = folder.move_stale_aside(None)
    assert first is not None
    assert second is not None
    assert first != second


def test_what_is_moved_aside_goes_to_the_output_folder(tmp_path: Path) -> None:
    run = tmp_path / "out" / "run"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("{}")
    aside = RunFolder(run, RunFiles(), tmp_path / "out").move_stale_aside(None)
    assert aside is not None
    assert aside.is_relative_to(tmp_path / "out" / ".rltui" / "archive")
    assert list(run.iterdir()) == []


def test_next_free(tmp_path: Path) -> None:
    assert next_free(tmp_path / "run") == tmp_path / "run-2"
    (tmp_path / "run-2").mkdir()
    assert next_free(tmp_path / "run") == tmp_path / "run-3"
