"""Events, marks and notes of an experiment, while it lives and afterwards."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.conftest import Box

from rltui.core.metrics.annotations import AnnotationKind, annotations_of
from rltui.services.experiment.journal import read_journal

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

AS_THE_SCREEN = """\
import asyncio, json, sys
from rltui.client import launch
from rltui.client.local_experiment import LocalExperiment
experiment = LocalExperiment(launch.choose("one"))
noted = asyncio.run(experiment.note(sys.argv[1]))
notes = [entry.text for entry in asyncio.run(experiment.journal()) if entry.kind == "note"]
print(json.dumps([noted.text, notes]))
"""


def as_the_screen(box: Box, text: str) -> tuple[str, list[str]]:
    """Note something as the TUI does: what was noted, and all notes that it reads then."""
    argv = [sys.executable, "-c", AS_THE_SCREEN, text]
    result = subprocess.run(argv, env=box.env, cwd=box.work, capture_output=True, text=True, check=True)
    note, notes = json.loads(result.stdout)
    return note, notes


@pytest.mark.slow
def test_a_restart_is_a_mark_and_so_is_a_note(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    assert counters.run("events", "add", "before", "the restart").stdout.startswith("noted")
    counters.json("restart", "-c", "trainer", "--yes", "--wait")
    assert as_the_screen(counters, "seen on the screen") == (
        "seen on the screen",
        ["before the restart", "seen on the screen"],
    )
    found_marks = annotations_of(read_journal(counters.work / "out/.rltui/journal.jsonl"))
    kinds = [mark.kind for mark in found_marks if mark.kind in (AnnotationKind.NOTE, AnnotationKind.RESTART)]
    assert kinds == [AnnotationKind.NOTE, AnnotationKind.RESTART, AnnotationKind.NOTE]
    restart = next(mark for mark in found_marks if mark.kind is AnnotationKind.RESTART)
    assert "trainer" in restart.text
    assert [entry["kind"] for entry in counters.json("events", "--kind", "restart")["events"]] == ["restart"]
    counters.run("down")
    assert as_the_screen(counters, "after the end")[1][-1] == "after the end"
    assert counters.json("status", "--all")["runs"][0]["state"] == "stopped", "a note starts nothing"
