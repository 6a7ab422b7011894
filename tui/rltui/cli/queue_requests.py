"""Runs that are asked for on the command line, as requests to the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.base.text import count_text
from rltui.cli.arguments import CREATION, positive
from rltui.cli.command import Arguments, argument, flag, load, options_of, repeatable, switch
from rltui.cli.new_run import request_of, requested_config
from rltui.cli.output import print_json
from rltui.cli.parser import parse
from rltui.cli.progress import working
from rltui.cli.table import TableColumn, print_table
from rltui.core import hints
from rltui.errors import UsageError
from rltui.frameworks import launchers
from rltui.frameworks.launchers.line import Options
from rltui.views.queue_entry import entry_document

if TYPE_CHECKING:
    from rltui.client.queue.commands import QueueRequest
    from rltui.core.runs.queue import QueueEntry, QueueOptions

AFTER_REBOOT = switch(
    "--after-reboot",
    "resume the queue after a reboot, at the next rltui command",
)
QUEUED = (
    argument(
        "--gpus",
        "NUMBER",
        "free GPUs to wait for (SLURM: GPUs per node)",
        type=positive,
    ),
    argument("--retries", "NUMBER", "times to retry if the run fails", type=positive, default=0),
    repeatable("--stop-if", "RULE", "stop the run early: 'reward < 0.2 at 50', 'kl > 10'"),
    argument("--priority", "NUMBER", "higher priorities start first (default: 0)", type=int, default=0),
    AFTER_REBOOT,
    flag("--slurm", "submit each run as a SLURM job (rltui help slurm)"),
)
"""Arguments for how a run waits in the queue."""


def split_queued(argv: list[str], options: Options) -> tuple[list[str], Mapping[str, object]]:
    """The grammar of `queue add`. Of the namespace `words` are for `rltui up`; `overrides`, from behind `--`,
    as well.
    """
    return _split(argv, options, has_axes=False)


def split_sweep(argv: list[str], options: Options) -> tuple[list[str], Mapping[str, object]]:
    """The grammar of `sweep`: that of `queue add`, and `axes` of the namespace are its values,
    `lr=1e-6,3e-6`.
    """
    return _split(argv, options, has_axes=True)


def _split(argv: list[str], options: Options, *, has_axes: bool) -> tuple[list[str], Mapping[str, object]]:
    end = argv.index("--") if "--" in argv else len(argv)
    remaining = argv[:end]
    own_options = options.keys() - options_of(CREATION).keys() - {"--slurm"}
    if "--slurm" in remaining or launchers.is_submitted(remaining):  # then these are of each node of the job
        own_options -= {"--gpus"}
    of_up = load("up").options
    own_argv, up_argv, axes = [], [], []
    while remaining:
        arg = remaining.pop(0)
        name, equals, _ = arg.partition("=")
        takes_value = not equals and bool(remaining)
        if name in own_options:
            own_argv += [arg, remaining.pop(0)] if takes_value and options[name] else [arg]
        elif takes_value and of_up.get(name, False):
            up_argv += [arg, remaining.pop(0)]
        elif has_axes and equals and not arg.startswith("-"):
            axes.append(arg)
        else:
            up_argv.append(arg)
    return own_argv, {"words": up_argv, "overrides": argv[end + 1 :], "axes": axes}


def queue_options(arguments: Arguments) -> QueueOptions:
    from rltui.core.runs.queue import QueueOptions
    from rltui.scheduler.stop_rules import check_rule

    for rule in arguments.stop_if:
        check_rule(rule)
    return QueueOptions(
        gpus=arguments.gpus,
        retries=arguments.retries,
        stop_if=tuple(arguments.stop_if),
        priority=arguments.priority,
    )


def plan_request(words: Sequence[str], overrides: Sequence[str], *, with_needs: bool = False) -> QueueRequest:
    """The run that `rltui up` would make of these.

    Raises:
        ConfigError: if its config breaks a rule, as `rltui check` says it.
    """
    from rltui.client import creation, draft
    from rltui.client.jobs import submitted
    from rltui.client.queue.commands import QueueRequest, is_submitted, needs_of
    from rltui.services.config import origins

    up = parse(["up", *words, *(["--", *overrides] if overrides else [])])
    request = request_of(up)
    with requested_config(request, up) as run:
        with working("planning the run"):
            record, earlier = draft.plan_record(run)
            creation.refuse_invalid(record)
        run.trust_programs()
        is_job = is_submitted(record)
        needs_devices = with_needs and not request.is_on_one_gpu
        return QueueRequest(
            replace(
                request,
                framework=run.request.framework,
                earlier_run="resume" if request.earlier_run == "resume" else "ask",  # its folder is known
            ),
            words=tuple(arg for arg in words if arg != "--new"),
            overrides=tuple(overrides),
            name=record.name,
            folder=Path(record.output_dir),
            files=origins.original_files(record.config_paths),
            is_named=request.name is not None,
            is_taken=earlier is not None,
            is_job=is_job,
            jobs=submitted(record) if with_needs and is_job else (),
            needs=needs_of(record) if needs_devices else (None, 0),
        )


def refuse_devices(queue_request: QueueRequest, options: QueueOptions) -> None:
    if queue_request.is_job and options.gpus is not None:
        raise UsageError(
            f"{queue_request.name} is submitted to SLURM and uses no GPUs of this machine",
            hint="GPUs per node of its job: --slurm --gpus N",
        )


def as_options(point: Sequence[tuple[str, str]]) -> list[str]:
    return [f"--{key}={value}" for key, value in point]


def print_added(entries: Sequence[QueueEntry], arguments: Arguments) -> None:
    if arguments.json:
        print_json([entry_document(entry) for entry in entries])
        return
    for entry in entries:
        print(f"{entry.name} is queued: {entry.folder}")
    if entries and entries[0].group:
        print(f"name of the sweep: {entries[0].group}; see: {hints.QUEUE}")


def print_planned(requests: Sequence[QueueRequest], arguments: Arguments) -> None:
    """List the runs that would be queued, for `--plan`."""
    runs = [
        {
            "name": f"{request.name}-{request.own_name}" if request.own_name else request.name,
            "what": request.own or str(request.folder),
        }
        for request in requests
    ]
    if arguments.json:
        print_json({"runs": runs})
        return
    print(f"{count_text(len(runs), 'run')}, nothing was queued:")
    print_table(
        (TableColumn("NAME", least=16, cut="middle"), TableColumn("WHAT", least=16)),
        [(*run.values(),) for run in runs],
    )
