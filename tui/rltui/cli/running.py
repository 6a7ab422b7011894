"""`up`, `down`, `ls`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rltui.cli.choosing import chosen_framework
from rltui.cli.output import confirm, plan_text
from rltui.cli.status import as_text, read_status
from rltui.cli.waiting import wait_until_settled
from rltui.client import creation, launch
from rltui.client.wire import SupervisorGoneError
from rltui.core.api import Plan, Request
from rltui.errors import RltuiError
from rltui.services.config_files import named
from rltui.services.experiment_files import ExperimentRecord, forget, known_experiments


def wish_of(arguments: argparse.Namespace) -> creation.Wish:
    """What the arguments of `up` and `open` ask for, once it is clear which framework the config is for."""
    earlier = "resume" if arguments.resume else "new" if arguments.new else "ask"
    files = named([Path(name) for name in arguments.config])
    workspace = Path(arguments.workspace) if arguments.workspace else None
    return creation.Wish(
        config_files=files,
        layout=arguments.layout,
        framework=chosen_framework(files, arguments.layout, arguments.framework, workspace=workspace),
        name=arguments.name,
        output_dir=Path(arguments.output_dir) if arguments.output_dir else None,
        workspace=workspace,
        earlier_run=earlier,  # type: ignore[arg-type]  # one of three literals
    )


def up(arguments: argparse.Namespace) -> int:
    """Create and start an experiment without a terminal."""
    components = tuple(arguments.only.split(",")) if arguments.only else ()
    return start_headless(
        create(wish_of(arguments)),
        components,
        wait=not arguments.no_wait,
        timeout_s=arguments.timeout,
        as_json=arguments.json,
    )


def create(wish: creation.Wish) -> ExperimentRecord:
    """Create an experiment, and say on stderr what is not as the config says."""
    created = creation.create(wish)
    for note in created.notes:
        print(note, file=sys.stderr)
    return created.record


def start_headless(
    record: ExperimentRecord,
    components: tuple[str, ...],
    *,
    wait: bool,
    timeout_s: float | None,
    as_json: bool,
) -> int:
    """Start, follow on stderr until all is ready, print the status on stdout."""
    with launch.reach(record) as wire:
        request = Request(action="start", components=components)
        plan = Plan.model_validate(wire.call("plan", request.model_dump()))
        sys.stderr.write(plan_text(plan))
        if any(verdict.is_bad for verdict in plan.memory) and not confirm("start all the same?"):
            print("nothing was started", file=sys.stderr)
            return 1
        plan = Plan.model_validate(wire.call("execute", request.model_dump()))
        if wait:
            status = wait_until_settled(wire, set(plan.start), timeout_s=timeout_s)
        else:
            status = wire.call("status")
    print(json.dumps(status, ensure_ascii=False) if as_json else as_text(status), end="\n" if as_json else "")
    return 0


def down(arguments: argparse.Namespace) -> int:
    """Stop everything of an experiment, its supervisor included. Of an observed run, only the observation."""
    record = launch.choose(arguments.experiment or arguments.name)
    with launch.reach(record) as wire:
        try:
            wire.call("shutdown")
        except SupervisorGoneError:
            raise RltuiError(
                f"the supervisor of {record.name} died while it stopped the components",
                hint="run `rltui down` again: a new one ends what is left",
            ) from None
        wire.wait_for_end()
    status = read_status(record)
    ended = f"{record.name} is down; no process is left"
    if record.observed:
        forget(record)
        ended = f"{record.name} is not observed any more; the run in {record.run_dir} was left alone"
    print(json.dumps(status) if arguments.json else ended)
    return 0


def list_experiments(arguments: argparse.Namespace) -> int:
    """Every experiment that rltui knows, newest first."""
    rows = [read_status(record) for record in known_experiments()]
    if arguments.json:
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    if not rows:
        print("no experiments yet; start one: rltui up CONFIG.toml, or rltui demo")
    for row in rows:
        sys.stdout.write(as_text(row))
    return 0
