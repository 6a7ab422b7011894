"""`rerun`: a run again, from the config that was recorded of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.base.text import size_text
from rltui.cli.arguments import DEVICES, FOLDER_BESIDE, JSON, PLAN, RUN, TIMEOUT, WAIT, YES, name_option
from rltui.cli.choosing import choose_devices, choose_run, ready_index
from rltui.cli.command import Arguments, command
from rltui.cli.consent import require_consent
from rltui.cli.new_run import start_headless
from rltui.cli.output import print_outcome
from rltui.core.runs.row import RunRow

if TYPE_CHECKING:
    from rltui.client.rerun import RerunPlan


@command(
    "rerun",
    RUN,
    name_option("name of the new run (default: RUN-again)"),
    FOLDER_BESIDE,
    DEVICES,
    PLAN,
    YES,
    WAIT,
    TIMEOUT,
    JSON,
    examples=(
        "rerun demo --plan",
        "rerun demo -n demo-again",
        "rerun demo --devices 0",
    ),
)
def rerun(arguments: Arguments) -> int:
    from rltui.client.rerun import plan_rerun

    row = choose_run(ready_index(), arguments)
    planned_rerun = plan_rerun(
        row,
        name=arguments.name,
        output_dir=Path(arguments.output_dir).absolute() if arguments.output_dir else None,
        devices=choose_devices(arguments),
    )
    with planned_rerun as plan:
        text = "\n".join(_lines(row, plan)) + "\n"
        if arguments.plan:
            print_outcome(_document(row, plan), text, as_json=arguments.json)
            return 0
        sys.stderr.write(text)
        if plan.differences:
            require_consent("rerun", arguments, "start it anyway?")
        return start_headless(
            plan.run, wait=arguments.wait, timeout_s=arguments.timeout, as_json=arguments.json
        )


def _document(row: RunRow, plan: RerunPlan) -> dict[str, object]:
    return {
        "run": row.id,
        "name": plan.record.name,
        "output_dir": plan.record.output_dir,
        "config_files": [file.path for file in row.configs],
        "begin": None if plan.begin is None else plan.begin.step,
        "differences": list(plan.differences),
        "notes": list(plan.notes),
    }


def _lines(row: RunRow, plan: RerunPlan) -> Iterator[str]:
    yield f"{row.name} ({row.id}) again, as {plan.record.name} in {plan.record.output_dir}"
    yield f"  with its last config: {', '.join(file.path for file in row.configs)}"
    if plan.begin is not None:
        yield f"  from checkpoint {plan.begin.step}, a copy of {size_text(plan.begin.size_bytes)}"
    yield from (f"  {note}" for note in plan.notes)
    if plan.differences:
        yield "changed since then:"
        yield from (f"  ⚠ {difference}" for difference in plan.differences)
    elif row.commit or row.versions:
        yield "  code, versions, data and machine are unchanged"
