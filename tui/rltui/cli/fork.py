"""`fork`: a run that begins with the config of another, or with a checkpoint of it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from rltui.cli.config import wanted_devices
from rltui.cli.running import start_headless
from rltui.client.fork import plan_fork
from rltui.core.forks import ForkWish, checkpointed
from rltui.core.knobs import split_assignments
from rltui.services.runs.catalog import catch_up, find_run
from rltui.services.runs.index import RunIndex
from rltui.wording import fork_lines


def fork(arguments: argparse.Namespace) -> int:
    """Copy what it begins with, and start it."""
    index = RunIndex()
    for sentence in catch_up(index).told:
        print(sentence, file=sys.stderr)
    row = find_run(index, arguments.run)
    wish = ForkWish(
        edits=split_assignments(arguments.edits),
        begin=None if arguments.begin is None else checkpointed(arguments.begin),
        name=arguments.name,
        folder=arguments.output_dir,
        devices=wanted_devices(arguments),
    )
    with plan_fork(row, wish) as planned:
        if arguments.plan and arguments.json:
            print(json.dumps(dataclasses.asdict(planned.plan), ensure_ascii=False))
            return 0
        text = "\n".join(fork_lines(planned.plan))
        print(text, file=sys.stdout if arguments.plan else sys.stderr)
        if arguments.plan:
            return 0
        with planned.prepared(lambda line: print(line, file=sys.stderr)) as request:
            return start_headless(
                request,
                planned.start,
                wait=not arguments.no_wait,
                timeout_s=arguments.timeout,
                as_json=arguments.json,
            )
