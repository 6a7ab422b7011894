from __future__ import annotations

from pathlib import Path

import pytest

from rltui.errors import RltuiError
from rltui.services.processes import identity
from rltui.services.processes.identity import ProcessStat, living_processes, read_stat


def test_where_nothing_tells_what_runs_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.services.processes.identity.PROC", tmp_path)
    with pytest.raises(RltuiError, match="/proc is not mounted"):
        living_processes()


def test_a_process_that_forks_and_ends_all_the_time_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one ends between the listing and its reading, on a slow machine; the fifth is quick enough."""

    def slowly(pid: int) -> ProcessStat | None:
        if pid < 105:
            (tmp_path / str(pid)).rename(tmp_path / str(pid + 1))
        return read_stat(pid)

    for name in ("self", "100"):
        (tmp_path / name).mkdir()
    (tmp_path / "100/stat").write_bytes(Path("/proc/self/stat").read_bytes())
    monkeypatch.setattr(identity, "PROC", tmp_path)
    monkeypatch.setattr(identity, "read_stat", slowly)
    assert [stat.id.pid for stat in living_processes()] == [105]
