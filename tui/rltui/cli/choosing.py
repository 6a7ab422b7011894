"""Chooses what a command line means, or leaves open: the run, the framework of a config, devices."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rltui.base.text import join_words
from rltui.cli.colour import style
from rltui.cli.command import Arguments
from rltui.cli.output import collected_json, print_json
from rltui.client import launch
from rltui.core import hints
from rltui.errors import RltuiError, UsageError
from rltui.services.experiment.files import NAME_PATTERN, ExperimentRecord
from rltui.services.experiment.registry import experiment_above, find_experiment, known_experiments

if TYPE_CHECKING:
    from rltui.core.runs.row import RunRow
    from rltui.frameworks.base import Framework
    from rltui.services.runs.index import RunIndex


class Target(NamedTuple):
    """The run that a command line names, and components of it."""

    record: ExperimentRecord
    components: tuple[str, ...] = ()
    """Components that were named, each perhaps with an attempt: `trainer#2`. Empty: none was."""


def choose(arguments: Arguments, *, acts: bool = False) -> Target:
    """The run and components that the first argument and `-c` name.

    Without a name it is the run of the working folder, else the only one alive, else the newest. A command
    that `acts` does not choose among several living runs.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    targets = meant(arguments)
    if acts and len(targets) > 1:
        raise SeveralRunsError(targets, arguments)
    return targets[0]


def show_runs(arguments: Arguments, show: Callable[[Target], int | None]) -> int:
    """Show the run that is meant; where several live and none was named, all of them.

    Several have a heading each. As JSON they are one document, `{"runs": [{"experiment": name, …}, …]}`, with
    the document of each run; what is a list for one run is under `items` there.

    Returns:
        The first exit code that is not 0.
    """
    targets = meant(arguments)
    if len(targets) == 1:
        return show(targets[0]) or 0
    if getattr(arguments, "follow", False):
        raise SeveralRunsError(targets, arguments)
    codes, documents = [], []
    for number, target in enumerate(targets):
        name = target.record.name
        with collected_json(len(targets)) as collected:
            if not arguments.json:
                print(f"{'' if number == 0 else chr(10)}{style(name, 'head')}", flush=True)
            try:
                codes.append(show(target) or 0)
            except RltuiError as error:
                codes.append(int(error.exit_code))
                collected.append({"error": error.to_plain()})
                print(f"{name}: {error}", file=sys.stderr)
        documents += [
            {"experiment": name, **(document if isinstance(document, dict) else {"items": document})}
            for document in collected
        ]
    if arguments.json:
        print_json({"runs": documents})
    return next((code for code in codes if code), 0)


def choose_run(index: RunIndex, arguments: Arguments) -> RunRow:
    """The run of the index that the first argument names; without one, chosen as `choose` does for what acts.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    from rltui.services.runs.references import find_run

    if arguments.run is not None:
        return find_run(index, arguments.run)
    record = choose(arguments, acts=True).record
    return index.in_folder(record.output_dir) or find_run(index, record.name)


def choose_named(reference: str) -> Target:
    """The run, and perhaps the component, that a word names.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    run, component = _split(reference)
    return Target(_find(run), (component,) if component else ())


def names_run(word: str) -> bool:
    """True if the word is certainly a run: its name or id, a folder, `-1`, `@best`, or `RUN/COMPONENT`. A
    prefix is not enough: the word may mean something else.
    """
    run, slash, component = word.rpartition("/")
    if slash and component and not Path(word).expanduser().exists():
        return names_run(run)
    return _is_certain(word)


def separate_words(arguments: Arguments, dest: str, is_run: Callable[[str], bool] = names_run) -> None:
    """Put the first word back among the others (`dest`) unless it is a run: `metrics [RUN] [METRIC…]`."""
    if arguments.run is not None and not is_run(arguments.run):
        setattr(arguments, dest, [arguments.run, *getattr(arguments, dest)])
        arguments.run = None


