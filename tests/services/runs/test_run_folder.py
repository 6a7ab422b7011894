from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rltui.core.api import Request
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFile, ConfigFiles, RunFiles
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.run_folder import ResumePoints, RunFolder

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


START = Request(action="start")


def make_checkpoint(run: Path, step: int) -> None:
    """As tinyrl leaves it."""
    for half in ("trainer", "orchestrator"):
        (run / "checkpoints" / f"step_{step}" / half).mkdir(parents=True)
    (run / "checkpoints" / f"step_{step}" / "STABLE").touch()


@pytest.fixture
def points(tmp_path: Path) -> ResumePoints:
    """A tinyrl run with checkpoints 400, 420 … 500, last started without a step in its config."""
    for step in range(400, 501, 20):
        make_checkpoint(tmp_path, step)
    framework = registry.get("tinyrl")
    folder = RunFolder(tmp_path, framework.files)
    found = ResumePoints(framework, ControlFolder(tmp_path), folder, frozenset({"orchestrator", "trainer"}))
    started(found, "")
    return found


def started(points: ResumePoints, text: str, component: str = "trainer") -> None:
    number = points.control.new_attempt(component)
    config = points.control.attempt_dir(component, number) / "config"
    config.mkdir()
    (config / "rl.toml").write_text(f"[trainer]\n{text}")


def config(step: int | None) -> ConfigFiles:
    ckpt = {} if step is None else {"ckpt": {"resume_step": step}}
    return {"rl": ConfigFile("rl", "/w/rl.toml", {"trainer": {}, **ckpt})}


def test_the_newest_unless_somebody_asks(points: ResumePoints) -> None:
    assert points.of(START, config(None)).step == 500
    assert points.of(START, config(-1)).step == 500, "-1 means the newest"
    assert points.of(START.model_copy(update={"resume": "scratch"}), config(420)).step is None
    beginning = points.of(START, config(0))
    assert (beginning.step, beginning.requested_step, beginning.problem) == (None, 0, None)
    point = points.of(START.model_copy(update={"resume_step": 440}), config(420))
    assert (point.step, point.requested_step, point.because) == (440, 440, ""), (
        "a request goes before the config"
    )


def test_a_new_step_in_the_config_wins_once(points: ResumePoints) -> None:
    """Finding A1. Won every time, a run would never get beyond it."""
    point = points.of(START, config(420))
    assert (point.step, point.requested_step, point.problem) == (420, 420, None)
    assert point.because == "ckpt.resume_step = 420 asks for that checkpoint"
    started(points, "[ckpt]\nresume_step = 420\n")
    assert points.of(START, config(420)).step == 500
    assert points.of(START, config(420), edited={"rl": ["ckpt.resume_step"]}).step == 420, "said again"
    assert points.of(START, config(440)).step == 440
    started(points, "[ckpt]\nresume_step = 440\n", "inference")
    assert points.of(START, config(440)).step == 440, "inference does not write the run"


def test_a_step_that_is_not_there_is_refused_with_those_that_are(points: ResumePoints) -> None:
    problem = points.of(START, config(455)).problem
    assert problem is not None
    assert (problem.key, problem.file) == ("ckpt.resume_step", "/w/rl.toml")
    assert problem.message.startswith("ckpt.resume_step = 455: ")
    assert problem.message.endswith("it has: 400, 420, 440, 460, 480, 500")
    asked = points.of(START.model_copy(update={"resume_step": 7}), config(420)).problem
    assert asked is not None
    assert "checkpoint 7: " in asked.message
    for step in range(1, 51):
        make_checkpoint(points.folder.path, step)
    problem = points.of(START, config(455)).problem
    assert problem is not None
    assert "400, 420, 440, 460, 480, 500" in problem.message
    assert problem.message.endswith("and 44 others"), "the nearest are named"


ERAS: dict[str, tuple[str, dict[str, Any]]] = {
    "prime-rl-split": ("trainer", {"ckpt": {"resume_step": 4}}),
    "prime-rl-merged": ("rl", {"trainer": {"ckpt": {"resume_step": 4}}}),
    "prime-rl": ("rl", {"resume": {"step": 4}}),
}


@pytest.mark.parametrize("name", ERAS)
def test_every_generation_has_its_own_key(points: ResumePoints, name: str) -> None:
    role, data = ERAS[name]
    framework = registry.get(name)
    there = ResumePoints(framework, points.control, points.folder, points.run_jobs)
    assert there.of(START, {role: ConfigFile(role, "/w/x.toml", data)}).requested_step == 4
    elsewhere = {**data, "ckpt": {**data.get("ckpt", {}), "output_dir": "/big"}}
    if framework.resume_elsewhere:
        assert there.of(START, {role: ConfigFile(role, "/w/x.toml", elsewhere)}).requested_step is None


def test_a_step_in_the_config_that_something_else_goes_before_is_told(points: ResumePoints) -> None:
    """It is never overruled without a word."""
    asked = points.of(START.model_copy(update={"resume_step": 440}), config(420))
    assert asked.passed_over == "ckpt.resume_step = 420 is passed over: another start was asked for"
    scratch = points.of(START.model_copy(update={"resume": "scratch"}), config(420))
    assert scratch.passed_over == asked.passed_over
    started(points, "[ckpt]\nresume_step = 420")
    again = points.of(START, config(420))
    assert again.step == 500
    assert again.passed_over.endswith("the run was started with it before; --from 420 goes back to it")
    assert points.of(START.model_copy(update={"resume_step": 420}), config(420)).passed_over == ""
    started(points, "[ckpt]\nresume_step = 7")
    assert points.of(START, config(None)).passed_over == ""
