"""`rltui events` and `rltui events add` on an experiment of which nothing is alive."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from rltui import paths
from rltui.base.shorten import without_empty
from rltui.services.actor import user_name
from rltui.services.experiment.files import ControlFolder, ExperimentRecord

NOW = time.mktime((2026, 11, 22, 15, 0, 0, 0, 0, -1))
DIFF = "--- rl.toml\n+++ rl.toml\n@@ -1 +1 @@\n-lr = 1e-5\n+lr = 1e-4\n"
JOURNAL: list[dict[str, Any]] = [
    {"at": NOW - 90_000, "kind": "supervisor", "text": "supervisor started"},
    {"at": NOW - 7200, "kind": "ready", "text": "trainer ready", "component": "trainer", "attempt": 1},
    {"at": NOW - 3600, "kind": "edit", "text": "lr 1e-5 → 1e-4", "step": 12, "data": {"diff": DIFF}},
    {
        "at": NOW - 1800,
        "kind": "exit",
        "text": "trainer failed: killed",
        "component": "trainer",
        "data": {"failed": True},
    },
    {"at": NOW - 60, "kind": "note", "text": "better now\nsaid the second line", "data": None},
]


@pytest.fixture
def journal(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the experiment `one`, as of 15:00."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    record = ExperimentRecord(
        name="one",
        output_dir=str(tmp_path / "out"),
        workspace=str(tmp_path),
        config_files=(),
        layout_file=str(paths.shipped_dir("layouts") / "tinyrl.toml"),
        framework="tinyrl",
        created_at=NOW,
        run_dir=str(tmp_path / "out"),
    )
    control = ControlFolder(tmp_path / "out")
    control.write_record(record)
    control.journal_file.write_text("".join(json.dumps(entry) + "\n" for entry in JOURNAL))
    return control.journal_file


def test_the_journal_with_its_diffs(journal: Path, cli: CommandLine) -> None:
    lines = cli("events").splitlines()
    assert lines[0] == "WHEN                   STEP  KIND        WHO     WHAT"
    assert lines[2] == "2026-11-22 13:00:00          ready               trainer ready"
    assert lines[3] == "2026-11-22 14:00:00      12  edit                lr 1e-5 → 1e-4"
    assert lines[4:9] == [f"{'':8}{line}" for line in DIFF.splitlines()]
    assert lines[9] == "2026-11-22 14:30:00          crash               trainer failed: killed"
    assert lines[10:] == [
        "2026-11-22 14:59:00          note                better now",
        f"{'':8}said the second line",
    ]
    assert len(cli("events", "--brief").splitlines()) == 1 + len(JOURNAL)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--kind", "edit,note"), [2, 4]),
        (("--kind", "edit", "--kind", "crash"), [2, 3]),
        (("--kind", "exit"), [3]),
        (("-c", "trainer"), [1, 3]),
        (("--component", "inference"), []),
        (("--since", "1h"), [2, 3, 4]),
        (("--since", "14:30"), [3, 4]),
        (("--since", "15:30"), [1, 2, 3, 4]),
        (("--since", "2h", "--kind", "ready"), [1]),
        (("--since", "1h", "--until", "14:45"), [2, 3]),
        (("--kind", "health"), []),
        (("--grep", "LR 1e-4"), [2]),
        (("--limit", "2"), [3, 4]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_asked_for(
    journal: Path, cli: CommandLine, arguments: tuple[str, ...], found: list[int]
) -> None:
    told = json.loads(cli("events", "--json", *arguments))["events"]
    words = {3: {"kind": "crash"}}  # the word of the table, and of --kind
    for entry in told:  # anybody may have written a note
        if entry["kind"] == "note":
            entry["text"] = entry.pop("untrusted")
    assert told == [without_empty({**JOURNAL[at], **words.get(at, {})}) for at in found]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kind", "edti"), "did you mean edit?"),
        (("-c", "trianer"), "did you mean trainer?"),
        (("--since", "yesterday"), "not a time or step: yesterday"),
        (("--since", ""), "not a time or step"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_what_there_is_not_is_told(
    journal: Path, cli: CommandLine, arguments: tuple[str, ...], words: str
) -> None:
    assert words in cli("events", *arguments, code=2)


def test_a_note_is_kept_while_nothing_runs(journal: Path, cli: CommandLine) -> None:
    assert cli("events", "add", "seed", "7", "from here on") == "noted: seed 7 from here on\n"
    me = user_name()
    line = cli("events", "--kind", "note", "--by", me).splitlines()[-1]
    assert line.endswith(f"  note        {me:<6}  seed 7 from here on")
    assert "seed 7" not in cli("events", "--by", "agent")
    assert "nothing to add" in cli("events", "add", " ", code=2)
    journal.unlink()
    journal.symlink_to("elsewhere")
    assert "the note was not saved: cannot write" in cli("events", "add", "lost", "--json", code=1)


def test_a_cursor_goes_on_after_the_last_event(journal: Path, cli: CommandLine) -> None:
    def answer(*arguments: str) -> Any:
        return json.loads(cli("events", "--json", *arguments))

    first = answer("--kind", "edit", "--fields", "kind")
    assert first["events"] == [{"kind": "edit"}]
    cli("events", "add", "noted once")
    with journal.open("a") as file:
        file.write("damaged\n")
    cli("events", "add", "noted twice")
    second = answer("--since", first["cursor"])
    assert [entry["untrusted"] for entry in second["events"]] == ["noted once", "noted twice"]
    assert answer("--since", second["cursor"]) == {"cursor": second["cursor"], "events": []}
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[3:]))  # rotated
    assert answer("--since", first["cursor"])["events"] == second["events"]
    journal.write_text(journal.read_text()[:-40])  # cut: the event at the cursor is gone
    words = cli("events", "--since", second["cursor"], code=2)
    assert "this run has no event at the cursor" in words
    by_time = words.rpartition("--since ")[2].split()[0]
    assert cli("events", "--since", by_time) == ""
    assert "a cursor of logs, not of events" in cli("events", "--since", "logs@trainer", code=2)
