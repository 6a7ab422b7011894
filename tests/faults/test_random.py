"""Random sequences of operations and faults. The seed is printed; one sequence can be repeated alone:

    FAULT_SEED=7 FAULT_ONLY=123 pytest -n 0 -m faults tests/faults/test_random.py

`FAULT_SEQUENCES` says how many there are (500).
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.faults import events, invariants, steps
from tests.faults.harness import COMPONENTS, NO_RESTART, Experiment
from tests.faults.report import COUNTS

from rltui.errors import RltuiError

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.tmux,
    pytest.mark.faults,
    pytest.mark.timeout(1800),
]

SEED = int(os.environ.get("FAULT_SEED", "1"))
SEQUENCES = int(os.environ.get("FAULT_SEQUENCES", "500"))
ONLY = os.environ.get("FAULT_ONLY")
PER_TEST = 10
"""Sequences that share an experiment, unless one fails."""
ENOUGH_FAILURES = 3

NUMBERS = [int(ONLY)] if ONLY else list(range(SEQUENCES))
CHUNKS = [NUMBERS[first : first + PER_TEST] for first in range(0, len(NUMBERS), PER_TEST)]


@pytest.fixture
def disk(box: Box) -> Iterator[Path]:
    """Of 32 MB where we may mount one; else a folder, and the events that need a full disk do nothing."""
    folder = box.work / "disk"
    if not events.may_mount():
        folder.mkdir()
        yield folder
        return
    with events.small_disk(folder, "32m"):
        yield folder


def _restart_of(number: int) -> str:
    """Every other test has components that are started again when they fail."""
    retried = '{ policy = "on-failure", backoff_s = [0.1, 0.3], max_failures = 3, window_s = 20 }'
    return retried if number // PER_TEST % 2 else NO_RESTART


@pytest.mark.parametrize("numbers", CHUNKS, ids=[f"seed-{SEED}-from-{chunk[0]}" for chunk in CHUNKS])
def test_invariants_hold_for_random_sequences(
    box: Box, disk: Path, free_port: int, numbers: list[int], record_property: Callable[[str, object], None]
) -> None:
    counts: Counter[str] = Counter()
    failures: list[str] = []
    experiment: Experiment | None = None
    for number in numbers:
        if experiment is None:
            experiment = Experiment(
                box, free_port, disk / f"out{number}", name=f"faults-{number}", restart=_restart_of(number)
            )
            experiment.up()
        drawn = steps.draw(random.Random(f"{SEED} {number}"))
        began = time.monotonic()
        try:
            _run(experiment, drawn, counts)
            counts["total|sequences in which every invariant held"] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure of this sequence
            counts["total|sequences that failed"] += 1
            failures.append(f"seed {SEED} sequence {number}:\n{drawn}\n{type(error).__name__}: {error}")
            _close(experiment)
            experiment = None
        took_s = time.monotonic() - began
        counts["total|seconds"] += round(took_s)
        if len(failures) == ENOUGH_FAILURES:
            break
    if experiment is not None:
        experiment.ask("shutdown")
        invariants.assert_nothing_left(experiment)
        experiment.close()
    record_property(COUNTS, dict(counts))
    assert not failures, "\n\n".join(failures)


def _run(experiment: Experiment, drawn: steps.Sequence, counts: Counter[str]) -> None:
    before = experiment.truth.mains()
    steps.begin(experiment, drawn)
    invariants.assert_all(experiment, before, may_end=COMPONENTS)
    for position, step in enumerate(drawn.steps, 1):
        before = experiment.truth.mains()
        met = steps.running(experiment, step.component)
        try:
            may_end = steps.take(experiment, step)
            invariants.assert_all(experiment, before, may_end=may_end)
        except Exception as error:
            raise AssertionError(f"step {position}, {step}: {type(error).__name__}: {error}") from error
        counts["total|steps"] += 1
        counts[f"{step.event}|{met}"] += 1


def _close(experiment: Experiment) -> None:
    with suppress(AssertionError, RltuiError, OSError):  # it failed already, and the box counts what is left
        experiment.ask("shutdown")
    experiment.close()
