"""Plans the new run of `up` from its arguments, and starts it without the TUI."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.choosing import FrameworkChooser, choose_devices
from rltui.cli.command import Arguments
from rltui.cli.config_line import run_config_of
from rltui.cli.consent import require_plan_consent
from rltui.cli.jobs import chosen_layout, options_for_hosts, with_devices
from rltui.cli.output import print_outcome
from rltui.cli.progress import working
from rltui.cli.status_text import print_status
from rltui.cli.terminal import confirm
from rltui.cli.waiting import request_plan, styled_plan_text, wait_for_first_attempt
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.core.runs import RunOrigin
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.paths import require_folder

if TYPE_CHECKING:
    from rltui.client import creation, draft
    from rltui.client.fork import Fork
    from rltui.client.rerun import RerunPlan
    from rltui.core.api import Plan, Request
    from rltui.core.evals import EvalRequest
    from rltui.services.config.run_config import RunConfig


def start_headless(
    new_run: draft.ExperimentRequest,
    request: Request,
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
    from rltui.client import creation
    from rltui.core.consent import loss_of_plan

    starts: list[tuple[Wire, Plan, bool]] = []
    requests = [request]

    def begin(creation_result: creation.Created) -> None:
        for note in creation_result.notes:
            print(note, file=sys.stderr)
        with working("starting the supervisor"):
            wire = launch.connect_or_start(creation_result.record)
            plan = request_plan(wire, "plan", request)
        if only_plan:
            starts.append((wire, plan, False))
            return
        sys.stderr.write(styled_plan_text(plan))
        if loss_of_plan(plan, request) > request.accepts and consents is not None:
            requests.append(require_plan_consent(plan, request, consents, verb="up"))
        is_agreed = not sys.stdin.isatty() or (consents is not None and consents.yes)
        is_safe = is_agreed or not any(verdict.is_bad for verdict in plan.memory)
        starts.append((wire, request_plan(wire, "execute", requests[-1]) if is_safe else plan, is_safe))

    creation_result = creation.create(new_run, begin)
    ((wire, plan, has_begun),) = starts
    with wire:
        if only_plan:
            creation.undo(creation_result)
            record = creation_result.record
            text = f"{record.name} in {record.output_dir}\n{styled_plan_text(plan)}"
            print_outcome(plan, text, as_json=as_json)
            return 0
        if not has_begun:  # a person may take their time, and holds up nobody meanwhile
            try:
                is_meant = confirm("start anyway?")
                plan = request_plan(wire, "execute", requests[-1]) if is_meant else plan
            except (RltuiError, KeyboardInterrupt):
                creation.undo(creation_result)
                raise
            if not is_meant:
                print("nothing was started", file=sys.stderr)
                creation.undo(creation_result)
                return int(ExitCode.FAILED)
        if evals:
            from rltui.core.experiment_api import ExperimentApi  # needs pydantic

            for evaluation in evals:
                wire.request(ExperimentApi.evaluate, evaluation)
        if wait:
            status = wait_for_first_attempt(wire, set(plan.start), timeout_s=timeout_s)
        else:
            status = wire.call("status")
    print_status(status, as_json=as_json)
    return 0


def start_copy(planned: Fork | RerunPlan, arguments: Arguments) -> int:
    """Copy the checkpoint that a planned run begins with, and start it, as `start_headless` does."""
    from rltui.client.fork import prepared
    from rltui.core.api import Request

    with prepared(planned.request, planned.record, planned.begin, partial(print, file=sys.stderr)) as request:
        return start_headless(
            request,
            Request(action="start", resume_step=request.checkpoint),
            wait=arguments.wait,
            timeout_s=arguments.timeout,
            as_json=arguments.json,
        )


@contextmanager
def requested_run(arguments: Arguments) -> Iterator[draft.ExperimentRequest]:
    """The request of the arguments of `up` and `open`, once it is clear which framework the config is for."""
    from rltui.client import creation, draft
    from rltui.client.reader import ExperimentReader

    begin = getattr(arguments, "begin", None)
    if begin is not None and arguments.new:
        raise UsageError("--from cannot be combined with --new", hint="leave one of them out")
    earlier = "resume" if arguments.resume or begin is not None else "new" if arguments.new else "ask"
    workspace = Path(arguments.workspace) if arguments.workspace else None
    folder = workspace or Path.cwd()
    require_folder(folder)
    choose = FrameworkChooser(arguments, workspace)
    host_options = options_for_hosts(arguments)
    devices = None if host_options else choose_devices(arguments)

    def request(copies: RunConfig) -> draft.ExperimentRequest:
        new_run = draft.ExperimentRequest(
            config_files=copies.files,
            copies=copies,
            layout=chosen_layout(arguments, copies.files, framework := choose.id_of(copies.files), workspace),
            framework=framework,
            name=arguments.name,
            output_dir=Path(arguments.output_dir) if arguments.output_dir else None,
            host_options=with_devices(arguments, host_options, choose(copies.files)),
            workspace=workspace,
            checkpoint=begin if isinstance(begin, int) else None,
            devices=devices,
            earlier_run=earlier,  # type: ignore[arg-type]  # one of three literals
            inference=()
            if arguments.inference == ["config"]
            else arguments.inference and tuple(arguments.inference),
            inference_of=arguments.inference_of,
            force=arguments.force,
            origin=RunOrigin(entry=getattr(arguments, "entry", ""), group=getattr(arguments, "group", "")),
        )
        if begin is None or isinstance(begin, int):
            return new_run
        record, _ = draft.plan_record(new_run)
        return replace(new_run, checkpoint=ExperimentReader(record).checkpoint_step(begin))

    with run_config_of(arguments, choose, workspace=folder, force=arguments.force) as copies:
        for line in copies.warnings:
            print(line, file=sys.stderr)
        new_run = request(copies)
        if not (own_copies := creation.own_copies(new_run)):
            yield new_run
            return
    print(
        f"the run continues with its own copy of the config: {' '.join(map(str, own_copies))}",
        file=sys.stderr,
    )
    for change in copies.changed_since(own_copies):
        print(
            f"{change}: the copy lacks later changes; set them ({hints.SET}), or start with --new",
            file=sys.stderr,
        )
    arguments.config, arguments.config_line.overlays = list(map(str, own_copies)), []
    with run_config_of(arguments, choose, workspace=folder, force=arguments.force) as copies:
        yield request(copies)