def attempt_of(component: str) -> tuple[str, int | None]:
    """Split `trainer#2` into the component and its attempt.

    Raises:
        UsageError: for what is no number.
    """
    id_, sign, number = component.partition("#")
    if sign and not (number.isdecimal() and int(number)):
        raise UsageError(f"not an attempt: {component}", hint=f"{id_}#1 is the first attempt of {id_}")
    return id_, int(number) if sign else None


class SeveralRunsError(UsageError):
    """Several runs are alive, and the command must know which is meant."""

    def __init__(self, targets: Sequence[Target], arguments: Arguments) -> None:
        names = [target.record.name for target in targets]
        words = (*arguments.command_name.split(), names[0], *getattr(arguments, "typed_words", ()))
        super().__init__(
            f"{len(names)} runs are running: {join_words(names)}",
            hint=f"name one: {shlex.join(('rltui', *words))}",
        )


def ready_index(*, rebuild: bool = False) -> RunIndex:
    """The index of runs, up to date with their folders; what is new of those is told on stderr."""
    from rltui.cli.progress import working
    from rltui.services.runs.catalog import catch_up  # only what is about many runs needs it
    from rltui.services.runs.index import RunIndex

    index = RunIndex()
    with working("reading the folders of all runs" if rebuild else "updating the run list"):
        updates = catch_up(index, whole=rebuild)
    for sentence in updates.messages:
        print(sentence, file=sys.stderr)
    return index


def meant(arguments: Arguments) -> list[Target]:
    """The run that is named; else all that `show_runs` shows.

    Raises:
        UsageError: if there is none.
    """
    named = tuple(getattr(arguments, "component", None) or ())
    if arguments.run is None:
        records, note = _meant_without_name()
        if note:
            print(note, file=sys.stderr)
        return [Target(record, named) for record in records]
    run, component = _split(arguments.run)
    if component and not hasattr(arguments, "component"):
        if "/" in run:
            raise UsageError(f"run not found: {arguments.run}", hint="check the path")
        raise UsageError(
            f"{arguments.command_name} takes a run, not a component",
            hint=f"rltui {arguments.command_name} {run}",
        )
    try:
        record = _find(run)
    except UsageError as error:
        if not component and hasattr(arguments, "component"):
            _suggest_component(run, error, arguments)
        raise
    return [Target(record, (*((component,) if component else ()), *named))]


def _split(reference: str) -> tuple[str, str]:
    """The run and the component of `RUN/COMPONENT`; a folder that exists has none, unless it is also that."""
    run, slash, component = reference.rpartition("/")
    if not slash or not component or run in ("", ".", "..", "~"):
        return reference, ""
    is_folder = Path(reference).expanduser().exists()
    return (run, component) if not is_folder or ("/" not in run and _is_certain(run)) else (reference, "")


def _is_certain(word: str) -> bool:
    if NAME_PATTERN.fullmatch(word) and find_experiment(word) is not None:
        return True
    path = Path(word).expanduser()
    if ("/" in word or word == ".") and path.exists() and experiment_above(path.absolute()) is not None:
        return True
    from rltui.core.runs.row import BEST
    from rltui.services.runs.index import RunIndex  # sqlite: 20 ms
    from rltui.services.runs.references import find_exactly, rank_of

    try:
        return word == BEST or rank_of(word) is not None or find_exactly(RunIndex(), word) is not None
    except UsageError:  # several of that name
        return True
    except RltuiError:  # an index that cannot be used knows no run
        return False


def _find(reference: str) -> ExperimentRecord:
    """The experiment of that name, which needs no index; else that of the run that `reference` means."""
    broken: RltuiError | None = None
    try:
        if NAME_PATTERN.fullmatch(reference) and (record := find_experiment(reference)) is not None:
            return record
    except RltuiError as error:
        broken = error
    from rltui.services.runs.catalog import record_of
    from rltui.services.runs.references import find_run

    try:
        return record_of(find_run(ready_index(), reference))
    except UsageError:
        if broken is None:
            raise
        raise broken from None


