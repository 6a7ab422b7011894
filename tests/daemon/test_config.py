from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from rltui.core.config_report import Problem
from rltui.core.layout import ComponentSpec, Layout
from rltui.daemon.config import Config, Setup
from rltui.daemon.events import EventBus
from rltui.daemon.observation import Observation
from rltui.errors import ConfigError, RltuiError
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config.files import load_files, write_snapshot
from rltui.services.runs.experiment_files import ExperimentRecord

BROKEN = "[orchestrator\n"


class Box:
    """An experiment of tinyrl with one component, and its config."""

    def __init__(self, folder: Path, name: str = "one") -> None:
        self.file = folder / "rl.toml"
        self.write(20)
        record = ExperimentRecord(
            name, str(folder / "out"), str(folder), (str(self.file),), "/l.toml", "tinyrl", 1.0
        )
        script = 'echo "$LOGIN"; echo "$LOGIN first" >&2; test "$LOGIN" = in'
        checked = {
            "id": "upload",
            "command": ["x"],
            "check": ["sh", "-c", script],
            "env": {"LOGIN": "{name}"},
        }
        trainer = ComponentSpec(id="trainer", command=["x"])
        layout = Layout(component=[trainer, ComponentSpec.model_validate(checked)])
        self.setup = Setup(record, layout, TINYRL)
        self.control = record.control
        self.control.path.mkdir(parents=True)
        self.events = EventBus(self.control.journal_file)
        self.config = Config(self.setup, self.events, derive=lambda files: (), choose=lambda choice: ())

    def write(self, max_steps: int) -> None:
        self.file.write_text(
            f'max_steps = {max_steps}\n[model]\nname = "m"\n[orchestrator]\n[trainer]\n[inference]\n'
        )

    def alerts(self) -> list[str]:
        return [self.events.outbox.get_nowait().title for _ in range(self.events.outbox.qsize())]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_what_runs_is_what_a_living_component_was_started_with(box: Box) -> None:
    write_snapshot(load_files([box.file], TINYRL), box.control.attempt_dir("trainer", 1) / "config")
    box.write(99)
    (files,) = box.config.running({"trainer": 1}).values()
    assert TINYRL.max_steps(files) == 20
    assert box.config.running({}) == {}


def test_with_a_broken_file_there_are_no_other_machines_and_the_usual_files(box: Box) -> None:
    box.file.write_text(BROKEN)
    assert box.config.gpu_sources() == ((), None)
    assert len(box.alerts()) == 1
    usual = Observation(box.setup, box.events).folder
    assert usual.metrics == tuple(Path(box.setup.record.run_dir) / name for name in TINYRL.files.metrics)
    with pytest.raises(ConfigError):
        box.config.knobs({})


@pytest.mark.parametrize("name", ["in", "out"])
async def test_nothing_starts_whose_check_fails(tmp_path: Path, name: str) -> None:
    box = Box(tmp_path, name)
    preparing = box.config.prepare(
        "upload", box.control.attempt_dir("upload", 1), resume_step=None, run_id=""
    )
    if name == "in":
        assert (await preparing).argv == ("x",)
        return
    with pytest.raises(RltuiError, match="exited 1: out first"):
        await preparing


async def test_who_waits_for_the_framework_takes_one_thread(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, together = threading.Barrier(2), list[bool]()

    def problems(loaded: object, ours: object) -> tuple[Problem, ...]:
        try:
            both.wait(0.2)
        except threading.BrokenBarrierError:
            together.append(False)
        else:
            together.append(True)
        return ()

    monkeypatch.setattr(box.config._models, "problems", problems)
    await asyncio.gather(box.config.framework_problems(None, ()), box.config.framework_problems(None, ()))
    assert together == [False, False]
