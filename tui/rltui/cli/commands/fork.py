"""`fork`: a new run with the config of another, or from a checkpoint of it."""

from __future__ import annotations

import sys

from rltui.cli.arguments import (
    DEVICES,
    FOLDER_BESIDE,
    FROM,
    JSON,
    PLAN,
    RUN,
    SET,
    TIMEOUT,
    WAIT,
    name_option,
)
from rltui.cli.choosing import choose_devices, choose_run, ready_index
from rltui.cli.colour import style_diff
from rltui.cli.command import Arguments, command, flag
from rltui.cli.new_run import start_headless
from rltui.cli.output import print_outcome
from rltui.cli.queue_requests import print_added
from rltui.core.config.knobs import split_assignments
from rltui.core.runs.forks import ForkRequest
from rltui.views.run import fork_lines


@command(
    "fork",
    RUN,
    FROM,
    SET,
    name_option("name of the new run (default: from its changes)"),
    FOLDER_BESIDE,
    DEVICES,
    flag("--queue", "queue it: it starts when there is room"),
    PLAN,
    WAIT,
    TIMEOUT,
    JSON,
    examples=(
        "fork demo --set lr=1e-4 --plan",
        "fork demo --from best -n from-best",
        "fork demo --set lr=1e-4 --queue",
    ),
)
def fork(arguments: Arguments) -> int:
    from rltui.client.fork import plan_fork
    from rltui.client.queue import commands
    from rltui.core.runs.queue import QueueOptions

    row = choose_run(ready_index(), arguments)
    fork_request = ForkRequest(
        edits=split_assignments(arguments.edits),
        begin=arguments.begin,
        name=arguments.name,
        folder=arguments.output_dir,
        devices=choose_devices(arguments),
    )
    with plan_fork(row, fork_request) as planned_fork:
        text = "\n".join(style_diff(fork_lines(planned_fork.plan))) + "\n"
        if arguments.plan:
            print_outcome(planned_fork.plan, text, as_json=arguments.json)
            return 0
        sys.stderr.write(text)
        if arguments.queue:
            queued = commands.add_to_queue([commands.fork_for_queue(planned_fork)], QueueOptions())
            print_added(queued, arguments)
            return 0
        return start_headless(
            planned_fork.run, wait=arguments.wait, timeout_s=arguments.timeout, as_json=arguments.json
        )
