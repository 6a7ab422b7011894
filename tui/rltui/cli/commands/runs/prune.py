"""`runs prune`: runs that no rule keeps are put into the trash."""

from __future__ import annotations

import time

from rltui.cli.arguments import JSON, PLAN, YES, age_s, positive
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, argument, command, flag, repeatable, section
from rltui.cli.commands.runs.list import FILTER, filter_query, typed_filter
from rltui.cli.commands.runs.rm import put_into_trash
from rltui.errors import UsageError
from rltui.services.runs.organize import RunRetention, retention_plan


@command(
    "runs prune",
    FILTER,
    section(
        "keep, in addition to running and starred runs",
        argument(
            "--keep-best",
            "NUMBER",
            "the runs with the best mean reward over 10 steps",
            type=positive,
            default=0,
        ),
        argument("--keep-last", "NUMBER", "the newest runs", type=positive, default=0),
        repeatable("--keep-tag", "TAG", "runs with this tag; repeatable", completes="tags"),
        argument("--older-than", "AGE", "runs that ended more recently: 30d, 12h"),
    ),
    flag("--all", "prune archived runs too"),
    PLAN,
    YES,
    JSON,
    examples=("runs prune --keep-best 3 --plan",),
)
def prune(arguments: Arguments) -> int:
    retention = RunRetention(
        keep_best=arguments.keep_best,
        keep_last=arguments.keep_last,
        keep_tags=tuple(arguments.keep_tag),
        older_than_s=age_s("--older-than", arguments.older_than) if arguments.older_than else None,
    )
    if not retention.says_something:
        raise UsageError(
            "prune needs a rule for the runs to keep",
            hint="one of: --keep-best 3, --keep-last 10, --keep-tag baseline, --older-than 30d",
        )
    index, now = ready_index(), time.time()
    run_filter, _ = typed_filter(index, arguments, now)
    plan = retention_plan(index.select(filter_query(run_filter, arguments)), retention, now)
    return put_into_trash(index, plan.go, arguments, verb="prune-runs", spared=plan.keep)
