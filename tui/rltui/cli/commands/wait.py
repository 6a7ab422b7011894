"""`wait`: return once runs are where a condition says."""

from __future__ import annotations

from rltui.cli.arguments import REFERENCES, SINCE, TIMEOUT, json_flag
from rltui.cli.choosing import choose_named, meant
from rltui.cli.command import Arguments, argument, command, repeatable
from rltui.cli.output import print_json
from rltui.core.runs.conditions import EVENTS, EXAMPLE, STATES, parse_condition
from rltui.errors import ExitCode, UsageError

CODES = {"reached": ExitCode.DONE, "run_failed": ExitCode.COMPONENT_FAILED}
"""Exit codes by the code of the reason that ended the wait; of all others `FAILED`."""


@command(
    "wait",
    argument(
        "runs",
        "RUN",
        f"{REFERENCES}; the first of several that ends the wait (default: as for `status`)",
        nargs="*",
        completes="runs",
    ),
    repeatable(
        "--until",
        "CONDITION",
        f"{', '.join(STATES)}, METRIC>VALUE, {', '.join(EVENTS)}:ID; joined by and, or; repeatable: or",
    ),
    TIMEOUT,
    SINCE,
    json_flag("one JSON document, as always"),
    examples=(
        "wait demo --until ready",
        "wait demo --until 'step>=200 or alert' --timeout 600",
        "wait demo --until 'reward>0.9 and step>=50'",
    ),
)
def wait(arguments: Arguments) -> int:
    if not arguments.until:
        raise UsageError("wait for what? --until is missing", hint=EXAMPLE)
    condition = parse_condition(*arguments.until)
    arguments.run = None
    import asyncio

    from rltui.client.waiting import awaited, wait_until

    named = [awaited(name, lambda name: choose_named(name).record) for name in arguments.runs]
    runs = named or [target.record for target in meant(arguments)]
    timeout_s, since = arguments.timeout, arguments.since
    answer = asyncio.run(wait_until(runs, condition, timeout_s=timeout_s, since=since))
    print_json(answer)
    return int(CODES.get(answer.reason.code, ExitCode.FAILED))
