from __future__ import annotations

from pathlib import Path

from rltui.daemon.planner import _changed_layout
from rltui.daemon.setup import Setup
from rltui.services.runs.experiment_files import ExperimentRecord

LAYOUT = '[[component]]\nid = "a"\ncommand = ["sleep", "9"]\n'


def test_a_layout_that_was_edited_is_told_in_every_plan(tmp_path: Path) -> None:  # G7
    file = tmp_path / "parts.toml"
    file.write_text(LAYOUT)
    setup = Setup.of(ExperimentRecord("one", str(tmp_path), str(tmp_path), (), str(file), "generic", 1.0))
    file.write_text(f"# a comment changes nothing\n{LAYOUT}")
    assert _changed_layout(setup) == ()
    file.write_text(LAYOUT.replace("9", "10"))
    (problem,) = _changed_layout(setup)
    assert problem.severity == "warning"
    assert "the layout was changed since this experiment's supervisor started" in problem.message
    file.write_text("[[component]]\n")
    (problem,) = _changed_layout(setup)
    assert "cannot be read any more" in problem.message
