"""`diff`: the config files beside what runs, or what two attempts were started with."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rltui.cli.knobs import read_table, value_text
from rltui.cli.output import print_json
from rltui.cli.status import read_status
from rltui.client import launch, offline
from rltui.core.api import ALIVE_STATES
from rltui.core.config_report import ConfigDiff, KeyDifference
from rltui.errors import UsageError
from rltui.services.attempt_configs import config_diff, of_attempt
from rltui.services.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.observed import framework_of


def diff(arguments: argparse.Namespace) -> int:
    """Print keys with both values, or the lines."""
    record = launch.choose(arguments.name)
    found = _of_attempts(record, arguments.attempt) if arguments.attempt else _of_what_runs(record)
    if arguments.json:
        print_json(found)
    elif arguments.text:
        sys.stdout.write(found.text)
    else:
        _print_keys(found)
    return 0


def _of_attempts(record: ExperimentRecord, names: list[str]) -> ConfigDiff:
    if len(names) > 2:
        raise UsageError("diff compares two attempts", hint="rltui diff trainer#1 trainer#2")
    control, framework = ControlFolder(Path(record.output_dir)), framework_of(record)
    before = of_attempt(names[0], control, framework)
    if len(names) == 2:
        return config_diff(before, of_attempt(names[1], control, framework), (names[0], names[1]))
    return config_diff(before, offline.open_store(record).load_sources(), (names[0], "files"))


def _of_what_runs(record: ExperimentRecord) -> ConfigDiff:
    """Keys as their readers see them: one that a living component does not read is not told."""
    table = read_table(record)
    keys = tuple(
        KeyDifference(key=row.key, file=row.file, before=row.running, after=row.value, readers=row.readers)
        for row in (*table.knobs, *table.others)
        if row.changed
    )
    control, framework = ControlFolder(Path(record.output_dir)), framework_of(record)
    files = offline.open_store(record).load_sources()
    alive = [each["id"] for each in read_status(record)["components"] if each["state"] in ALIVE_STATES]
    if not alive:
        print("nothing runs; beside what was started last: rltui diff COMPONENT", file=sys.stderr)
    texts = {
        config_diff(of_attempt(name, control, framework), files, ("running", "files")).text for name in alive
    }
    return ConfigDiff(before="running", after="files", keys=keys, text="".join(sorted(texts)))


def _print_keys(found: ConfigDiff) -> None:
    if not found.keys:
        print(f"no key differs between {found.before} and {found.after}")
        return
    print(f"{found.before} → {found.after}")
    width = max(len(each.key) for each in found.keys)
    for each in found.keys:
        readers = f"  ({' '.join(each.readers)})" if each.readers else ""
        print(f"  {each.key:<{width}}  {value_text(each.before)} → {value_text(each.after)}{readers}")
