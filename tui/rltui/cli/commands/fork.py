"""`fork`, `promote`: from a run to another one, and from its config back to the files it was made of."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from functools import partial

from rltui.cli.choosing import ready_index
from rltui.cli.colour import diff as paint_diff
from rltui.cli.config import wanted_devices
from rltui.cli.consent import require_consent
from rltui.cli.new_run import start_headless
from rltui.client import promote as promoting
from rltui.client.fork import plan_fork, prepared
from rltui.core.forks import ForkRequest, checkpointed
from rltui.core.knobs import split_assignments
from rltui.errors import ConflictError
from rltui.services.runs.catalog import find_run
from rltui.wording import fork_lines


def fork(arguments: argparse.Namespace) -> int:
    row = find_run(ready_index(), arguments.run)
    wish = ForkRequest(
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
        text = "\n".join(paint_diff(fork_lines(planned.plan)))
        print(text, file=sys.stdout if arguments.plan else sys.stderr)
        if arguments.plan:
            return 0
        tell = partial(print, file=sys.stderr)
        with prepared(planned.request, planned.record, planned.begin, tell) as request:
            return start_headless(
                request,
                planned.start,
                wait=arguments.wait,
                timeout_s=arguments.timeout,
                as_json=arguments.json,
            )


def promote(arguments: argparse.Namespace) -> int:
    plan = promoting.plan_undo if arguments.undo else promoting.plan_promotion
    promotion = plan(find_run(ready_index(), arguments.run))
    diff = promotion.diff
    told: tuple[str, ...] = ()
    shown = "\n".join(paint_diff(diff.splitlines())) or "nothing to write"
    if not arguments.json:
        print(shown)
    for line in (*promotion.notes, *(f"not written: {each}" for each in promotion.refused)):
        print(line, file=sys.stderr)
    if diff and not arguments.plan:
        require_consent("promote", arguments, "write it?", plan=f"{shown}\n" if arguments.json else "")
        told = promoting.promote(promotion)
    if arguments.json:
        files = [str(path) for path in promotion.files]
        found = {
            "run": promotion.run,
            "files": files,
            "diff": diff,
            "refused": promotion.refused,
            "undo": told,
        }
        print(json.dumps(found, ensure_ascii=False))
    for line in told:
        print(line, file=sys.stderr)
    return int(ConflictError.exit_code) if promotion.refused else 0
