"""`start`, `stop`, `restart`: plan, consent, execution."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from rltui.cli.choosing import attempt_of, choose
from rltui.cli.command import Arguments
from rltui.cli.consent import require_plan_consent
from rltui.cli.output import print_json, print_outcome
from rltui.cli.waiting import (
    request_plan,
    should_wait,
    styled_plan_text,
    tell_way_forward,
    wait_and_report,
    wait_for_components,
)
from rltui.errors import UsageError
from rltui.services.experiment.files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.core.experiment.api import Request


def execute(action: Literal["start", "stop", "restart"], arguments: Arguments) -> int:
    from rltui.client.down import visited_supervisor
    from rltui.client.reader import ExperimentReader
    from rltui.core.experiment.api import Request
    from rltui.services.runs.observed import refuse_observed

    record, components = choose(arguments, acts=True)
    refuse_observed(record)
    for component in components:
        if attempt_of(component)[1] is not None:
            raise UsageError(f"{action} takes components, not attempts: {component}")
    checkpoint = getattr(arguments, "begin", None)
    request = Request(
        action=action,
        components=components,
        kill=getattr(arguments, "kill", False),
        resume="scratch" if getattr(arguments, "from_scratch", False) else "latest",
        resume_step=None if checkpoint is None else ExperimentReader(record).checkpoint_step(checkpoint),
    )
    if arguments.plan:
        return _only_plan(record, request, as_json=arguments.json)
    with visited_supervisor(record) as wire:
        plan = request_plan(wire, "plan", request)
        if not plan.blocked:
            sys.stderr.write(styled_plan_text(plan))
        if not plan.stop and not plan.start and not plan.problems:
            print("nothing to do", file=sys.stderr)
        request_with_consent = require_plan_consent(plan, request, arguments)
        plan = request_plan(wire, "execute", request_with_consent)
        tell_way_forward(plan, record.name)
        if should_wait(arguments):
            wait_and_report(wire, {*plan.stop, *plan.start}, arguments, plan)
            return 0
        if request.action == "stop" and arguments.wait is None:  # a start before its end is refused
            wait_for_components(wire, {*plan.stop}, timeout_s=None)
        if arguments.json:
            print_json(plan)
    return 0


def _only_plan(record: ExperimentRecord, request: Request, *, as_json: bool) -> int:
    from rltui.client.down import visited_supervisor

    with visited_supervisor(record) as wire:
        plan = request_plan(wire, "plan", request)
    print_outcome(plan, styled_plan_text(plan) or "nothing to do\n", as_json=as_json)
    return 0
