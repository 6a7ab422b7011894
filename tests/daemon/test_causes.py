from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rltui.core.lifecycle import ExitInfo
from rltui.daemon.causes import Causes
from rltui.daemon.component import ComponentRunner
from rltui.frameworks.failures import COMMON

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of"
FAILED = ExitInfo(code=1)


def runner(log: Path, *, asked: bool = False) -> ComponentRunner:
    spec = SimpleNamespace(id="trainer", kind="job")
    return cast("ComponentRunner", SimpleNamespace(spec=spec, log=log, is_asked_to_stop=asked))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path / "output.log", f"step 1\n{OOM} 79.19 GiB of which 0.31 GiB is free.\n")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


async def test_an_exit_for_want_of_memory_has_the_figures_and_its_component(log: Path) -> None:
    explained = await Causes(COMMON).explain(runner(log), FAILED)
    assert explained.hopeless
    assert explained.memory is not None
    assert (explained.memory.component, explained.memory.local_device) == ("trainer", 1)
    assert explained.memory.tried_bytes == 2 << 30


async def test_another_failure_has_no_figures(tmp_path: Path) -> None:
    log = written(tmp_path / "output.log", "KeyError: 'reward'\n")
    explained = await Causes(COMMON).explain(runner(log), FAILED)
    assert (explained.cause, explained.memory) == ("KeyError: 'reward'", None)


async def test_an_end_that_was_asked_for_is_not_looked_into(log: Path) -> None:
    assert await Causes(COMMON).explain(runner(log, asked=True), FAILED) == FAILED
    assert await Causes(COMMON).explain(runner(log), ExitInfo(code=0)) == ExitInfo(code=0), "a job went well"
