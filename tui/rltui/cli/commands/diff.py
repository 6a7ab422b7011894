"""`diff`: what the config files say, beside what runs; or two attempts, or two runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.arguments import ATTEMPT, JSON, RUN
from rltui.cli.choosing import Target, choose_run, ready_index, show_runs
from rltui.cli.colour import style, style_diff
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.commands.knobs import read_table
from rltui.cli.output import print_json
from rltui.cli.table import TableColumn, print_table
from rltui.client.statuses import read_status
from rltui.core import hints
from rltui.core.experiment.events import author_and_time, entry_data, first_line
from rltui.core.experiment.states import ALIVE_STATES
from rltui.errors import UsageError
from rltui.services.config.origins import origin
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.journal import read_entries
from rltui.services.experiment.registry import run_command
from rltui.views.knob import KnobRow, is_changed, toml_text

if TYPE_CHECKING:
    from rltui.core.config.report import ConfigDiff
    from rltui.core.runs.row import RunRow
    from rltui.services.runs.index import RunIndex


_ORIGINAL = "original"
"""Stands in place of an attempt for the files that the run's own config was made from."""


@command(
    "diff",
    RUN,
    argument(
        "other",
        "RUN",
        "another run, to compare with its last config",
        nargs="?",
        completes="runs",
    ),
    ATTEMPT,
    flag("--original", "compare with the original files of the run's own config"),
    flag("--text", "compare lines instead of keys"),
    JSON,
    examples=(
        "diff demo",
        "diff demo low-lr",
        "diff demo -c trainer#1",
    ),
    epilog="-c trainer compares its newest attempt with the files; -c trainer#1 -c trainer#2, two attempts.",
)
def diff(arguments: Arguments) -> int:
    if arguments.other is not None:
        from rltui.services.runs.references import find_run

        index = ready_index()
        after = find_run(index, arguments.other)
        _print_differences(_of_runs(index, choose_run(index, arguments), after), arguments)
        return 0
    return show_runs(arguments, partial(_show, arguments))


def _show(arguments: Arguments, target: Target) -> int:
    record, names = target.record, [*([_ORIGINAL] if arguments.original else []), *target.components]
    if not names and not arguments.json and not arguments.text:
        rows = _rows(record)
        if not any(row["is_running"] for row in rows):
            _living_components(record)
        changes = [(row, row["running"], row["value"]) for row in rows if _is_printed(row)]
        _print_keys("running", "files", changes)
        _print_edits(record, {row["key"] for row, _, _ in changes})
        if any(origin(Path(name)) is not None for name in record.config_files):
            _print_diff(_of_attempts(record, [_ORIGINAL]))
        return 0
    _print_differences(_of_attempts(record, names) if names else _of_what_runs(record), arguments)
    return 0


def _print_edits(record: ExperimentRecord, keys: Collection[str]) -> None:
    """Print the newest edit of each of these keys: whose it is, and when."""
    newest: dict[str, str] = {}
    for entry in read_entries(record.control.journal_file):
        edits = entry_data(entry).get("edits") if entry["kind"] == "edit" else None
        if isinstance(edits, dict) and (by := author_and_time(entry, time.time())):
            newest |= {key: f"edit by {by}: {first_line(entry['text'])}" for key in edits if key in keys}
    for text in dict.fromkeys(newest.values()):
        print(text)


def _print_differences(difference: ConfigDiff, arguments: Arguments) -> None:
    if arguments.json:
        print_json(difference)
    elif arguments.text:
        print("\n".join(style_diff(difference.text.splitlines())), end="\n" if difference.text else "")
    else:
        _print_diff(difference)


def _print_diff(difference: ConfigDiff) -> None:
    keys = [(key.to_plain(), key.before, key.after) for key in difference.keys]
    _print_keys(difference.before, difference.after, keys)


