"""What an engine measured before is found again, for the same model only."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui.core.gpu.budget import EngineMemory, MemoryUser
from rltui.core.text import GIB
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config.store import ConfigStore
from rltui.services.gpu.memory_plan import EngineKnowledge
from rltui.services.runs.experiment_files import ControlFolder

CONFIG = '[model]\nname = "MODEL"\n[[orchestrator.env]]\nid = "reverse-text"\n[inference]\n'
CACHE = "INFO 11-20 23:33:01 [gpu_worker.py:298] Available KV cache memory: 6.50 GiB\n"


@pytest.fixture
def control(tmp_path: Path) -> ControlFolder:
    return ControlFolder(tmp_path / "out")


def attempt(control: ControlFolder, number: int, *, model: str, utilization: float, output: str) -> Path:
    """An earlier start; returns its log."""
    config = control.path.parent / "rl.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG.replace("MODEL", model) + f"gpu_memory_utilization = {utilization}\n")
    assert tomllib.loads(config.read_text())
    folder = control.attempt_dir("inference", number)
    folder.mkdir(parents=True)
    store = ConfigStore([config], TINYRL)
    store.load()
    store.snapshot(folder / "config")
    log = control.log_file("inference", number)
    log.write_text(output)
    return log


def known(control: ControlFolder, knowledge: EngineKnowledge | None = None) -> MemoryUser:
    knowledge = knowledge or EngineKnowledge(TINYRL, control, control.path)
    engine = EngineMemory("inference", 0.4, model="m")
    return knowledge.added(MemoryUser("inference", ("/GPU-1",)), engine)


def test_figures_come_with_the_utilization_of_their_attempt(control: ControlFolder) -> None:
    attempt(control, 1, model="m", utilization=0.7, output=CACHE)
    figures = known(control).figures
    assert figures is not None
    assert figures.kv_cache_bytes == int(6.5 * GIB)
    assert figures.utilization == 0.7


def test_other_models_tell_nothing(control: ControlFolder) -> None:
    attempt(control, 1, model="m", utilization=0.7, output=CACHE)
    attempt(control, 2, model="other", utilization=0.5, output=CACHE.replace("6.50", "2.00"))
    figures = known(control).figures
    assert figures is not None
    assert figures.utilization == 0.7


def test_attempt_that_is_still_loading_is_read_again_as_it_grows(control: ControlFolder) -> None:
    log = attempt(control, 1, model="m", utilization=0.7, output="INFO 11-20 23:33:01 [x.py:1] loading\n")
    knowledge = EngineKnowledge(TINYRL, control, control.path)
    assert known(control, knowledge).figures is None
    with log.open("a") as file:
        file.write(CACHE)
    figures = known(control, knowledge).figures
    assert figures is not None
    log.write_text("")  # what was found is not asked for again
    assert known(control, knowledge).figures == figures


def test_engine_that_never_ran_is_known_by_its_config_alone(control: ControlFolder) -> None:
    user = known(control)
    assert user.engine is not None
    assert (user.figures, user.shape, user.engine.utilization) == (None, None, 0.4)
