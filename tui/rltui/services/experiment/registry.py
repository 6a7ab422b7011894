"""The user's list of experiments, and the sockets of their supervisors."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui import paths
from rltui.base.text import numbered
from rltui.core.hints import Hint
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.experiment.files import (
    NAME_PATTERN,
    ControlFolder,
    ExperimentRecord,
    copy_on_list,
    list_dir,
    same_folder,
    with_new_location,
)
from rltui.services.experiment.known_records import KnownRecords, file_mark
from rltui.services.own_files import entry_names, is_text, read_own, write_atomically

_SOCKET_NAME = re.compile(r"(.+)-[0-9a-f]{8}\.sock")
_MANY = 100
"""Length of a list from which on it is worth opening the index for what was read before."""
_GENERIC_STEMS = frozenset({"rl", "sft"})
"""File names that say nothing about their content."""


@dataclass(frozen=True, slots=True)
class BrokenExperiment:
    """It is on the user's list and cannot be read."""

    name: str
    output_dir: str | None
    problem: RltuiError


def listed_experiments() -> list[ExperimentRecord | BrokenExperiment]:
    """The user's list without experiments whose folder belongs to another by now: broken ones, then the
    newest first.
    """
    names = sorted(filter(NAME_PATTERN.fullmatch, entry_names(list_dir())))
    is_running = _running_check()
    if len(names) < _MANY:
        entries = [_read_listed(name, is_running) for name in names]
    else:
        known = KnownRecords.of_user()
        entries = [known.record(name) or _read_listed(name, is_running, known) for name in names]
        known.save(names)
    broken = [experiment for experiment in entries if isinstance(experiment, BrokenExperiment)]
    records = [experiment for experiment in entries if isinstance(experiment, ExperimentRecord)]
    return [*broken, *sorted(records, key=lambda record: record.created_at, reverse=True)]


def known_experiments() -> list[ExperimentRecord]:
    """Those on the user's list whose record can be read, newest first."""
    return [entry for entry in listed_experiments() if isinstance(entry, ExperimentRecord)]


def name_if_needed(name: str) -> str | None:
    """`name` for a command in a message; `None` if it is the only one on the list that is still there."""
    return name if any(other != name and _is_there(other) for other in entry_names(list_dir())) else None


def _is_there(name: str) -> bool:
    """True if an experiment is in the folder of this entry of the list, or the entry is damaged."""
    try:
        return copy_on_list(read_own(list_dir() / name)).control.record_file.exists()
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def run_command(hint: Hint, name: str, **values: object) -> str:
    """The command of `hint` for the run `name`, which it names only if it must."""
    return hint(name=name_if_needed(name), **values)


def find_experiment(name: str) -> ExperimentRecord | None:
    """The experiment of that name, if it is on the list and its folder is still its own.

    Raises:
        RltuiError: if it is listed, and cannot be read.
    """
    entry = _read_listed(name, _running_check()) if NAME_PATTERN.fullmatch(name) else None
    if isinstance(entry, BrokenExperiment):
        raise entry.problem
    return entry


def experiment_at(folder: Path) -> ExperimentRecord | None:
    """The one on the user's list with this output folder."""
    record = ControlFolder(folder).read_record()
    listed = find_experiment(record.name) if record is not None else None
    return listed if listed is not None and same_folder(listed.output_dir, str(folder)) else None


def experiment_above(folder: Path) -> ExperimentRecord | None:
    """The one whose output folder is `folder` or the nearest folder above it, on the list or not."""
    for parent in (folder, *folder.parents):
        if (control := ControlFolder(parent)).record_file.exists():
            with contextlib.suppress(RltuiError):  # a damaged record says nothing
                record = control.read_record()
                if record is None or same_folder(record.output_dir, str(parent)):
                    return record
                return with_new_location(record, parent)
    return None


def _read_listed(
    name: str, is_running: Callable[[str], bool], known: KnownRecords | None = None
) -> ExperimentRecord | BrokenExperiment | None:
    """Combine the list and the folder. Where they agree, `known` gets to know.

    The copy on the list replaces a damaged record; a deleted one only while something of the experiment
    lives, since people forget an experiment by deleting its folder.
    """
    list_entry, output_dir = list_dir() / name, None
    try:
        entry_mark = file_mark(list_entry)
        content = read_own(list_entry)
        copy = copy_on_list(content)
        record: ExperimentRecord | None = copy
        output_dir = copy.output_dir
        own_mark = file_mark(copy.control.record_file)
        with contextlib.suppress(ConfigError):  # a damaged one: the copy counts
            if copy.control.holds(content):
                if known is not None:
                    known.add(name, content, entry_mark, own_mark)
            else:
                record = copy.control.read_record()
    except FileNotFoundError:
        return None
    except RltuiError as error:
        return BrokenExperiment(name, output_dir, error)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problem = ConfigError(f"cannot read {list_entry}: {reason}")
        return _indexed(name) or BrokenExperiment(name, output_dir, problem)
    if record is None and is_running(output_dir):
        record = copy
    return record if record is not None and record.name == name else None


