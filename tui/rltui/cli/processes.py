"""`start`, `stop`, `restart`."""

from __future__ import annotations

import argparse
import json
import sys

from rltui.cli.output import confirm, plan_text, print_json
from rltui.cli.running import open_wire
from rltui.cli.waiting import wait_until_settled
from rltui.client import launch
from rltui.core.api import Plan, Request


def change(arguments: argparse.Namespace) -> int:
    """Print the plan, ask where there is somebody to ask, carry it out."""
    request = Request(
        action=arguments.action,
        components=tuple(arguments.component),
        kill=getattr(arguments, "kill", False),
        resume="scratch" if getattr(arguments, "from_scratch", False) else "latest",
    )
    with open_wire(launch.choose(arguments.name)) as wire:
        plan = Plan.model_validate(wire.call("plan", request.model_dump()))
        if arguments.plan:
            if arguments.json:
                print_json(plan)
            else:
                sys.stdout.write(plan_text(plan) or "nothing to do\n")
            return 0
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
            print_json(plan)
    return 0