def _meant_without_name() -> tuple[list[ExperimentRecord], str]:
    """The run of the working folder, else those alive, else the newest; and what to say of a guess.

    Raises:
        UsageError: if there is no run.
    """
    here = Path.cwd()
    if (record_here := experiment_above(here)) is not None:
        return [record_here], ""
    records = known_experiments()
    of_folder = [record for record in records if _is_of(record, here)]
    candidates = of_folder or records
    if not candidates:
        raise UsageError("no runs yet", hint=f"start one: {hints.UP}, or {hints.DEMO}")
    if len(candidates) == 1:
        return candidates, ""
    if alive := launch.running_experiments(candidates):
        return sorted(alive, key=lambda record: record.created_at, reverse=True), ""
    newest = max(candidates, key=lambda candidate: candidate.created_at)
    location = " of this folder" if of_folder else ""
    return [newest], f"{newest.name}: the newest of {len(candidates)} runs{location}; none is running"


def _is_of(record: ExperimentRecord, folder: Path) -> bool:
    """True if the experiment runs in `folder`, or has its config there."""
    configs = (Path(file).parent for file in record.config_files)
    return folder in (Path(record.workspace), *configs)


def _suggest_component(word: str, error: UsageError, arguments: Arguments) -> None:
    """Correct the error about a first word that names no run, if it is a component or looks like one."""
    from rltui.base.text import closest
    from rltui.services.experiment import layout_files  # pydantic takes 60 ms

    with suppress(RltuiError):
        ids = [
            spec.id for record in _meant_without_name()[0] for spec in layout_files.load_for(record).component
        ]
        id_, sign, attempt = word.partition("#")
        if id_ in ids:
            error.title = f"{word} is a component, not a run"
            error.hint = f"rltui {arguments.command_name} -c {word}"
        elif "did you mean" not in error.hint and (guess := closest(id_, ids)):
            error.hint = f"did you mean rltui {arguments.command_name} -c {guess}{sign}{attempt}?"


def choose_framework(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None,
    *,
    workspace: Path | None = None,
) -> str | None:
    """The framework that was named; `None` where the config tells by itself. Where several suit it: that of
    an experiment with the same files, else the newest, which is said in a line.

    Raises:
        ConfigError: as `checking.identify`.
    """
    from rltui.client import checking
    from rltui.frameworks import registry
    from rltui.frameworks.registry import AmbiguousConfigError

    try:
        checking.identify(config_files, layout, framework, workspace=workspace)
    except AmbiguousConfigError as error:
        if (framework_before := _before(config_files, error.candidates)) is not None:
            return framework_before
        newest, *older = error.candidates
        names = " and ".join(path.name for path in config_files)
        print(
            f"{names}: taken as {registry.get(newest).title}, the newest framework that fits; for another: "
            f"--framework {' or '.join(older)}",
            file=sys.stderr,
        )
        return newest
    return framework


class FrameworkChooser:
    """The framework of config files; which of several was chosen is told once."""

    def __init__(self, arguments: Arguments, workspace: Path | None = None) -> None:
        self._layout, self._framework = arguments.layout, arguments.framework
        self._workspace = workspace

    def id_of(self, files: tuple[Path, ...]) -> str | None:
        framework = choose_framework(files, self._layout, self._framework, workspace=self._workspace)
        self._framework = framework
        return framework

    def __call__(self, files: tuple[Path, ...]) -> Framework:
        from rltui.client import checking

        return checking.identify(files, self._layout, self.id_of(files), workspace=self._workspace)[0]


def choose_devices(arguments: Arguments) -> str | None:
    """Devices that `--devices` or `--single-gpu` name; `None` where neither is given.

    Raises:
        UsageError: if there are no such devices.
    """
    if arguments.devices is None and not arguments.single_gpu:
        return None
    from rltui.client.gpu import named_devices, roomiest_device  # reads the GPUs

    if arguments.devices is not None:
        return named_devices(arguments.devices)
    device, message = roomiest_device()
    print(message, file=sys.stderr)
    return device


def _before(config_files: tuple[Path, ...], candidates: Sequence[str]) -> str | None:
    """The framework of an experiment with the same files."""
    from rltui.services.config.origins import original_files

    originals = set(original_files(config_files))
    for record in known_experiments():
        if originals == set(original_files(record.config_paths)) and record.framework in candidates:
            return record.framework
    return None
