"""The user's list of experiments, and where their supervisors listen."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from rltui import paths
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.own_files import is_text, read_own, write_atomically
from rltui.services.runs.experiment_files import (
    NAME_PATTERN,
    ControlFolder,
    ExperimentRecord,
    copy_on_list,
    list_dir,
    same_folder,
)

_SOCKET_NAME = re.compile(r"(.+)-[0-9a-f]{8}\.sock")
_USUAL = frozenset({"rl", "sft"})
"""Names of files that tell nothing of what is in them."""


@dataclass(frozen=True, slots=True)
class BrokenExperiment:
    """One on the user's list of which nothing can be said but why."""

    name: str
    output_dir: str | None
    problem: RltuiError


def listed_experiments() -> list[ExperimentRecord | BrokenExperiment]:
    """The user's list without those whose folder is another's by now: broken ones, then the newest first."""
    folder = list_dir()
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    lives = _living_check()
    found = [_listed(name, lives) for name in names if NAME_PATTERN.fullmatch(name)]
    broken = [one for one in found if isinstance(one, BrokenExperiment)]
    records = [one for one in found if isinstance(one, ExperimentRecord)]
    return [*broken, *sorted(records, key=lambda record: record.created_at, reverse=True)]


def known_experiments() -> list[ExperimentRecord]:
    """All experiments on the user's list whose record can be read, newest first."""
    return [one for one in listed_experiments() if isinstance(one, ExperimentRecord)]


def name_if_needed(name: str) -> str | None:
    """`name` for a command that a message advises; `None` where it is the only one on the list anyway."""
    with contextlib.suppress(OSError):
        if any(entry.name != name for entry in list_dir().iterdir()):
            return name
    return None


def find_experiment(name: str) -> ExperimentRecord | None:
    """The experiment of that name, if it is on the list and its folder is still its own.

    Raises:
        RltuiError: if it is, and cannot be read.
    """
    found = _listed(name, _living_check()) if NAME_PATTERN.fullmatch(name) else None
    if isinstance(found, BrokenExperiment):
        raise found.problem
    return found


def experiment_in(folder: Path) -> ExperimentRecord | None:
    """The experiment on the list whose output folder it is."""
    record = ControlFolder(folder).read_record() if (folder / paths.STATE_FOLDER).is_dir() else None
    known = find_experiment(record.name) if record is not None else None
    return known if known is not None and same_folder(known.output_dir, str(folder)) else None


def _listed(name: str, lives: Callable[[str], bool]) -> ExperimentRecord | BrokenExperiment | None:
    """What the list and the folder say together.

    The copy on the list stands in for a damaged record; for a deleted one only while something of the
    experiment lives, since a deleted folder is how people forget an experiment.
    """
    listed, output_dir = list_dir() / name, None
    try:
        content = read_own(listed)
        copy = copy_on_list(content)
        output_dir = copy.output_dir if copy is not None else content.decode()
        record = _believed(ControlFolder(Path(output_dir)), copy, content)
    except FileNotFoundError:
        return None
    except RltuiError as error:
        return BrokenExperiment(name, output_dir, error)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return BrokenExperiment(name, output_dir, ConfigError(f"cannot read {listed}: {reason}"))
    if record is None and copy is not None and lives(copy.output_dir):
        record = copy
    return record if record is not None and record.name == name else None


def _believed(
    control: ControlFolder, copy: ExperimentRecord | None, listed: bytes
) -> ExperimentRecord | None:
    if copy is not None and control.holds(listed):
        return copy
    try:
        return control.read_record()
    except ConfigError:
        if copy is None:
            raise
        return copy


def _living_check() -> Callable[[str], bool]:
    """Whether anything of the experiment in this folder runs. Looks at the processes when first asked."""

    @functools.cache
    def folders() -> frozenset[str]:
        from rltui.services.processes import living_output_dirs  # not needed where all is in place

        return living_output_dirs()

    return lambda output_dir: output_dir in folders()


def forget(record: ExperimentRecord) -> None:
    """Take an experiment off the user's list, where it stands there with this folder. Its files stay."""
    listed = list_dir() / record.name
    with contextlib.suppress(FileNotFoundError):
        content = read_own(listed)
        copy = copy_on_list(content)
        if same_folder(copy.output_dir if copy is not None else content.decode(), record.output_dir):
            listed.unlink()


