"""Edits of the config files, with or without a supervisor: plan, consent, write."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from rltui.base.text import duration
from rltui.cli.choosing import choose_framework
from rltui.cli.colour import style
from rltui.cli.command import Arguments
from rltui.cli.consent import require_plan_consent, require_right
from rltui.cli.output import print_json
from rltui.cli.terminal import is_quiet
from rltui.cli.waiting import (
    request_plan,
    should_wait,
    styled_plan_text,
    tell_way_forward,
    wait_and_report,
)
from rltui.client import launch
from rltui.core import hints
from rltui.errors import UsageError
from rltui.services.actor import actor
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import name_if_needed

if TYPE_CHECKING:
    from rltui.core.config.report import Problem
    from rltui.core.experiment.api import Plan, Request
    from rltui.services.config.proposal import Proposal


def edit_request(
    action: Literal["set", "undo", "redo"],
    arguments: Arguments,
    *,
    edits: Mapping[str, object] | None = None,
    force: bool = False,
) -> Request:
    from rltui.core.experiment.api import Request

    if arguments.begin is not None and not arguments.restart:
        raise UsageError("--from needs --restart", hint="add --restart, or leave --from out")
    return Request(
        action=action,
        edits=dict(edits or {}),
        force=force,
        restart=arguments.restart,
        unasked=getattr(arguments, "plan", False),
    )


def edit_experiment(record: ExperimentRecord, request: Request, arguments: Arguments) -> int:
    """Edit the config of an experiment. Without a supervisor the files are edited all the same, with the
    same history; one is started only for an edit with a restart.
    """
    from rltui.client.reader import ExperimentReader

    if arguments.begin is not None:
        step = ExperimentReader(record).checkpoint_step(arguments.begin)
        request = request.replace(resume_step=step)
    # An agent's edit needs one who knows its rights, and keeps it for a person.
    needs_supervisor = (request.restart or actor().is_agent) and not arguments.plan
    wire = launch.connect_or_start(record) if needs_supervisor else launch.connect(record)
    if wire is None:
        with closing(_Offline(record)) as experiment:
            execute_edit(experiment.request_plan, request, arguments, name_if_needed(record.name))
            return 0
    with wire:
        plan = execute_edit(partial(request_plan, wire), request, arguments, name_if_needed(record.name))
        restarted_ids = {*plan.stop, *plan.start} if request.restart else set()
        if not arguments.plan:
            tell_way_forward(plan, record.name)
        if restarted_ids and not arguments.plan and should_wait(arguments):
            started_at = time.monotonic()
            wait_and_report(wire, restarted_ids, arguments, plan)
            print(f"ready {duration(time.monotonic() - started_at)} after the edit", file=sys.stderr)
    return 0


class _Offline:
    """An experiment of which nothing is alive: only its files change, nothing is restarted."""

    def __init__(self, record: ExperimentRecord) -> None:
        from rltui.client.reader import ExperimentReader
        from rltui.frameworks import registry
        from rltui.services.config.models import FrameworkModels
        from rltui.services.runs.observed import refuse_observed

        refuse_observed(record)
        self._record = record
        self._document = ExperimentReader(record).document_to_edit()
        self._models = FrameworkModels(registry.get(record.framework), Path(record.workspace))

    def request_plan(self, method: Literal["plan", "execute"], request: Request) -> Plan:
        from rltui.services.config.readers import shared_configs

        document = self._document
        proposal = document.proposed(request)
        if proposal.blocked and not request.unasked and self._models.accepts(proposal.after):
            document.accept(proposal.after)
            proposal = document.proposed(request)
        plan = _plan_of(proposal, base=document.base(), more=shared_configs(proposal.paths, self._record))
        if method == "execute":
            document.commit(proposal)
        return plan

    def close(self) -> None:
        self._models.close()


class FileEdits:
    """Config files of no experiment in particular: nothing is restarted, and nobody could undo it."""

    def __init__(self, files: tuple[Path, ...], framework: str | None) -> None:
        from rltui.client import checking
        from rltui.services.config.document import ConfigDocument

        self.framework, _ = checking.identify(files, None, choose_framework(files, None, framework))
        self._document = ConfigDocument(files, self.framework)
        self.files = self._document.load()

    def request_plan(self, method: Literal["plan", "execute"], request: Request) -> Plan:
        proposal = self._document.proposed(request)
        if method == "execute":
            require_right("set")
            self._document.commit(proposal)
        return _plan_of(proposal)


class FileTakeBack:
    """An undo or redo in a file of no experiment in particular."""

    def __init__(self, path: Path, action: Literal["undo", "redo"]) -> None:
        from rltui.services.config.file_history import FileUndo

        self._undo = FileUndo(path, action)
        self._action = action

    def request_plan(self, method: Literal["plan", "execute"], _: Request) -> Plan:
        from rltui.core.experiment.api import Plan

        change, record = self._undo.change, self._undo.record
        if method == "execute":
            require_right(self._action)
            self._undo.commit()
        return Plan(action=self._action, diff=change.diff(), written=(f"{change.path.name}: {record.words}",))


def _plan_of(
    proposal: Proposal, *, base: Mapping[str, str] = MappingProxyType({}), more: tuple[Problem, ...] = ()
) -> Plan:
    """The plan of an edit that restarts nothing. `more`: problems besides its own."""
    from rltui.core.experiment.api import Plan

    return Plan(
        action=proposal.action,
        diff=proposal.diff,
        base=dict(base),
        problems=(*proposal.problems, *more),
        derived=proposal.derived,
        written=proposal.written,
        reasons=proposal.reasons,
        conflicts=proposal.conflicts,
    )


def execute_edit(
    request_plan: Callable[[Literal["plan", "execute"], Request], Plan],
    request: Request,
    arguments: Arguments,
    name: str | None = None,
) -> Plan:
    """Plan an edit, show it, and make it once it is agreed to."""
    from rltui.core.experiment.refusal import refuse_errors, refuse_undo

    plan = request_plan("plan", request)
    more = "; without --plan, the framework's own validators decide" if request.unasked else ""
    refuse_errors(plan.problems, hint=f"nothing was written{more}")
    refuse_undo(plan.conflicts)
    if not arguments.plan:
        request_with_consent = require_plan_consent(plan, request, arguments, text=styled_plan_text(plan))
        plan = request_plan("execute", request_with_consent.replace(base=plan.base))
    moves = request.restart and not arguments.plan and bool(plan.start or plan.stop)
    if not arguments.json:
        text = "".join(f"{line}\n" for line in plan.written) if is_quiet() and not arguments.plan else ""
        sys.stdout.write(text or styled_plan_text(plan) or "nothing to change\n")
    elif not (moves and should_wait(arguments)):  # else the outcome has it
        print_json(plan)
    if plan.diff:
        for line in _outcome_lines(plan, request, plan_only=arguments.plan, name=name):
            print(line, file=sys.stderr)
    return plan


def _outcome_lines(plan: Plan, request: Request, *, plan_only: bool, name: str | None) -> Iterator[str]:
    """Say what was done: the plan looks the same before and after."""
    if plan_only:
        yield "nothing was written (--plan)"
        return
    yield from (f"{style('written', 'good')}: {line}" for line in plan.written)
    if request.restart and (restarted_ids := dict.fromkeys((*plan.start, *plan.stop))):
        yield f"restarting {', '.join(restarted_ids)}; see: {hints.STATUS(name=name)}"
    elif plan.start:
        yield f"to take effect: {hints.APPLY(components=plan.start, name=name)}"
