"""What a verdict of the framework's own models costs somebody who types, beside what they take themselves."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice
from pathlib import Path

import pytest
from tests.bench.table import Row
from tests.bench.usage import middle
from tests.prime_rl_configs.conftest import HOW_TO, VARIABLE
from tests.services.config.models.checkouts import FRAMEWORK, Box, make

from rltui.frameworks import registry
from rltui.services.config.models import FrameworkModels

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

RUNS = 41
BUDGET_S = 0.1
"""From a keystroke to the answer."""
SMALL = 'max_steps = 3\n[optim]\ntype = "adamw"\nlr = 0.1\n[orchestrator]\nbatch_size = 128\n'
THERE = f"""\
import statistics, sys, time, tomllib
from prime_rl.configs.rl import RLConfig
text, times = sys.stdin.read(), []
for _ in range({RUNS}):
    begun = time.perf_counter()
    try:
        RLConfig.model_validate(tomllib.loads(text))
    except ImportError:
        pass  # a taskset that is not installed
    times.append(time.perf_counter() - begun)
print(statistics.median(times))
"""
"""What they take where they are."""


@pytest.fixture
def checkout(tmp_path: Path, own_user: Path) -> Box:
    return make(tmp_path / "box")


def verdicts_s(own: FrameworkModels, checkout: Box, text: str) -> Iterator[float]:
    """Of one new content after the other."""
    for number in count():
        loaded = checkout.loaded(f"{text}# {number}\n")
        begun = time.perf_counter()
        own.problems(loaded)
        yield time.perf_counter() - begun


def measure(what: str, own: FrameworkModels, checkout: Box, text: str) -> list[Row]:
    done = subprocess.run(
        [*checkout.interpreter, "-c", THERE], input=text, capture_output=True, text=True, check=True
    )
    there_s = float(done.stdout.splitlines()[-1])
    with closing(own):
        times = verdicts_s(own, checkout, text)
        first_s = next(times)
        later_s = middle(list(islice(times, RUNS)))
        begun = time.perf_counter()
        asked = bool(own.schemas([]))
        schemas_s = time.perf_counter() - begun
        assert asked, own.reason
    with closing(FrameworkModels(own._framework, checkout.root)) as other:
        begun = time.perf_counter()
        other.schemas([], ask=False)
        kept_s = time.perf_counter() - begun
    return [
        Row(f"own verdict, {what}: first", first_s, "s"),
        Row(f"own verdict, {what}: next", later_s, "s", "the models there", there_s, BUDGET_S),
        Row(f"own schemas, {what}: asked", schemas_s, "s"),
        Row(f"own schemas, {what}: kept", kept_s, "s", "asked", schemas_s, BUDGET_S),
    ]


def test_a_verdict_of_small_models(checkout: Box, table: list[Row]) -> None:
    rows = measure("small", FrameworkModels(FRAMEWORK, checkout.root), checkout, SMALL)
    table.extend(rows)
    assert rows[1].figure < BUDGET_S


def test_a_verdict_of_prime_rl(checkout: Box, table: list[Row]) -> None:
    if not (python := os.environ.get(VARIABLE)):
        pytest.skip(HOW_TO)
    Path(checkout.interpreter[0]).write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    text = (Path(__file__).parents[1] / "data/prime_rl/era_c/rl.toml").read_text()
    rows = measure("prime-rl", FrameworkModels(registry.get("prime-rl"), checkout.root), checkout, text)
    table.extend(rows)
    assert rows[1].figure < BUDGET_S
