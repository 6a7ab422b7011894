"""`set`, `undo`, `redo`, `convert`: edits of the config files, with or without a supervisor."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Literal

from rltui.cli.arguments import tokens
from rltui.cli.choosing import choose_experiment
from rltui.cli.colour import paint
from rltui.cli.config import chosen_framework
from rltui.cli.consent import accepted, require_consent
from rltui.cli.progress import working
from rltui.cli.terminal import ask
from rltui.cli.waiting import is_awaited, outcome, painted, plan_of
from rltui.client import checking, launch, offline
from rltui.client.actor import actor
from rltui.core import hints
from rltui.core.api import Plan, Request
from rltui.core.batch import Way
from rltui.core.config_data import deep_leaves
from rltui.core.config_report import Conversion
from rltui.core.knobs import split_assignments
from rltui.core.text import duration, whole_number
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFiles
from rltui.services.config.editor import shared_configs
from rltui.services.config.files import named
from rltui.services.config.models import FrameworkModels
from rltui.services.config.store import ConfigStore
from rltui.services.runs import weights
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.experiments import known_experiments, name_if_needed
from rltui.services.runs.observed import refuse_observed

_NAMES_MODEL = re.compile(r"^model$|(^|\.)model\.name$|\.vllm\.model$")
"""Keys that name the model which a run begins with."""
_Ask = Callable[[Literal["plan", "execute"], Request], Plan]
"""Plans an edit, or makes it."""


def set_knobs(arguments: argparse.Namespace) -> int:
    """Edit knobs, all in one write: of an experiment, or of files that need never have run."""
    files = [text for text in arguments.edit if text.endswith(".toml") and "=" not in text]
    assignments = [text for text in arguments.edit if text not in files]
    edits: dict[str, str | None] = {**split_assignments(assignments)}
    for key in arguments.unset:
        if key in edits:
            raise UsageError(f"{key} is both set and unset", hint="give each knob once")
        edits[key] = None
    if not edits:
        raise UsageError("nothing to set", hint=f"{hints.SET}, or --unset KEY")
    request = _request("set", arguments, edits=edits, force=arguments.force)
    if not files:
        return _edit(choose_experiment(arguments.name, acts=True), request, arguments)
    if arguments.name is not None or arguments.restart:
        raise UsageError("files need no experiment", hint="leave out -n NAME and --restart, or the files")
    asked = _OfFiles(named([Path(name) for name in files]), arguments.framework)
    _carry_out(asked.ask, request, arguments)
    return 0


def undo(arguments: argparse.Namespace) -> int:
    return _edit(choose_experiment(arguments.name, acts=True), _request("undo", arguments), arguments)


def redo(arguments: argparse.Namespace) -> int:
    return _edit(choose_experiment(arguments.name, acts=True), _request("redo", arguments), arguments)


def use_checkpoint(arguments: argparse.Namespace) -> int:
    """Make what was trained the model of a config, such as the result of SFT that of RL."""
    if (step := whole_number(arguments.target)) is not None:
        source = choose_experiment(arguments.name, acts=True)
        with working(f"making weights of checkpoint {step} that other programs can load"):
            folder = weights.of_step(source, step, only_look=arguments.dry_run)
    else:
        folder = weights.whole(Path(arguments.target).expanduser())
    if arguments.config is None:
        record = choose_experiment(arguments.name, acts=True)
        edits = _of_model(offline.open_store(record).load(), folder, called=record.name)
        return _edit(record, _request("set", arguments, edits=edits), arguments)
    files = named([Path(arguments.config)])
    asked = _OfFiles(files, arguments.framework)
    request = _request("set", arguments, edits=_of_model(asked.files, folder, called=arguments.config))
    readers = [each for each in known_experiments() if set(map(str, files)) <= set(each.config_files)]
    if readers:  # whose history knows it then: it can be undone
        return _edit(max(readers, key=lambda each: each.created_at), request, arguments)
    if arguments.restart:
        raise UsageError(f"no experiment reads {arguments.config}", hint="leave out --restart")
    _carry_out(asked.ask, request, arguments)
    return 0


def _of_model(files: ConfigFiles, folder: Path, *, called: str) -> dict[str, str]:
    """What makes the folder the model: every key that has named the same one.

    Raises:
        ConfigError: if the config is of a run that makes models, rather than one that begins with this.
    """
    if set(files) == {"sft"}:
        raise ConfigError(
            f"{called} is the config of SFT, which would begin with its own result",
            hint=f"name the config that is to begin with it: {hints.USE_CHECKPOINT}",
        )
    found = {
        (f"{role}.{key}" if len(files) > 1 and role not in ("rl", "sft") else key): value
        for role, file in files.items()
        for key, value in deep_leaves(file.data).items()
        if role != "sft" and _NAMES_MODEL.search(key) and isinstance(value, str)
    }
    first = next(iter(found.values()), None)
    return {key: str(folder) for key, value in found.items() if value == first} or {"model.name": str(folder)}


def _request(
    action: Literal["set", "undo", "redo"],
    arguments: argparse.Namespace,
    *,
    edits: Mapping[str, object] | None = None,
    force: bool = False,
) -> Request:
    if arguments.begin is not None and not arguments.restart:
        raise UsageError("--from says where a restart goes on from", hint="add --restart, or leave it out")
    return Request(
        action=action,
        edits=dict(edits or {}),
        force=force,
        restart=arguments.restart,
        unasked=getattr(arguments, "dry_run", False),
        by=actor(),
    )


def _edit(record: ExperimentRecord, request: Request, arguments: argparse.Namespace) -> int:
    """Without a supervisor the files are edited all the same, with the same history; one is started only for
    an edit with a restart.
    """
    if arguments.begin is not None:
        begin = offline.checkpoint_step(record, arguments.begin)
        request = request.model_copy(update={"resume_step": begin})
    wire = launch.reach(record) if request.restart and not arguments.dry_run else launch.connect(record)
    if wire is None:
        with closing(_Offline(record)) as experiment:
            _carry_out(experiment.ask, request, arguments, name_if_needed(record.name))
            return 0
    with wire:
        plan = _carry_out(partial(plan_of, wire), request, arguments, name_if_needed(record.name))
        moved = {*plan.stop, *plan.start} if request.restart else set()
        if moved and not arguments.dry_run and is_awaited(arguments):
            begun = time.monotonic()
            outcome(wire, moved, arguments, plan)
            print(f"ready {duration(time.monotonic() - begun)} after the edit", file=sys.stderr)
    return 0


class _Offline:
    """An experiment of which nothing is alive: only its files change, nothing is restarted."""

    def __init__(self, record: ExperimentRecord) -> None:
        refuse_observed(record)
        self._record = record
        self._store = offline.open_store(record)
        self._editor = offline.offline_editor(record, self._store)
        self._models = FrameworkModels(registry.get(record.framework), Path(record.workspace))

    def ask(self, method: Literal["plan", "execute"], request: Request) -> Plan:
        preview = self._editor.preview(request)
        if preview.blocked and not request.unasked and self._models.accepts(preview.after):
            self._store.accept(preview.after)
            preview = self._editor.preview(request)
        plan = Plan(
            action=request.action,
            diff=preview.diff,
            base=self._store.base(),
            problems=(*preview.problems, *shared_configs(preview.paths, self._record)),
            derived=preview.derived,
            written=preview.written,
            reasons=preview.reasons,
            conflicts=preview.conflicts,
        )
        if method == "execute":
            self._editor.apply(request, preview)
        return plan

    def close(self) -> None:
        self._models.close()


class _OfFiles:
    """Config files of no experiment in particular: nothing is restarted, and nobody could undo it."""

    def __init__(self, files: tuple[Path, ...], framework: str | None) -> None:
        chosen, _ = checking.identify(files, None, chosen_framework(files, None, framework))
        self._store = ConfigStore(list(files), chosen)
        self.files = self._store.load()

    def ask(self, method: Literal["plan", "execute"], request: Request) -> Plan:
        preview = self._store.preview(request.edits, force=request.force)
        if method == "execute":
            self._store.apply(preview)
        return Plan(
            action="set",
            diff=preview.diff,
            problems=preview.problems,
            derived=preview.derived,
            written=preview.written,
        )


def _carry_out(ask: _Ask, request: Request, arguments: argparse.Namespace, name: str | None = None) -> Plan:
    plan = ask("plan", request)
    _refuse(plan, request)
    if not arguments.dry_run:
        agreed = accepted(plan, request, arguments, shown=painted(plan))
        plan = ask("execute", agreed.model_copy(update={"base": plan.base}))
    moves = request.restart and not arguments.dry_run and bool(plan.start or plan.stop)
    if not arguments.json:
        sys.stdout.write(painted(plan) or "nothing changes\n")
    elif not (moves and is_awaited(arguments)):  # else the outcome has it
        print(plan.model_dump_json())
    if plan.diff:
        for line in _outcome(plan, request, dry_run=arguments.dry_run, name=name):
            print(line, file=sys.stderr)
    return plan


def _outcome(plan: Plan, request: Request, *, dry_run: bool, name: str | None) -> Iterator[str]:
    """Say what was done: the plan looks the same before and after."""
    if dry_run:
        yield "nothing was written: --dry-run"
        return
    yield from (f"{paint('written', 'good')}: {line}" for line in plan.written)
    if request.restart and (moved := dict.fromkeys((*plan.start, *plan.stop))):
        yield f"restarting {', '.join(moved)}; see: {hints.STATUS(name=name)}"
    elif plan.start:
        yield f"to take effect: {hints.APPLY(components=plan.start, name=name)}"


def _refuse(plan: Plan, request: Request) -> None:
    """Stop here where it must not be written; `execute` would say the same.

    Raises:
        ConfigError: if the result breaks a rule.
        ConflictError: if an undo does not fit onto what the files hold now.
    """
    errors = [problem.text for problem in plan.problems if problem.severity == "error"]
    if errors:
        more = "; the framework's own classes, which may take it, are asked without --dry-run"
        hint = f"nothing was written{more if request.unasked else ''}"
        raise ConfigError(errors[0], details=errors[1:], hint=hint)
    if plan.conflicts:
        keys = [key.key for conflict in plan.conflicts for key in conflict.keys]
        raise ConflictError(
            f"{' and '.join(conflict.file for conflict in plan.conflicts)} changed since then",
            details=[f"other values by now: {', '.join(keys)}"],
            hint="nothing was written; set the keys by hand",
        )


def convert(arguments: argparse.Namespace) -> int:
    if arguments.to is not None:
        return _write_for(arguments)
    if arguments.what not in (None, "tokens", "rollouts") or arguments.output is not None:
        raise UsageError(
            f"convert takes tokens or rollouts, not {arguments.what or '--output'}",
            hint=f"a config for another framework: {hints.CONVERT_FILE}",
        )
    record = choose_experiment(arguments.name, acts=True)
    found = _conversion(record, arguments.what, arguments.mean_tokens)
    if found.mean_tokens is None:
        found = _conversion(record, found.to, _asked_mean(found))
    request = _request("set", arguments, edits=found.edits)
    as_json, arguments.json = arguments.json, False
    if not as_json:
        mean = f"a rollout has {found.mean_tokens:g} tokens, {found.measured or 'as you say'}"
        print("\n".join((mean, *found.arithmetic)))
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        code = _edit(record, request, arguments)
    if as_json:
        print(found.model_dump_json())
    return code


def _write_for(arguments: argparse.Namespace) -> int:
    """A config for another framework: the diff and what has no counterpart, then the new file.

    Raises:
        UsageError: if there is no file to convert.
        ConflictError: if the new file is there already.
    """
    if arguments.what is None or arguments.mean_tokens is not None or arguments.restart:
        raise UsageError("convert --to needs a config file alone", hint=str(hints.CONVERT_FILE))
    (path,) = named([Path(arguments.what)])
    found = checking.converted(path, arguments.to, Path(arguments.output) if arguments.output else None)
    if arguments.json:
        print(found.model_dump_json())
    else:
        print(found.diff, end="")
        for note in found.notes:
            print(f"note: {note}", file=sys.stderr)
        for problem in found.problems:
            print(f"{problem.severity}: {problem.text}", file=sys.stderr)
    new = Path(found.path)
    if arguments.dry_run:
        return 0 if found.valid else int(ConfigError.exit_code)
    if not found.valid:
        raise ConfigError("what came out is not valid, so nothing was written", hint="see the problems above")
    require_consent("convert", arguments, f"write {new}?")
    _write_new(new, found.text)
    print(f"written: {new}", file=sys.stderr)
    return 0


def _write_new(path: Path, text: str) -> None:
    """Raises ConflictError if it is there already, and ConfigError if it cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConflictError(f"{path} is there already", hint="name another file with --output") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _conversion(record: ExperimentRecord, to: Way | None, mean_tokens: float | None) -> Conversion:
    wire = launch.connect(record)
    if wire is None:
        return offline.offline_conversion(record, to, mean_tokens)
    with wire:
        answer = wire.call("convert", {"to": to, "mean_tokens": mean_tokens})
        return Conversion.model_validate(answer)


def _asked_mean(found: Conversion) -> float:
    """What a person answers.

    Raises:
        ConfigError: if there is nobody to ask, or the answer is no number above 0.
    """
    if not sys.stdin.isatty():
        raise ConfigError(
            "this run has not measured the tokens of a rollout",
            hint=f"say it: {hints.CONVERT_MEAN(way=found.to)}, prompt and completion together",
        )
    try:
        return tokens(ask("tokens of a mean rollout, prompt and completion together?"))
    except argparse.ArgumentTypeError as error:
        raise ConfigError(str(error), hint="nothing was converted") from error
