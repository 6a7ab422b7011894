"""A fresh experiment for each test, ended by its own means and then looked at once more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Box
from tests.faults.harness import Experiment, ended_afterwards


@pytest.fixture
def experiment(box: Box, free_port: int) -> Iterator[Experiment]:
    """Not started yet, so that its programs can be told how to behave."""
    with ended_afterwards(Experiment(box, free_port, box.work / "out")) as made:
        yield made
