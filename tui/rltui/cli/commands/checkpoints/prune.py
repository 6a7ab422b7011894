"""`checkpoints prune`: old checkpoints are deleted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rltui.base.text import size_text
from rltui.cli.arguments import JSON, PLAN, RUN, YES, positive, steps
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, argument, command, flag, section
from rltui.cli.commands.checkpoints import report_of
from rltui.cli.consent import require_consent
from rltui.cli.output import print_outcome
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.services.experiment.files import ExperimentRecord
from rltui.views.checkpoint import prune_rows
from rltui.views.plan import rows_text

if TYPE_CHECKING:
    from rltui.core.runs.checkpoints import Retention


@command(
    "checkpoints prune",
    RUN,
    section(
        "keep, in addition to the newest and the best",
        argument("--keep-last", "NUMBER", "keep the newest ones (default: 3)", type=positive),
        argument("--keep-every", "NUMBER", "keep steps that are multiples of NUMBER", type=positive),
        argument("--keep", "STEP,…", "keep these steps", type=steps, completes="checkpoints"),
    ),
    flag("--set-aside", "also delete files that restarts have set aside", dest="archive"),
    PLAN,
    YES,
    JSON,
    examples=(
        "checkpoints prune demo --keep-last 1 --plan",
        "checkpoints prune demo --keep-every 8 --yes",
    ),
)
def prune(arguments: Arguments) -> int:
    from rltui.core.runs.checkpoints import Retention
    from rltui.services.runs.observed import refuse_observed

    record = choose(arguments, acts=True).record
    refuse_observed(record)
    fields = ("keep_last", "keep_every", "keep", "archive")
    rule = {name: value for name in fields if (value := getattr(arguments, name))}
    with launch.connected(record) as wire:
        return _prune(record, wire, Retention(**rule), arguments)


def _prune(record: ExperimentRecord, wire: Wire | None, retention: Retention, arguments: Arguments) -> int:
    from rltui.client.reader import ExperimentReader
    from rltui.core.experiment.questions import ExperimentApi
    from rltui.core.runs.checkpoints import prune_plan

    plan = prune_plan(report_of(record, wire), retention)
    if arguments.plan or plan.is_empty:
        print_outcome(plan, rows_text(prune_rows(plan)), as_json=arguments.json)
        return 0
    sys.stderr.write(rows_text(prune_rows(plan)))
    require_consent("prune-checkpoints", arguments, "delete them?")
    only = [checkpoint.step for checkpoint in plan.delete]
    if wire is None:
        pruned_checkpoints = ExperimentReader(record).prune(retention, only)
    else:
        pruned_checkpoints = wire.request(ExperimentApi.prune, retention, tuple(only))
    text = f"deleted; {size_text(pruned_checkpoints.frees_bytes)} freed\n"
    print_outcome(pruned_checkpoints, text, as_json=arguments.json)
    return 0