def _living_components(record: ExperimentRecord) -> list[str]:
    """Components that run; says so where there are none."""
    alive = [
        component["id"]
        for component in read_status(record)["components"]
        if component["state"] in ALIVE_STATES
    ]
    if not alive:
        command = run_command(hints.DIFF, record.name)
        print(f"nothing is running; compared with the last start: {command}", file=sys.stderr)
    return alive


def _rows(record: ExperimentRecord) -> list[KnobRow]:
    table = read_table(record)
    return [*table["knobs"], *table["others"]]


def _is_printed(row: KnobRow) -> bool:
    """Keys as their readers see them: one that a living component does not read is not told."""
    return is_changed(row) or bool(row.get("overridden"))


def _of_runs(index: RunIndex, before: RunRow, after: RunRow) -> ConfigDiff:
    """Compare the configs of two runs, key by key and in lines."""
    from rltui.client.report import config_texts
    from rltui.core.config.report import ConfigDiff, KeyDifference
    from rltui.core.runs.compare import comparison
    from rltui.services.config.change import text_diff

    run_comparison = comparison((before, after), index.configs((before.id, after.id)))
    keys = [
        KeyDifference(key=difference.key, file="", before=difference.values[0], after=difference.values[1])
        for difference in run_comparison.differing
    ]
    old, new = config_texts(before), config_texts(after)
    diffs = [text_diff(old.get(name, ""), new.get(name, ""), name) for name in dict.fromkeys((*old, *new))]
    return ConfigDiff(before=before.name, after=after.name, keys=tuple(keys), text="".join(diffs))


def _of_attempts(record: ExperimentRecord, names: list[str]) -> ConfigDiff:
    if len(names) > 2:
        raise UsageError("diff compares two attempts", hint=run_command(hints.DIFF_TWO, record.name))
    from rltui.client.reader import ExperimentReader
    from rltui.services.config.diff import attempt_files, config_diff
    from rltui.services.runs.observed import framework_of

    control, framework = record.control, framework_of(record)
    document = ExperimentReader(record).document()
    files = document.load()
    sides = [
        document.originals() if name == _ORIGINAL else attempt_files(name, control, framework)
        for name in names
    ]
    after, name = (sides[1], names[1]) if len(names) == 2 else (files, "files")
    return config_diff(sides[0], after, (names[0], name))


def _of_what_runs(record: ExperimentRecord) -> ConfigDiff:
    from rltui.client.reader import ExperimentReader
    from rltui.core.config.report import ConfigDiff, KeyDifference
    from rltui.services.config.diff import attempt_files, config_diff
    from rltui.services.runs.observed import framework_of

    keys = tuple(
        KeyDifference(
            key=row["key"],
            file=row["file"],
            before=row["running"],
            after=row["value"],
            readers=tuple(row["readers"]),
            overridden=bool(row.get("overridden")),
        )
        for row in _rows(record)
        if _is_printed(row)
    )
    control, framework = record.control, framework_of(record)
    files = ExperimentReader(record).document().load()
    diffs = {
        config_diff(attempt_files(name, control, framework), files, ("running", "files")).text
        for name in _living_components(record)
    }
    return ConfigDiff(before="running", after="files", keys=keys, text="".join(sorted(diffs)))


def _print_keys(before: str, after: str, changes: Sequence[tuple[dict[str, Any], object, object]]) -> None:
    if not changes:
        print(f"no key differs between {before} and {after}")
        return
    print(f"{before} → {after}")
    rows = []
    for row, old, new in changes:
        readers = f"({' '.join(row['readers'])})" if row["readers"] else ""
        note = "set by rltui, not by the file" if row.get("overridden") else ""
        change = f"{style(toml_text(old), 'removed')} → {style(toml_text(new), 'added')}"
        rows.append((row["key"], change, f"{readers}  {note}".strip()))
    columns = (TableColumn(least=24, cut="start"), TableColumn(least=20), TableColumn(least=10, goes=1))
    print_table(columns, rows, indent="  ")
