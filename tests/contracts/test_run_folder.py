"""What a run leaves on disk, which people read with scripts of their own: names of files and of fields."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.conftest import Box

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

HASHES_AND_NUMBERS = re.compile(r"[0-9a-f]{16,}|\d+")


def shape_of(path: Path) -> Any:
    """The names of its fields; of a journal those of each kind of entry. `None` of what is no JSON."""
    if path.suffix == ".json":
        found = json.loads(path.read_text())
        return sorted(found) if isinstance(found, dict) else type(found).__name__
    if path.suffix == ".jsonl":
        kinds: dict[str, set[str]] = {}
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            kinds.setdefault(entry.get("kind", ""), set()).update(entry)
        return {kind: sorted(names) for kind, names in sorted(kinds.items())}
    return None


def shapes_of(folder: Path) -> dict[str, Any]:
    """Of all files below a folder, with `N` for the numbers and hashes in their names. Of several whose names
    are the same then, the one with the most fields. Curves are left out: a short run may have none.
    """
    shapes: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".lock" and path.parent.name != "metrics":
            name, shape = HASHES_AND_NUMBERS.sub("N", str(path.relative_to(folder))), shape_of(path)
            shapes[name] = max(shapes.get(name) or "", shape or "", key=len) or None
    return shapes


def test_files_and_fields(counters: Box, snapshot: SnapshotAssertion) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    for words in (
        ("set", "max_steps=30", "--restart", "--yes", "--wait"),
        ("undo", "--restart", "--yes", "--wait"),
        ("events", "add", "kept"),
        ("down", "one"),
        ("runs", "tag", "+good", "one"),
    ):
        assert counters.run(*words).returncode == 0, words
    assert shapes_of(counters.work / "out") == snapshot


def test_a_folder_of_another_machine_is_taken_into_the_list(counters: Box) -> None:
    """With nothing but what lies in it."""
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    assert counters.run("down", "one").returncode == 0
    (counters.work / "out").rename(counters.work / "copied")
    for name in ("state", "run"):
        for path in (counters.root / name).rglob("*"):
            if path.is_file():
                path.unlink()
    assert counters.run("runs", "add", "copied").returncode == 0
    (row,) = counters.json("runs")["runs"]
    assert (row["name"], Path(row["folder"]).name) == ("one", "copied")
