"""A fresh experiment for each test, ended by its own means and then looked at once more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.conftest import Box
from tests.faults.harness import Experiment

from rltui.errors import RltuiError


@pytest.fixture
def experiment(box: Box, free_port: int) -> Iterator[Experiment]:
    """Not started yet, so that its programs can be told how to behave."""
    made = Experiment(box, free_port, box.work / "out")
    try:
        yield made
    finally:
        if made.supervisor_pid() is not None:
            with suppress(RltuiError, OSError):  # what is left is counted by the box
                made.ask("shutdown")
        made.close()
