"""The report of a run, as text."""

from __future__ import annotations

from rltui.core.runs.compare import comparison
from rltui.core.runs.row import RunId, RunRow
from rltui.views.report import RunReport


def test_checkpoints_are_told_where_there_are_any() -> None:
    row = RunRow(id=RunId("a" * 10), created_at=1.0, name="a", folder="/runs/a", checkpoints=(10, 20))
    text = RunReport(run=row, comparison=comparison([row], {}), made_at=1.0).text()
    assert "## Checkpoints\n\nSteps 10 and 20, in /runs/a." in text
    bare = RunRow(id=RunId("b" * 10), created_at=1.0, name="b", folder="/runs/b")
    assert "## Checkpoints" not in RunReport(run=bare, comparison=comparison([bare], {}), made_at=1.0).text()
