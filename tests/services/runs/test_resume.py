from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rltui.core.experiment.api import Request
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.experiment.files import ControlFolder
from rltui.services.runs.folder import RunFolder
from rltui.services.runs.resume import ResumePoints

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
    folder = RunFolder(tmp_path, framework.run.locations)
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
    assert points.of(START.replace(resume="scratch"), config(420)).step is None
    beginning = points.of(START, config(0))
    assert (beginning.step, beginning.requested_step, beginning.problem) == (None, 0, None)
    point = points.of(START.replace(resume_step=440), config(420))
    assert (point.step, point.requested_step, point.because) == (440, 440, ""), (
        "a request goes before the config"
    )


def test_a_new_step_in_the_config_wins_once(points: ResumePoints) -> None:
    """Finding A1. Won every time, a run would never get beyond it."""
    point = points.of(START, config(420))
    assert (point.step, point.requested_step, point.problem) == (420, 420, None)
    assert point.because == "ckpt.resume_step = 420 selects that checkpoint"
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
    assert problem.message.endswith("complete: 400, 420, 440, 460, 480, 500")
    asked = points.of(START.replace(resume_step=7), config(420)).problem
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
    if framework.run.resume_elsewhere:
        assert there.of(START, {role: ConfigFile(role, "/w/x.toml", elsewhere)}).requested_step is None


def test_a_step_in_the_config_that_something_else_goes_before_is_told(points: ResumePoints) -> None:
    """It is never overruled without a word."""
    asked = points.of(START.replace(resume_step=440), config(420))
    assert asked.passed_over == "ckpt.resume_step = 420 is ignored: a different start was requested"
    scratch = points.of(START.replace(resume="scratch"), config(420))
    assert scratch.passed_over == asked.passed_over
    started(points, "[ckpt]\nresume_step = 420")
    again = points.of(START, config(420))
    assert again.step == 500
    assert again.passed_over.endswith("an earlier start has already used that step; to go back: --from 420")
    assert points.of(START.replace(resume_step=420), config(420)).passed_over == ""
    started(points, "[ckpt]\nresume_step = 7")
    assert points.of(START, config(None)).passed_over == ""
