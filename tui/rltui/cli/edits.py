"""`set`, `undo`, `redo`: edits of the config files, with or without a supervisor."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

from rltui.cli.choosing import chosen_framework
from rltui.cli.terminal import confirm
from rltui.client import creation, launch, offline
from rltui.client.wire import Wire
from rltui.core.api import Plan, Request
from rltui.core.knobs import split_assignment
from rltui.daemon.journal import Journal
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.frameworks import registry
from rltui.services.config_editor import ConfigEditor
from rltui.services.config_files import named
from rltui.services.config_store import ConfigStore
from rltui.services.models import OwnModels
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.observed import refuse_observed
from rltui.services.shared_configs import shared_configs
from rltui.wording import plan_text


def set_knobs(arguments: argparse.Namespace) -> int:
    """Edit knobs, all in one write: of an experiment, or of files that need never have run."""
    files = [text for text in arguments.edit if text.endswith(".toml") and "=" not in text]
    assignments = [text for text in arguments.edit if text not in files]
    edits: dict[str, str | None] = dict(map(split_assignment, assignments))
    for key in arguments.unset:
        if key in edits:
            raise UsageError(f"{key} is both set and unset", hint="give each knob once")
        edits[key] = None
    if not edits:
        raise UsageError("nothing to set", hint="rltui set KEY=VALUE…, or --unset KEY")
    request = Request(action="set", edits=edits, restart=arguments.restart, force=arguments.force)
    if not files:
        return _run(request, arguments)
    if arguments.name is not None or arguments.restart:
        raise UsageError("files need no experiment", hint="leave out -n NAME and --restart, or the files")
    asked = _OfFiles(named([Path(name) for name in files]), arguments.framework)
    return _carry_out(asked, request, dry_run=arguments.dry_run, as_json=arguments.json, yes=arguments.yes)


def undo(arguments: argparse.Namespace) -> int:
    """Take back the newest edit."""
    return _run(Request(action="undo", restart=arguments.restart), arguments)


def redo(arguments: argparse.Namespace) -> int:
    """Make the edit again that was undone last."""
    return _run(Request(action="redo", restart=arguments.restart), arguments)


def _run(request: Request, arguments: argparse.Namespace) -> int:
    record = launch.choose(arguments.name)
    return carry_out(record, request, dry_run=arguments.dry_run, as_json=arguments.json, yes=arguments.yes)


def carry_out(record: ExperimentRecord, request: Request, *, dry_run: bool, as_json: bool, yes: bool) -> int:
    """Plan an edit, ask where there is something to ask and somebody to answer, write it and print the plan.

    Without a supervisor the files are edited all the same, with the same history. One is started only for an
    edit with a restart.
    """
    wire = launch.reach(record) if request.restart and not dry_run else launch.connect(record)
    if wire is None:
        with closing(_Offline(record)) as experiment:
            return _carry_out(experiment, request, dry_run=dry_run, as_json=as_json, yes=yes)
    with wire:
        return _carry_out(_Live(wire), request, dry_run=dry_run, as_json=as_json, yes=yes)


def offline_editor(record: ExperimentRecord, store: ConfigStore) -> ConfigEditor:
    """Edits the files of `store`, and tells the journal itself: there is no supervisor that would. An edit
    that a killed one had begun is settled.
    """
    control = ControlFolder(Path(record.output_dir))
    journal = Journal(control.journal_file, clock=time.time, listener=lambda _: None)
    editor = ConfigEditor(store, control, journal)
    editor.settle()
    return editor


class _Live:
    """An experiment with a supervisor."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def ask(self, method: Literal["plan", "execute"], request: Request) -> Plan:
        return Plan.model_validate(self._wire.call(method, request.model_dump(mode="json")))


class _Offline:
    """An experiment of which nothing is alive: only its files change, nothing is restarted."""

    def __init__(self, record: ExperimentRecord) -> None:
        refuse_observed(record)
        self._record = record
        self._store = offline.open_store(record)
        self._editor = offline_editor(record, self._store)
        self._own = OwnModels(registry.get(record.framework), Path(record.workspace))

    def ask(self, method: Literal["plan", "execute"], request: Request) -> Plan:
        preview = self._editor.preview(request)
        if preview.blocked and self._own.accepts(preview.after):
            self._store.accept(preview.after)
            preview = self._editor.preview(request)
        plan = Plan(
            action=request.action,
            diff=preview.diff,
            base=self._store.base(),
            problems=(*preview.problems, *shared_configs(preview.paths, self._record)),
            derived=preview.derived,
            conflicts=preview.conflicts,
        )
        if method == "execute":
            self._editor.apply(request, preview)
        return plan

    def close(self) -> None:
        """Nothing more is asked."""
        self._own.close()


class _OfFiles:
    """Config files of no experiment in particular: nothing is restarted, and nobody could undo it."""

    def __init__(self, files: tuple[Path, ...], framework: str | None) -> None:
        chosen, _ = creation.identify(files, None, chosen_framework(files, None, framework))
        self._store = ConfigStore(list(files), chosen)

    def ask(self, method: Literal["plan", "execute"], request: Request) -> Plan:
        preview = self._store.preview(request.edits, force=request.force)
        if method == "execute":
            self._store.apply(preview)
        return Plan(action="set", diff=preview.diff, problems=preview.problems, derived=preview.derived)


def _carry_out(
    experiment: _Live | _Offline | _OfFiles, request: Request, *, dry_run: bool, as_json: bool, yes: bool
) -> int:
    plan = experiment.ask("plan", request)
    _refuse(plan)
    if not dry_run:
        if not yes and _is_doubtful(plan, request) and not _agreed(plan):
            print("nothing was done", file=sys.stderr)
            return 1
        plan = experiment.ask("execute", request.model_copy(update={"base": plan.base}))
    if as_json:
        print(plan.model_dump_json())
    else:
        sys.stdout.write(plan_text(plan) or "nothing changes\n")
    if plan.diff:
        print(_outcome(plan, request, dry_run=dry_run), file=sys.stderr)
    return 0


def _outcome(plan: Plan, request: Request, *, dry_run: bool) -> str:
    """What was done, since the plan looks the same before and after."""
    if dry_run:
        return "nothing was written: --dry-run"
    moved = ", ".join(dict.fromkeys((*plan.start, *plan.stop)))
    if not moved:
        return "written"
    if request.restart:
        return f"written; restarting {moved}, see: rltui status"
    return f"written; to take effect: rltui restart {' '.join(plan.start)}"


def _is_doubtful(plan: Plan, request: Request) -> bool:
    """A person should see it first: it stops something, or a rule warns."""
    moves = request.restart and bool(plan.stop or plan.start)
    return moves or any(problem.severity == "warning" for problem in plan.problems)


def _agreed(plan: Plan) -> bool:
    if sys.stdin.isatty():
        sys.stderr.write(plan_text(plan))
    return confirm("go on?")


def _refuse(plan: Plan) -> None:
    """Stop here where it must not be written; `execute` would say the same.

    Raises:
        ConfigError: if the result breaks a rule.
        ConflictError: if an undo does not fit onto what the files hold now.
    """
    errors = [problem.text for problem in plan.problems if problem.severity == "error"]
    if errors:
        raise ConfigError(errors[0], details=errors[1:], hint="nothing was written")
    if plan.conflicts:
        keys = [key.key for conflict in plan.conflicts for key in conflict.keys]
        raise ConflictError(
            f"{' and '.join(conflict.file for conflict in plan.conflicts)} changed since then",
            details=[f"other values by now: {', '.join(keys)}"],
            hint="nothing was written; set the keys by hand",
        )
