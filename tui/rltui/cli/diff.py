"""`diff`: the config files beside what runs, or what two attempts were started with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.knobs import Row, changed, read_table, value_text
from rltui.cli.status import read_status
from rltui.client import launch
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord

if TYPE_CHECKING:
    from rltui.core.config_report import ConfigDiff

ENDED = ("stopped", "waiting", "exited", "backoff", "failed")
"""States without a process."""


def diff(arguments: argparse.Namespace) -> int:
    """Print keys with both values, or the lines."""
    record = launch.choose(arguments.name)
    if not arguments.attempt and not arguments.json and not arguments.text:
        rows = _rows(record)
        if not any(row["is_running"] for row in rows):
            _alive(record)
        changes = [(row, row["running"], row["value"]) for row in rows if _is_told(row)]
        _print_keys("running", "files", changes)
        return 0
    found = _of_attempts(record, arguments.attempt) if arguments.attempt else _of_what_runs(record)
    if arguments.json:
        print(found.model_dump_json())
    elif arguments.text:
        sys.stdout.write(found.text)
    else:
        keys = [(each.model_dump(), each.before, each.after) for each in found.keys]
        _print_keys(found.before, found.after, keys)
    return 0


def _alive(record: ExperimentRecord) -> list[str]:
    """Components that run; says so where there are none."""
    alive = [each["id"] for each in read_status(record)["components"] if each["state"] not in ENDED]
    if not alive:
        print("nothing runs; beside what was started last: rltui diff COMPONENT", file=sys.stderr)
    return alive


def _rows(record: ExperimentRecord) -> list[Row]:
    table = read_table(record)
    return [*table["knobs"], *table["others"]]


def _is_told(row: Row) -> bool:
    """Keys as their readers see them: one that a living component does not read is not told."""
    return changed(row) or bool(row.get("overridden"))


def _of_attempts(record: ExperimentRecord, names: list[str]) -> ConfigDiff:
    if len(names) > 2:
        raise UsageError("diff compares two attempts", hint="rltui diff trainer#1 trainer#2")
    from rltui.client import offline
    from rltui.services.attempt_configs import config_diff, of_attempt
    from rltui.services.runs.observed import framework_of

    control, framework = ControlFolder(Path(record.output_dir)), framework_of(record)
    before = of_attempt(names[0], control, framework)
    if len(names) == 2:
        return config_diff(before, of_attempt(names[1], control, framework), (names[0], names[1]))
    return config_diff(before, offline.open_store(record).load_sources(), (names[0], "files"))


def _of_what_runs(record: ExperimentRecord) -> ConfigDiff:
    from rltui.client import offline
    from rltui.core.config_report import ConfigDiff, KeyDifference
    from rltui.services.attempt_configs import config_diff, of_attempt
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
        if _is_told(row)
    )
    control, framework = ControlFolder(Path(record.output_dir)), framework_of(record)
    files = offline.open_store(record).load_sources()
    texts = {
        config_diff(of_attempt(name, control, framework), files, ("running", "files")).text
        for name in _alive(record)
    }
    return ConfigDiff(before="running", after="files", keys=keys, text="".join(sorted(texts)))


def _print_keys(before: str, after: str, found: Sequence[tuple[dict[str, Any], object, object]]) -> None:
    """`found`: key and readers, the value before and after."""
    if not found:
        print(f"no key differs between {before} and {after}")
        return
    print(f"{before} → {after}")
    width = max(len(each["key"]) for each, _, _ in found)
    for each, old, new in found:
        readers = f"  ({' '.join(each['readers'])})" if each["readers"] else ""
        note = "  passed by rltui in place of the file's" if each.get("overridden") else ""
        print(f"  {each['key']:<{width}}  {value_text(old)} → {value_text(new)}{readers}{note}")
