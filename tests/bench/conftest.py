"""The table that all measurements go to, printed when the last one is done. Run: pytest -m bench -n 0 -s."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

import pytest
from tests.bench.table import Row, as_text


@pytest.fixture(scope="session")
def table() -> Iterator[list[Row]]:
    rows: list[Row] = []
    yield rows
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"
    print(
        f"\n\n{machine}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n{as_text(rows)}"
    )
