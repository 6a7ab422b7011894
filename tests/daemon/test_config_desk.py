from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rltui.core.layout import ComponentSpec, Layout
from rltui.core.metrics import MetricSeries
from rltui.daemon.component import ComponentRunner
from rltui.daemon.config_desk import ConfigDesk
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.setup import Setup
from rltui.daemon.telling import Teller
from rltui.errors import ConfigError
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config_files import load, write_snapshot
from rltui.services.launch import Launcher
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord

BROKEN = "[orchestrator\n"


class Box:
    """An experiment of tinyrl with one component, and its desk."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "rl.toml"
        self.write(20)
        record = ExperimentRecord(
            "one", str(folder / "out"), str(folder), (str(self.config),), "/l.toml", "tinyrl", 1.0
        )
        layout = Layout(component=[ComponentSpec(id="trainer", command=["x"])])
        setup = Setup(record, ControlFolder(folder / "out"), layout, TINYRL)
        self.control = setup.control
        self.control.path.mkdir(parents=True)
        self.teller = Teller(self.control.journal_file)
        self.runner = SimpleNamespace(life=SimpleNamespace(alive=False), attempt=None)
        self.progress = SimpleNamespace(
            max_steps=None, series=MetricSeries(TINYRL.metrics), poll=lambda: False
        )
        self.desk = ConfigDesk(
            setup,
            Launcher(record, layout, TINYRL),
            {"trainer": cast(ComponentRunner, self.runner)},
            self.teller,
            progress=lambda: cast(ProgressTracker, self.progress),
        )

    def write(self, max_steps: int) -> None:
        self.config.write_text(
            f'max_steps = {max_steps}\n[model]\nname = "m"\n[orchestrator]\n[trainer]\n[inference]\n'
        )

    def start(self) -> None:
        """The component runs from now on with the file as it is."""
        write_snapshot(load([self.config], TINYRL), self.control.attempt_dir("trainer", 1) / "config")
        self.runner.life.alive, self.runner.attempt = True, 1

    def alerts(self) -> list[str]:
        return [self.teller.outbox.get_nowait().title for _ in range(self.teller.outbox.qsize())]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_what_runs_is_what_a_living_component_was_started_with(box: Box) -> None:
    box.start()
    box.write(99)
    (files,) = box.desk.running().values()
    assert TINYRL.max_steps(files) == 20
    box.runner.life.alive = False
    assert box.desk.running() == {}


def test_publishing_takes_over_the_end_of_the_run(box: Box) -> None:
    box.desk.publish()
    assert box.progress.max_steps == 20
    box.write(30)
    box.desk.publish()
    assert box.progress.max_steps == 30


def test_a_broken_file_is_told_once_and_changes_nothing(box: Box) -> None:
    sound = box.config.read_text()
    box.config.write_text(BROKEN)
    box.desk.publish()
    box.desk.publish()
    assert len(box.alerts()) == 1
    assert box.progress.max_steps is None
    box.config.write_text(sound)
    box.desk.publish()
    assert box.alerts() == []
    assert box.progress.max_steps == 20


def test_with_a_broken_file_there_are_no_other_machines_and_the_usual_files(box: Box) -> None:
    box.config.write_text(BROKEN)
    assert box.desk.gpu_sources() == ((), None)
    assert len(box.alerts()) == 1
    assert box.desk.run_files() == TINYRL.files
    with pytest.raises(ConfigError):
        box.desk.knobs()
