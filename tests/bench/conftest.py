"""The table that all measurements go to, printed when the last one is done. Run: pytest -m bench -n 0 -s."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator

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


PROGRAMS = (
    "rltui.supervisor.__main__",
    "rltui.cli.status_text",
    "rltui.cli.commands.logs",
    "rltui.cli.app",
    "rltui.cli.commands.open",
    "rltui.ui.app",
)
LOADED_LATER = (
    "rltui.client.local_experiment",
    "rltui.cli.new_run",
    "rltui.client.reader",
    "textual.drivers.linux_driver",
    "rltui.ui.screens.metrics",
    "pynvml",
)


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables for processes that find all modules compiled, as an installer leaves them.

    One that compiles is slower and keeps 15 MB of heap.
    """
    found = {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    imports = f"import {', '.join(PROGRAMS + LOADED_LATER)}"
    subprocess.run([sys.executable, "-c", imports], env=env | found, check=True)
    return found


@pytest.fixture(autouse=True)
def as_installed(box: Box, bytecode: dict[str, str]) -> None:
    box.env.pop("PYTHONDONTWRITEBYTECODE", None)
    box.env.update(bytecode)
