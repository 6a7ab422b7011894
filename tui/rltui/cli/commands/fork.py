"""`fork`: a new run with the config of another, or from a checkpoint of it."""

from __future__ import annotations

import sys
from functools import partial

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
from rltui.cli.command import Arguments, command, flag, hidden
from rltui.cli.new_run import start_headless
from rltui.cli.output import print_json
from rltui.cli.queue_requests import print_added
from rltui.core.forks import ForkRequest
from rltui.core.knobs import split_assignments
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
    hidden("--entry", default=""),
    hidden("--group", default=""),
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
    from rltui.client.fork import plan_fork, prepared
    from rltui.client.queue import commands
    from rltui.core.queue import QueueOptions

    row = choose_run(ready_index(), arguments)
    fork_request = ForkRequest(
        edits=split_assignments(arguments.edits),
        begin=arguments.begin,
        name=arguments.name,
        folder=arguments.output_dir,
        devices=choose_devices(arguments),
        entry=arguments.entry,
        group=arguments.group,
    )
    with plan_fork(row, fork_request) as planned_fork:
        if arguments.plan and arguments.json:
            print_json(planned_fork.plan)
            return 0
        text = "\n".join(style_diff(fork_lines(planned_fork.plan)))
        print(text, file=sys.stdout if arguments.plan else sys.stderr)
        if arguments.plan:
            return 0
        if arguments.queue:
            queued = commands.add_to_queue([commands.fork_for_queue(planned_fork)], QueueOptions())
            print_added(queued, arguments)
            return 0
        print_progress = partial(print, file=sys.stderr)
        with prepared(
            planned_fork.request, planned_fork.record, planned_fork.begin, print_progress
        ) as request:
            return start_headless(
                request,
                planned_fork.start,
                wait=arguments.wait,
                timeout_s=arguments.timeout,
                as_json=arguments.json,
            )
