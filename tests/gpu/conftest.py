"""What the checks on a real GPU need, each with a reason to skip where it is missing."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.gpu.device import Cuda, probe_cuda
from tests.gpu.holder import Hold, holders
from tests.gpu.tiny_model import EXAMPLE, make_model

from rltui.services.gpu.nvml import NvmlReader

ENGINE_NEEDS = ("safetensors", "tokenizers", "jinja2", "starlette", "uvicorn", "httpx", "tqdm")


@pytest.fixture(scope="session", autouse=True)
def driver() -> None:
    """An NVIDIA driver that shows a device."""
    reader = NvmlReader()
    report = reader.read()
    reader.close()
    if not report.available:
        pytest.skip(f"no GPU to be read here: {report.reason}")


@pytest.fixture(scope="session")
def cuda(driver: None) -> Cuda:
    """The first device that torch computes on."""
    found = probe_cuda()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def hold(cuda: Cuda, tmp_path: Path) -> Iterator[Hold]:
    """Starts processes that hold device memory, and ends them by their pids."""
    with holders(tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def model(cuda: Cuda, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the embedded engine, warmed up for some steps."""
    if missing := [name for name in ENGINE_NEEDS if importlib.util.find_spec(name) is None]:
        pytest.skip(f"the embedded engine needs {', '.join(missing)}, not installed here")
    return make_model(tmp_path_factory.mktemp("models"))


@pytest.fixture
def gpu_box(cuda: Cuda, request: pytest.FixtureRequest) -> Box:
    """A box for experiments, where there is a tmux to run them in."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux on PATH: experiments cannot run")
    box = request.getfixturevalue("box")
    assert isinstance(box, Box)
    return box


@pytest.fixture
def engine_box(gpu_box: Box, model: Path, free_port: int) -> Callable[[float], Box]:
    """Writes the example's `rl.toml` into the box, with this `gpu_memory_utilization`."""

    def write(utilization: float) -> Box:
        text = (EXAMPLE / "rl.toml").read_text()
        for old, new in (
            ("max_steps = 200", "max_steps = 5000"),
            ("port = 8000", f"port = {free_port}"),
            ('name = "outputs/reverse-text-sft"', f'name = "{model}"'),
            ("gpu_memory_utilization = 0.9", f"gpu_memory_utilization = {utilization}"),
        ):
            assert old in text, old
            text = text.replace(old, new)
        (gpu_box.work / "rl.toml").write_text(text)
        return gpu_box

    return write
