"""Starts a new run: its experiment is created, its first start planned, and executed if that is agreed to.

`start_in_subprocess` does it by `python -m rltui.client --start`, for the TUI, which must not load libtmux.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from rltui.base.interpreter import module_command
from rltui.base.values import Value
from rltui.client import creation, launch
from rltui.client.configured import configured
from rltui.client.draft import ConfiguredRequest
from rltui.client.fork import prepared
from rltui.client.transports.unix import Wire, result_of
from rltui.core.experiment.api import Loss, Plan, Request
from rltui.core.experiment.consent import loss_of_plan
from rltui.core.experiment.questions import ExperimentApi
from rltui.core.experiment.request import ExperimentRequest
from rltui.core.runs.evals import EvalRequest
from rltui.errors import UsageError
from rltui.services.actor import actor
from rltui.services.processes import subprocesses

START = "--start"
"""Argument of `python -m rltui.client` for a run whose order is on stdin."""
_TIMEOUT_S = 6 * 3600.0
"""A large checkpoint may be copied."""


@dataclass
class FirstStart:
    """The first start of a run whose experiment was just created."""

    created: creation.Created
    wire: Wire
    request: Request
    plan: Plan
    """Once it is executed, that of the supervisor's."""
    evals: Sequence[EvalRequest] = ()
    """Evaluations that are queued with it."""
    is_executed: bool = False

    def execute(self) -> None:
        self.plan = self.wire.request(ExperimentApi.execute, self.request)
        for evaluation in self.evals:
            self.wire.request(ExperimentApi.evaluate, evaluation)
        self.is_executed = True


def start(
    run: ConfiguredRequest,
    agree: Callable[[FirstStart], bool],
    *,
    evals: Sequence[EvalRequest] = (),
    report: Callable[[str], None] = lambda _: None,
    progress: AbstractContextManager[object] | None = None,
) -> FirstStart:
    """Create the experiment of `run`, and start it if `agree` says so, which sees the plan; without that it
    is there, with a supervisor, and can be started or undone.

    `report` gets sentences about what is done and differs. `progress`: surrounds what may take a while.

    Raises:
        ConfigError, ConflictError, RltuiError: as `creation.create`, or as `agree`; nothing is left then.
    """
    starts: list[FirstStart] = []

    def begin(created: creation.Created) -> None:
        for note in created.notes:
            report(note)
        with progress or nullcontext():
            wire = launch.connect_or_start(created.record)
            request = _first_request(resuming.request)
            starts.append(
                FirstStart(created, wire, request, wire.request(ExperimentApi.plan, request), evals)
            )
        if agree(starts[0]):
            starts[0].execute()

    with prepared(run, report) as resuming:
        creation.create(resuming, begin)
    return starts[0]


def _first_request(request: ExperimentRequest) -> Request:
    return Request(
        action="start",
        components=request.components,
        resume_step=request.checkpoint_step,
        is_first=True,
        accepts=Loss.MORE if request.is_loss_accepted else Loss.INTERVAL,
    )


# --- by a program of its own ------------------------------------------------------------------------------


class StartOrder(Value):
    """A run that another process starts, and nobody can be asked about."""

    request: ExperimentRequest
    evals: tuple[EvalRequest, ...] = ()
    needs_memory: bool = False
    """True: it is created but not started if the GPUs lack memory for it, since somebody has to look then."""


class Started(Value):
    output_dir: str
    notes: tuple[str, ...] = ()
    """Sentences about what a person should know of it."""


def start_order(order: StartOrder, report: Callable[[str], None] = lambda _: None) -> Started:
    """Start a run in this process.

    Raises:
        UsageError: if it would lose more than was agreed to.
        ConfigError, ConflictError, RltuiError: as `start`.
    """
    notes: list[str] = []

    def agree(first: FirstStart) -> bool:
        if loss_of_plan(first.plan, first.request) > first.request.accepts:
            raise UsageError("not confirmed: no terminal to ask on", hint="to confirm, add --yes")
        bad = [verdict.text for verdict in first.plan.memory if verdict.is_bad]
        if order.needs_memory and bad:
            notes.extend(("the fork was created but not started", *bad))
            return False
        return True

    with configured(order.request) as run:
        first = start(run, agree, evals=order.evals, report=report)
    first.wire.close()
    created = first.created
    return Started(output_dir=created.record.output_dir, notes=(*created.notes, *notes))


def start_in_subprocess(order: StartOrder) -> Started:
    """Start a run by a program of its own.

    Raises:
        ConfigError, ConflictError, RltuiError: as `start_order`.
    """
    command = module_command("rltui.client", START)
    output = subprocesses.check_output(
        command, timeout_s=_TIMEOUT_S, stdin=order.to_json(), variables=actor().variables
    )
    answer: Any = result_of(json.loads(output))
    return Started.from_plain(answer)
