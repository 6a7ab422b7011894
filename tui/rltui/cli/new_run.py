"""Makes the request for a new run from the arguments of `up`, and starts it without the TUI."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.choosing import FrameworkChooser
from rltui.cli.command import Arguments
from rltui.cli.config_line import config_line_of
from rltui.cli.consent import require_plan_consent
from rltui.cli.jobs import options_for_hosts
from rltui.cli.output import print_outcome
from rltui.cli.progress import working
from rltui.cli.status_text import as_text, print_status
from rltui.cli.terminal import confirm, is_quiet
from rltui.cli.waiting import styled_plan_text, wait_for_components
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.paths import require_folder

if TYPE_CHECKING:
    from rltui.client.draft import ConfiguredRequest
    from rltui.client.starting import FirstStart
    from rltui.core.experiment.request import ExperimentRequest
    from rltui.core.runs.evals import EvalRequest


def start_headless(
    run: ConfiguredRequest,
    *,
    wait: bool,
    timeout_s: float | None,
    as_json: bool,
    evals: Sequence[EvalRequest] = (),
    consents: Arguments | None = None,
    only_plan: bool = False,
) -> int:
    """Create, start, follow on stderr until all is ready, print the status on stdout; queue the `evals`.

    Where nothing can be started, or shall not be, nothing of it is left either. `consents`: of a command that
    may go back in an earlier run, whether its user agrees to what that loses. `only_plan`: print the plan.
    """
    from rltui.client import creation, starting
    from rltui.core.experiment.consent import loss_of_plan

    def agree(first: FirstStart) -> bool:
        plan, request = first.plan, first.request
        if only_plan:
            return False
        sys.stderr.write(styled_plan_text(plan))
        if loss_of_plan(plan, request) > request.accepts and consents is not None:
            first.request = require_plan_consent(plan, request, consents, verb="up")
        is_agreed = not sys.stdin.isatty() or (consents is not None and consents.yes)
        return is_agreed or not any(verdict.is_bad for verdict in plan.memory)

    first = starting.start(
        run,
        agree,
        evals=evals,
        report=partial(print, file=sys.stderr),
        progress=working("starting the supervisor"),
    )
    with first.wire as wire:
        if only_plan:
            creation.undo(first.created)
            record = first.created.record
            text = f"{record.name} in {record.output_dir}\n{styled_plan_text(first.plan)}"
            print_outcome(first.plan, text, as_json=as_json)
            return 0
        if not first.is_executed:  # a person may take their time, and holds up nobody meanwhile
            try:
                if is_meant := confirm("start anyway?"):
                    first.execute()
            except (RltuiError, KeyboardInterrupt):
                creation.undo(first.created)
                raise
            if not is_meant:
                print("nothing was started", file=sys.stderr)
                creation.undo(first.created)
                return int(ExitCode.FAILED)
        if wait:
            status = wait_for_components(wire, set(first.plan.start), timeout_s=timeout_s)
        else:
            status = wire.call("status")
    if is_quiet() and not as_json:
        print(as_text(status).partition("\n")[0])
    else:
        print_status(status, as_json=as_json)
    return 0


def request_of(arguments: Arguments) -> ExperimentRequest:
    """The request that the arguments of `up` and `open` make. GPUs are only looked at where they are named.

    Raises:
        UsageError: if they contradict each other.
        ConfigError: if a folder has no config.
        NotFoundError: if the workspace does not exist.
    """
    from rltui.core.experiment.request import ExperimentRequest

    begin = getattr(arguments, "begin", None)
    if begin is not None and arguments.new:
        raise UsageError("--from cannot be combined with --new", hint="leave one of them out")
    only = getattr(arguments, "only", None)
    workspace = Path(arguments.workspace or ".")
    require_folder(workspace)
    config, host_options = config_line_of(arguments), options_for_hosts(arguments)
    return ExperimentRequest(
        config=config,
        layout=_layout(arguments.layout, has_files=bool(config.files or config.overlays)),
        framework=arguments.framework,
        name=arguments.name,
        output_dir=Path(arguments.output_dir).absolute() if arguments.output_dir else None,
        workspace=workspace.absolute(),
        earlier_run="resume" if arguments.resume or begin is not None else "new" if arguments.new else "ask",
        checkpoint=begin,
        components=tuple(only.split(",")) if only else (),
        is_loss_accepted=getattr(arguments, "yes", False),
        inference=()
        if arguments.inference == ["config"]
        else arguments.inference and tuple(arguments.inference),
        inference_of=arguments.inference_of,
        host_options=host_options,
        devices=_devices(arguments, is_submitted=bool(host_options)),
        is_on_one_gpu=arguments.single_gpu,
        force=arguments.force,
    )


def _layout(layout: str | None, *, has_files: bool) -> str | None:
    """The layout as it is found from any folder: its path, or the name of one."""
    if layout is None or (has_files and not Path(layout).is_file()):
        return layout
    from rltui.services.experiment import layout_files

    return str(layout_files.find(layout, Path.cwd()))


def _devices(arguments: Arguments, *, is_submitted: bool) -> str | None:
    if arguments.devices is None:
        return None
    if is_submitted:
        raise UsageError(
            "--devices selects GPUs of this machine; a job gets those of its node",
            hint="--gpus N sets the GPUs per node; the config assigns them",
        )
    from rltui.client.gpu import named_devices  # reads the GPUs

    return named_devices(arguments.devices)


@contextmanager
def requested_run(arguments: Arguments) -> Iterator[ConfiguredRequest]:
    """The request of the arguments with its config, once it is clear which framework that is for."""
    with requested_config(request_of(arguments), arguments) as run:
        yield run


@contextmanager
def requested_config(request: ExperimentRequest, arguments: Arguments) -> Iterator[ConfiguredRequest]:
    """The config of a request that `request_of` made of the arguments; notes on it are printed."""
    from rltui.client.configured import configured

    with configured(request, FrameworkChooser(arguments, request.workspace).id_of) as run:
        for note in run.notes:
            print(note, file=sys.stderr)
        yield run
