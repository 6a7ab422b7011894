"""A log file in which there is something to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.services.logs.search import FileScan

ERROR = "12:00:03   ERROR CUDA out of memory\n  in worker 3"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "output.log"
    lines = [f"12:00:{n % 60:02d}    INFO line {n}" for n in range(2000)]
    lines[500] = ERROR
    lines[1500] = ERROR.replace("worker 3", "worker 4")
    file.write_text("\n".join([*lines, ""]))
    return file


def search_file(path: Path, query: object, level: object, start: int) -> FileScan:
    return FileScan(path, query, level=level, start=start)  # type: ignore[arg-type]
