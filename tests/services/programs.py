"""Programs started for a test and ended with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rltui.services.processes import ProcessId, read_process_id

Start = Callable[..., ProcessId]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs as children of the test, and ends them."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(*argv: str, **options: Any) -> ProcessId:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, **options)
        started.append(process)
        identity = read_process_id(process.pid)
        assert identity is not None
        return identity

    yield start_one
    for process in started:
        process.kill()
        process.wait()
