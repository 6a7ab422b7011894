from __future__ import annotations

from pathlib import Path

import pytest

from rltui.errors import RltuiError
from rltui.services.processes.identity import living_processes


def test_where_nothing_tells_what_runs_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.services.processes.identity.PROC", tmp_path)
    with pytest.raises(RltuiError, match="no /proc here"):
        living_processes()
