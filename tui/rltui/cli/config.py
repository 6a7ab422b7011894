"""`knobs`, `set`, `check`, `layouts`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rltui.cli.choosing import chosen_framework
from rltui.cli.output import confirm, plan_text, print_json
from rltui.client import creation, launch, offline
from rltui.client.wire import Wire
from rltui.core.api import KnobInfo, KnobTable, Plan, Request
from rltui.core.knob_values import split_assignment
from rltui.errors import ConfigError
from rltui.services import layout_files
from rltui.services.config_files import named
from rltui.services.experiment_files import ExperimentRecord


def show_knobs(arguments: argparse.Namespace) -> int:
    """Print every knob."""
    record = launch.choose(arguments.name)
    wire = launch.connect(record)
    if wire is None:
        table = offline.open_store(record).knob_table({})
    else:
        with wire:
            table = KnobTable.model_validate(wire.call("knobs"))
    if arguments.json:
        print_json(table)
        return 0
    width = max((len(knob.key) for knob in table.knobs), default=0)
    for knob in table.knobs:
        print(_knob_line(knob, width))
    for problem in table.problems:
        print(f"{problem.severity}: {problem.text}", file=sys.stderr)
    return 0


def _knob_line(knob: KnobInfo, width: int) -> str:
    value = "—" if knob.value is None else str(knob.value)
    if knob.changed:
        value = f"{knob.running} → {value}"
    low, high = knob.bounds
    notes = [] if knob.is_set else ["default"]
    if low is not None or high is not None:
        notes.append(f"{'' if low is None else f'{low:g}'} … {'' if high is None else f'{high:g}'}".strip())
    notes.append(" ".join(knob.readers))
    return f"{knob.key:<{width}}  {value:<24} {' · '.join(note for note in notes if note)}"


def set_knobs(arguments: argparse.Namespace) -> int:
    """Edit the config files."""
    record = launch.choose(arguments.name)
    edits = dict(split_assignment(text) for text in arguments.edit)
    request = Request(action="set", edits=edits, restart=arguments.restart)
    starts = arguments.restart and not arguments.dry_run
    wire = launch.reach(record) if starts else launch.connect(record)
    if wire is None:
        return _set_offline(record, request, arguments)
    with wire:
        return _set_live(wire, request, arguments)


def _set_live(wire: Wire, request: Request, arguments: argparse.Namespace) -> int:
    plan = Plan.model_validate(wire.call("plan", request.model_dump()))
    _refuse_blocked(plan)
    if arguments.dry_run:
        _print_plan(plan, arguments)
        return 0
    if request.restart and (plan.stop or plan.start) and sys.stdin.isatty():
        sys.stderr.write(plan_text(plan))
        if not confirm("go on?"):
            print("nothing was done", file=sys.stderr)
            return 1
    plan = Plan.model_validate(wire.call("execute", request.model_dump()))
    _print_plan(plan, arguments)
    if (plan.stop or plan.start) and not request.restart:
        print(f"written; to take effect: rltui restart {' '.join(plan.start)}", file=sys.stderr)
    return 0


def _set_offline(record: ExperimentRecord, request: Request, arguments: argparse.Namespace) -> int:
    store = offline.open_store(record)
    preview = store.preview(request.edits)
    plan = Plan(action="set", diff=preview.diff, problems=preview.problems)
    _refuse_blocked(plan)
    if not arguments.dry_run:
        store.apply(preview)
    _print_plan(plan, arguments)
    return 0


def _print_plan(plan: Plan, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(plan)
    else:
        sys.stdout.write(plan_text(plan) or "nothing changes\n")


def _refuse_blocked(plan: Plan) -> None:
    errors = [problem for problem in plan.problems if problem.severity == "error"]
    if errors:
        raise ConfigError(
            errors[0].message, details=[problem.message for problem in errors[1:]], hint="nothing was written"
        )


def check(arguments: argparse.Namespace) -> int:
    """Validate config files."""
    files = named([Path(name) for name in arguments.config])
    framework = chosen_framework(files, arguments.layout, arguments.framework)
    found = creation.check(files, arguments.layout, framework, with_memory=True)
    if arguments.json:
        print_json(found)
    else:
        for problem in found.problems:
            print(f"{problem.severity}: {problem.text}")
        for item in found.derived:
            print(
                f"{item.name}: {item.value} {item.unit}".rstrip() + (f"  ({item.text})" if item.text else "")
            )
        for verdict in found.memory:
            print(f"{'warning' if verdict.is_bad else 'memory'}: {verdict.text}")
            for note in verdict.notes:
                print(f"    {note}")
        print(f"{'valid' if found.valid else 'not valid'} · {found.framework} · layout {found.layout}")
    return 0 if found.valid else int(ConfigError.exit_code)


def list_layouts(arguments: argparse.Namespace) -> int:
    """Print the layouts that `-l` knows here."""
    found = layout_files.available(Path.cwd())
    rows = [(path.stem, layout_files.load(path), path) for path in found]
    if arguments.json:
        documents = [
            {
                "name": name,
                "title": layout.title,
                "path": str(path),
                "components": [spec.id for spec in layout.component],
            }
            for name, layout, path in rows
        ]
        print(json.dumps(documents))
        return 0
    for name, layout, path in rows:
        print(f"{name:<20} {layout.title}\n{'':<20} {path}")
    return 0
