from __future__ import annotations

from pathlib import Path

import pytest

from rltui.base.text import GIB
from rltui.core.gpu.budget import EngineMeasurements, EngineMemory, ModelShape
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.config.document import ConfigDocument
from rltui.services.experiment.files import ControlFolder
from rltui.services.gpu.forecast import EngineHistory, read_engine_log

DATA = Path(__file__).parents[2] / "data"


def gib(size: float) -> int:
    return round(size * GIB)


@pytest.mark.parametrize(
    ("name", "measurements"),
    [
        (
            "gpu/vllm-0.10.2-startup.log",
            EngineMeasurements(
                budget_bytes=gib(71.28),
                utilization=0.9,
                weights_bytes=gib(37.9912),
                kv_cache_bytes=gib(26.61),
                kv_cache_tokens=1_152_512,
                graphs_bytes=gib(0.62),
                version=(0, 10),
            ),
        ),
        (
            "gpu/vllm-0.16.0-startup.log",
            EngineMeasurements(
                utilization=0.45,
                weights_bytes=gib(7.5552),
                kv_cache_bytes=gib(1.25),
                kv_cache_tokens=9_088,
                version=(0, 16),
            ),
        ),
        (
            "gpu/vllm-0.26.0-startup.log",
            EngineMeasurements(
                utilization=0.82,
                weights_bytes=gib(7.6821),
                kv_cache_bytes=gib(6.87),
                kv_cache_tokens=100_032,
                graphs_bytes=gib(0.41),
                version=(0, 26),
            ),
        ),
        (
            "gpu/vllm-0.32.0-startup.log",
            EngineMeasurements(
                budget_bytes=gib(13.99),
                utilization=0.9,
                weights_bytes=gib(0.93),
                kv_cache_bytes=gib(11.94),
                kv_cache_tokens=111_776,
                graphs_bytes=gib(0.4),
                version=(0, 32),
            ),
        ),
        ("gpu/tinyrl-startup.log", EngineMeasurements(kv_cache_bytes=gib(41.62), kv_cache_tokens=2_727_936)),
        ("vllm-0.32-cpu-startup.log", EngineMeasurements(version=(0, 32))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_figures_of_a_start(name: str, measurements: EngineMeasurements) -> None:
    assert read_engine_log(DATA / name, VLLM) == measurements


def test_a_cache_without_room_is_not_negative(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("(EngineCore pid=7) INFO 11-20 23:33:40 [w.py:1] Available KV cache memory: -2.50 GiB\n")
    assert read_engine_log(log, VLLM) == EngineMeasurements(kv_cache_bytes=0)


def test_a_development_build_has_no_version_of_use(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("Initializing a V1 LLM engine (v0.1.dev9+g1a2b3c) with config\n")
    assert read_engine_log(log, VLLM) is None
    log.write_text("Initializing a V1 LLM engine (v0.11.1.dev9+g1a2b3c) with config\n")
    assert read_engine_log(log, VLLM) == EngineMeasurements(version=(0, 11))


def test_nothing_to_read_is_nothing_known(tmp_path: Path) -> None:
    empty = tmp_path / "output.log"
    empty.write_bytes(b"\xff\x00 loading\n")
    assert read_engine_log(empty, VLLM) is None
    assert read_engine_log(tmp_path / "gone.log", VLLM) is None
    assert read_engine_log(tmp_path, VLLM) is None


def test_only_the_start_of_a_long_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    late = b"Available KV cache memory: 3.00 GiB\n"
    log.write_bytes(b"Available KV cache memory: 5.00 GiB\n" + b"x" * 1000 + late)
    assert read_engine_log(log, VLLM, limit_bytes=500) == EngineMeasurements(kv_cache_bytes=5 * GIB)


def test_figures_without_end_are_none(tmp_path: Path) -> None:
    nines = "9" * 65_000
    log = tmp_path / "output.log"
    log.write_text(
        f"Available KV cache memory: {nines} GiB\nGPU KV cache size: {nines} tokens\n"
        f"non-default args: {{{nines}\nInitializing a V1 LLM engine (v{nines}.1\n"
    )
    assert read_engine_log(log, VLLM) is None


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
    folder = control.attempt_dir("inference", number)
    folder.mkdir(parents=True)
    store = ConfigDocument([config], TINYRL)
    store.load()
    store.snapshot(folder)
    log = control.log_file("inference", number)
    log.write_text(output)
    return log


def known(control: ControlFolder, knowledge: EngineHistory | None = None) -> EngineMemory:
    knowledge = knowledge or EngineHistory(TINYRL, control, control.path)
    engine = EngineMemory("inference", 0.4, model="m", rules=VLLM.memory)
    return knowledge.with_measurements(engine)


def test_other_models_tell_nothing(control: ControlFolder) -> None:
    attempt(control, 1, model="m", utilization=0.7, output=CACHE)
    attempt(control, 2, model="other", utilization=0.5, output=CACHE.replace("6.50", "2.00"))
    measurements = known(control).measured
    assert (measurements.kv_cache_bytes, measurements.utilization) == (int(6.5 * GIB), 0.7)


def test_attempt_that_is_still_loading_is_read_again_as_it_grows(control: ControlFolder) -> None:
    log = attempt(control, 1, model="m", utilization=0.7, output="INFO 11-20 23:33:01 [x.py:1] loading\n")
    knowledge = EngineHistory(TINYRL, control, control.path)
    assert known(control, knowledge).measured == EngineMeasurements()
    with log.open("a") as file:
        file.write(CACHE)
    measurements = known(control, knowledge).measured
    assert measurements.kv_cache_bytes
    log.write_text("")  # what was found is not asked for again
    assert known(control, knowledge).measured == measurements


def test_engine_that_never_ran_is_known_by_its_config_alone(control: ControlFolder) -> None:
    engine = known(control)
    assert (engine.measured, engine.shape) == (EngineMeasurements(), ModelShape())
    assert engine.utilization == 0.4
