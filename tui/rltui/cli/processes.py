"""`start`, `stop`, `restart`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys

from rltui.cli.terminal import confirm
from rltui.cli.waiting import wait_until_settled
from rltui.client import launch
from rltui.client.down import send_away
from rltui.core.api import Plan, Request
from rltui.errors import ConflictError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.observed import refuse_observed
from rltui.wording import plan_text


def change(arguments: argparse.Namespace) -> int:
    """Print the plan, ask where there is somebody to ask, carry it out."""
    request = Request(
        action=arguments.action,
        components=tuple(arguments.component),
        kill=getattr(arguments, "kill", False),
        resume="scratch" if getattr(arguments, "from_scratch", False) else "latest",
        resume_step=getattr(arguments, "from_checkpoint", None),
    )
    record = launch.choose(arguments.name)
    refuse_observed(record)
    if arguments.plan:
        return _only_plan(record, request, as_json=arguments.json)
    with launch.reach(record) as wire:
        plan = Plan.model_validate(wire.call("plan", request.model_dump()))
        sys.stderr.write(plan_text(plan))
        if not plan.stop and not plan.start and not plan.problems:
            print("nothing to do", file=sys.stderr)
        elif not arguments.yes and not confirm("go on?"):
            print("nothing was done", file=sys.stderr)
            return 1
        plan = Plan.model_validate(wire.call("execute", request.model_dump()))
        if arguments.wait:
            status = wait_until_settled(wire, {*plan.stop, *plan.start}, timeout_s=None)
            if arguments.json:
                print(json.dumps(status, ensure_ascii=False))
        elif arguments.json:
            print(plan.model_dump_json())
    return 0


def _only_plan(record: ExperimentRecord, request: Request, *, as_json: bool) -> int:
    """Print the plan. A supervisor that had to be started for it is sent away again."""
    was_alive = launch.is_alive(record)
    with launch.reach(record) as wire:
        plan = Plan.model_validate(wire.call("plan", request.model_dump()))
    if not was_alive and not plan.keep and not plan.stop:
        with contextlib.suppress(ConflictError):  # somebody has started something meanwhile
            send_away(record)
    if as_json:
        print(plan.model_dump_json())
    else:
        sys.stdout.write(plan_text(plan) or "nothing to do\n")
    return 0