def _indexed(name: str) -> ExperimentRecord | BrokenExperiment | None:
    """The experiment in the folder that the index of runs has for the name; `None` if there is none."""
    from rltui.services.runs.index import BRIEF_TIMEOUT_S, RunIndex  # sqlite: only where the list is damaged

    with contextlib.suppress(RltuiError):
        for row in RunIndex(timeout_s=BRIEF_TIMEOUT_S).named(name):
            control = ControlFolder(Path(row.control).parent)
            try:
                record = control.read_record()
            except ConfigError as error:
                return BrokenExperiment(name, row.folder, error)
            if record is not None and record.name == name and row.trashed_at is None:
                return record
    return None


def _running_check() -> Callable[[str], bool]:
    """A function that tells whether an experiment in a folder runs. Reads the processes on first use."""

    @functools.cache
    def folders() -> frozenset[str]:
        from rltui.services.processes import living_output_dirs  # not needed where all is in place

        return living_output_dirs()

    return lambda output_dir: output_dir in folders()


def forget(record: ExperimentRecord) -> None:
    """Remove an experiment from the user's list, if it is there with this folder. Its files stay."""
    _remove_from_list(record.name, record.output_dir)


def forget_gone(name: str, output_dir: str) -> None:
    """As `forget`, unless an experiment is in the folder."""
    with contextlib.suppress(OSError, ValueError):  # damaged: that is said wherever the list is shown
        if not ControlFolder(Path(output_dir)).record_file.exists():
            _remove_from_list(name, output_dir)


def _remove_from_list(name: str, output_dir: str) -> None:
    list_entry = list_dir() / name
    with contextlib.suppress(FileNotFoundError):
        if same_folder(copy_on_list(read_own(list_entry)).output_dir, output_dir):
            list_entry.unlink()


def check_new_record(record: ExperimentRecord) -> None:
    """Check the record of an experiment before it is made.

    Raises:
        ConfigError: as `check_name`; for a path that no record can hold.
        ConflictError: as `check_name`.
    """
    check_name(record.name, Path(record.output_dir))
    for path in (record.run_dir, record.workspace, record.layout_file, *record.config_files):
        if not is_text(path):
            raise ConfigError(
                f"the path {path!r} is not UTF-8",
                hint="rename the folder or file, or choose another folder with -o OUTPUT_DIR",
            )


def check_name(name: str, output_dir: Path) -> None:
    """Check the name of a new experiment in this folder.

    Raises:
        ConfigError: for a name that does not suit files and tmux.
        ConflictError: if the name belongs to an experiment in another folder.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise ConfigError(
            f"not a name: {name}",
            hint="use letters, digits, - and _, at most 48",
        )
    other = find_experiment(name)
    if other is not None and not same_folder(other.output_dir, str(output_dir)):
        raise ConflictError(
            f"the name {name} is taken by the experiment in {other.output_dir}",
            hint="choose another name",
        )


def default_output_dir(config_files: Sequence[Path]) -> str:
    """Output folder of a config that names none, relative to the workspace: `outputs/reverse-text`.

    Named after the file; after its folder if all such files have that name (`reverse-text/rl.toml`), or if
    there are several, in whatever order they are given.
    """
    folder = config_files[0].parent.name
    stems = {path.stem for path in config_files}
    stem = stems.pop() if len(stems) == 1 else "rl"
    if not folder or stem not in _GENERIC_STEMS:
        return f"outputs/{stem}"
    return f"outputs/{folder}" if stem == "rl" else f"outputs/{folder}-{stem}"


def free_name(name: str, output_dir: Path) -> str:
    """`name`, or `name-2` and so on if an experiment in another folder has that already."""
    is_running = _running_check()
    return next(
        candidate
        for candidate in numbered(name)
        if (listed := _read_listed(candidate, is_running)) is None
        or (listed.output_dir is not None and same_folder(listed.output_dir, str(output_dir)))
    )


def new_socket_path(record: ExperimentRecord) -> Path:
    """The path of the socket of `record`'s supervisor, written down for clients with another environment.

    Raises:
        RltuiError: if there is no private folder for it. On a full disk, only the note is missing.
    """
    path = paths.socket_path(record.name, record.output_dir)
    for old_path in paths.socket_candidates(record.name, record.output_dir):
        if old_path != path and _is_own_socket(
            old_path
        ):  # of a dead supervisor, or where nobody came any more
            old_path.unlink(missing_ok=True)
    with contextlib.suppress(RltuiError):
        write_atomically(record.control.socket_file, str(path).encode())
    return path


def find_socket(record: ExperimentRecord) -> Path:
    """The socket of `record`'s supervisor, or the path that it would have if started from here.

    Its environment may differ from ours: cron, `su` and `docker exec` set no `XDG_RUNTIME_DIR`, and that
    folder is removed with the user's last session. A socket of another user is ignored.
    """
    default, *others = paths.socket_candidates(record.name, record.output_dir)
    candidates = [default, *others]
    with contextlib.suppress(OSError, ValueError):
        candidates.insert(0, Path(read_own(record.control.socket_file).decode()))
    return next(filter(_is_own_socket, candidates), default)


def names_with_socket() -> frozenset[str]:
    """Names of experiments whose supervisors listen, or did until they were killed."""
    names = {
        match[1]
        for folder in paths.socket_dirs()
        if folder.is_dir()
        for entry in folder.iterdir()
        if (match := _SOCKET_NAME.fullmatch(entry.name))
    }
    return frozenset(names)


def _is_own_socket(path: Path) -> bool:
    try:
        info = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid()
