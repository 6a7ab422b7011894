"""`up`: an experiment is made and started without the TUI."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from rltui.cli.arguments import CONFIG, CREATION, FROM, JOB, JSON, PLAN, TIMEOUT, WAIT, YES
from rltui.cli.command import Arguments, argument, command, section
from rltui.cli.component_actions import execute
from rltui.cli.config_line import read_config_line
from rltui.cli.jobs import start_or_submit
from rltui.cli.new_run import requested_run, start_headless
from rltui.cli.progress import working
from rltui.client import launch
from rltui.services.experiment.files import ExperimentRecord, same_folder
from rltui.services.experiment.registry import find_experiment

if TYPE_CHECKING:
    from rltui.client.draft import ConfiguredRequest


@command(
    "up",
    CONFIG,
    *CREATION,
    section(
        "run",
        argument(
            "--only",
            "COMPONENT,…",
            "start only these components and their dependencies",
            completes="components",
        ),
        FROM,
    ),
    JOB,
    PLAN,
    YES,
    WAIT,
    TIMEOUT,
    JSON,
    examples=(
        "up rl.toml",
        "up rl.toml --set lr=3e-6 -n lr-3e-6",
        "up rl.toml --resume --devices 0,1",
    ),
    grammar=read_config_line,
)
def up(arguments: Arguments) -> int:
    return start_or_submit(_up, arguments)


def _up(arguments: Arguments) -> int:
    with requested_run(arguments) as run:
        run.trust_programs()
        if arguments.plan and run.request.host_options:
            return _print_jobs(run)
        if (live_run := _living_run_of(arguments, run)) is not None:
            values = {"run": live_run.name, "component": run.request.components, "wait": arguments.wait}
            start = Arguments(
                command_name="start", plan=arguments.plan, yes=True, json=arguments.json, **values
            )
            return execute("start", start)
        return start_headless(
            run,
            wait=arguments.wait,
            timeout_s=arguments.timeout,
            as_json=arguments.json,
            consents=arguments,
            only_plan=arguments.plan,
        )


def _living_run_of(arguments: Arguments, run: ConfiguredRequest) -> ExperimentRecord | None:
    """The living experiment whose next program a pasted line starts: `orchestrator @ orch.toml` once
    `inference @ infer.toml` runs. `None` for other lines, and where the line sets something in a config.
    """
    from rltui.client import draft

    if not arguments.config_line.component or arguments.config_line.overrides or arguments.config_line.edits:
        return None
    planned_record, _ = draft.plan_record(run)
    experiment = find_experiment(planned_record.name)
    is_it = experiment is not None and same_folder(experiment.output_dir, planned_record.output_dir)
    return experiment if experiment is not None and is_it and launch.is_running(experiment) else None


def _print_jobs(run: ConfiguredRequest) -> int:
    from rltui.client import draft
    from rltui.client.jobs import previews

    planned_record, _ = draft.plan_record(run)
    with working("writing the job's script"):
        scripts = previews(planned_record)
    for preview in scripts:
        print(f"# {preview.component}: {shlex.join(preview.command)}")
        print(preview.script)
    print("nothing was submitted", file=sys.stderr)
    return 0
