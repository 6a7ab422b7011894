"""Programs started for a test and ended with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, command_line, is_alive, read_process_id

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
        # Popen returns when exec has closed its pipe, just before arguments and environment can be read.
        retry_until(lambda: command_line(process.pid) or not is_alive(identity))
        return identity

    yield start_one
    for process in started:
        process.kill()
        process.wait()
