"""`start`, `stop`, `restart`: the plan is made, shown, agreed to and carried out."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Literal

from rltui.cli.choosing import choose_experiment
from rltui.cli.consent import accepted
from rltui.cli.output import print_json
from rltui.cli.waiting import is_awaited, outcome, painted, plan_of, wait_for_first_attempt
from rltui.client import launch
from rltui.errors import ConflictError
from rltui.services.runs.experiment_files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.core.api import Request


def execute(action: Literal["start", "stop", "restart"], arguments: argparse.Namespace) -> int:
    """Carry out one of the three on the components that `arguments` name."""
    from rltui.client.reader import ExperimentReader
    from rltui.core.api import Request
    from rltui.services.runs.observed import refuse_observed

    record = choose_experiment(arguments.name, acts=True)
    refuse_observed(record)
    checkpoint = getattr(arguments, "begin", None)
    request = Request(
        action=action,
        components=tuple(arguments.component),
        kill=getattr(arguments, "kill", False),
        resume="scratch" if getattr(arguments, "from_scratch", False) else "latest",
        resume_step=None if checkpoint is None else ExperimentReader(record).checkpoint_step(checkpoint),
    )
    if arguments.plan:
        return _only_plan(record, request, as_json=arguments.json)
    with launch.reach(record) as wire:
        plan = plan_of(wire, "plan", request)
        sys.stderr.write(painted(plan))
        if not plan.stop and not plan.start and not plan.problems:
            print("nothing to do", file=sys.stderr)
        request_with_consent = accepted(plan, request, arguments)
        plan = plan_of(wire, "execute", request_with_consent)
        if is_awaited(arguments):
            outcome(wire, {*plan.stop, *plan.start}, arguments, plan)
            return 0
        if request.action == "stop" and arguments.wait is None:  # a start before its end is refused
            wait_for_first_attempt(wire, {*plan.stop}, timeout_s=None)
        if arguments.json:
            print_json(plan)
    return 0


def _only_plan(record: ExperimentRecord, request: Request, *, as_json: bool) -> int:
    """Print the plan. A supervisor that had to be started for it is sent away again."""
    from rltui.client.down import stop_idle_supervisor

    was_alive = launch.is_alive(record)
    with launch.reach(record) as wire:
        plan = plan_of(wire, "plan", request)
    if not was_alive and not plan.keep and not plan.stop:
        with contextlib.suppress(ConflictError):  # somebody has started something meanwhile
            stop_idle_supervisor(record)
    if as_json:
        print_json(plan)
    else:
        sys.stdout.write(painted(plan) or "nothing to do\n")
    return 0
