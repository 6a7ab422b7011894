"""The table that all measurements go to, printed when the last one is done. Run: pytest -m bench -n 0 -s."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bench.table import Row, as_text
from tests.conftest import Box


@pytest.fixture(scope="session")
def table() -> Iterator[list[Row]]:
    rows: list[Row] = []
    yield rows
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"
    print(
        f"\n\n{machine}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n{as_text(rows)}"
    )


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytecode")


@pytest.fixture(autouse=True)
def as_installed(box: Box, bytecode: Path) -> None:
    """Modules are compiled once, as an installer does, also where the tests run without bytecode files."""
    box.env.pop("PYTHONDONTWRITEBYTECODE", None)
    box.env["PYTHONPYCACHEPREFIX"] = str(bytecode)