def new_record(
    *,
    name: str,
    output_dir: Path,
    workspace: Path,
    config_files: list[Path],
    layout_file: Path,
    framework: str,
    run_dir: str = "",
    instances: Mapping[str, tuple[str, ...]] | None = None,
    external: tuple[str, ...] = (),
    inference: tuple[str, ...] = (),
    inference_of: str = "",
    devices: str = "",
    forced: bool = False,
    slurm: Mapping[str, str | bool | tuple[str, ...]] | None = None,
    observed: bool = False,
) -> ExperimentRecord:
    """A record for a new experiment. `run_dir` may be relative to the output folder.

    Raises:
        ConfigError: as `check_name`; for a path that no record can hold.
        ConflictError: as `check_name`.
    """
    check_name(name, output_dir)
    for path in (output_dir / run_dir, workspace, layout_file, *config_files):
        if not is_text(path):
            raise ConfigError(
                f"the path {str(path)!r} is not UTF-8",
                hint="rename the folder or file, or choose another folder with -o OUTPUT_DIR",
            )
    return ExperimentRecord(
        name=name,
        output_dir=str(output_dir),
        workspace=str(workspace),
        config_files=tuple(map(str, config_files)),
        layout_file=str(layout_file),
        framework=framework,
        created_at=time.time(),
        run_dir=str(output_dir / run_dir),
        instances=dict(instances or {}),
        external=external,
        inference=inference,
        inference_of=inference_of,
        devices=devices,
        forced=forced,
        slurm=dict(slurm or {}),
        observed=observed,
    )


def check_name(name: str, output_dir: Path) -> None:
    """For a new experiment in this folder.

    Raises:
        ConfigError: for a name that does not suit files and tmux.
        ConflictError: if the name belongs to an experiment in another folder.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise ConfigError(
            f"the experiment name {name!r} does not suit",
            hint="use letters, digits, - and _, at most 48, with -n NAME",
        )
    other = find_experiment(name)
    if other is not None and not same_folder(other.output_dir, str(output_dir)):
        raise ConflictError(
            f"the name {name} is taken by the experiment in {other.output_dir}",
            hint="choose another with -n NAME",
        )


def default_output_dir(config_files: Sequence[Path]) -> str:
    """Output folder of a config that names none, relative to the workspace: `outputs/reverse-text`.

    Named for the file; for its folder where all such files have that name (`reverse-text/rl.toml`), or where
    there are several, in whatever order they are given.
    """
    folder = config_files[0].parent.name
    stems = {path.stem for path in config_files}
    stem = stems.pop() if len(stems) == 1 else "rl"
    if not folder or stem not in _USUAL:
        return f"outputs/{stem}"
    return f"outputs/{folder}" if stem == "rl" else f"outputs/{folder}-{stem}"


def free_name(name: str, output_dir: Path) -> str:
    """`name`, or `name-2` and so on where an experiment in another folder has that already."""
    lives = _living_check()
    candidates = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(
        candidate
        for candidate in candidates
        if (other := _listed(candidate, lives)) is None
        or (other.output_dir is not None and same_folder(other.output_dir, str(output_dir)))
    )


def place_socket(record: ExperimentRecord) -> Path:
    """Where the supervisor of `record` is to listen, written down for clients with another environment.

    Raises:
        RltuiError: if there is no private folder for it. On a full disk, only the note is missing.
    """
    path = paths.socket_path(record.name, record.output_dir)
    for other in paths.socket_places(record.name, record.output_dir):
        if other != path and _is_own_socket(other):  # of a dead supervisor, or where nobody came any more
            other.unlink(missing_ok=True)
    with contextlib.suppress(RltuiError):
        write_atomically(ControlFolder(Path(record.output_dir)).socket_file, str(path).encode())
    return path


def find_socket(record: ExperimentRecord) -> Path:
    """Where the supervisor of `record` listens, or would if it were started from here.

    Its environment may be another than ours: cron, `su` and `docker exec` set no `XDG_RUNTIME_DIR`, and that
    folder goes when its user's last session ends. A socket of another user is not believed in.
    """
    places = paths.socket_places(record.name, record.output_dir)
    with contextlib.suppress(OSError, ValueError):
        note = read_own(ControlFolder(Path(record.output_dir)).socket_file)
        places.insert(0, Path(note.decode()))
    return next(filter(_is_own_socket, places), paths.socket_places(record.name, record.output_dir)[0])


def names_with_socket() -> frozenset[str]:
    """Of experiments whose supervisors listen, or did until they were killed."""
    found = {
        match[1]
        for folder in paths.socket_dirs()
        if folder.is_dir()
        for entry in folder.iterdir()
        if (match := _SOCKET_NAME.fullmatch(entry.name))
    }
    return frozenset(found)


def _is_own_socket(path: Path) -> bool:
    try:
        info = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid()
