"""What rltui keeps of an experiment in `<output_dir>/.rltui/`, and the user's list of experiments."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain, count
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.own_files import open_own, read_own, why_folder_is_foreign

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
_USUAL = frozenset({"rl", "sft"})
"""Names of files that tell nothing of what is in them."""
_ATTEMPT = re.compile(r"attempt-(\d{1,9})")


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """What makes an experiment. All paths are absolute."""

    name: str
    output_dir: str
    workspace: str
    config_files: tuple[str, ...]
    layout_file: str
    framework: str
    created_at: float
    overrides: Mapping[str, int | str] = field(default_factory=dict)
    """By knob name: what rltui chose because the config's value cannot be used, such as a busy port."""
    overridden: Mapping[str, int | str] = field(default_factory=dict)
    """By knob name: what the config said then. Once it says something else, the config counts again."""
    run_dir: str = ""
    """The folder that the framework writes the run into. Left out: the output folder."""
    instances: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What `each` in the layout means for this experiment, as its framework said when it was created."""
    forced: bool = False
    """No rule of ours refuses its config: what we know against it are warnings."""
    observed: bool = False
    """Somebody else runs it: only its files are looked at, and nothing can be started or stopped."""

    def __post_init__(self) -> None:
        if not self.run_dir:
            object.__setattr__(self, "run_dir", self.output_dir)

    @property
    def tag(self) -> str:
        """What its processes carry as `RLTUI_EXPERIMENT`: unlike the name, never used twice on a box."""
        return f"{self.name}@{self.output_dir}"


class ControlFolder:
    """`<output_dir>/.rltui`: record, journal, attempts."""

    def __init__(self, output_dir: Path) -> None:
        self.path = output_dir / paths.STATE_FOLDER
        self.record_file = self.path / "experiment.toml"
        self.journal_file = self.path / "journal.jsonl"
        self.intent_file = self.path / "intent.json"
        self.archive = self.path / "archive"
        """What restarts moved aside: never removed by rltui, since checkpoints may be among it."""
        self.run_id_file = self.path / "run_id"
        """Names the run, from its beginning on over all resumes."""
        self.lock_file = self.path / "supervisor.lock"
        self.socket_file = self.path / "supervisor.socket"
        """Holds the path of the supervisor's socket."""
        self.supervisor_log = self.path / "supervisor.log"

    def attempts(self, component: str) -> list[int]:
        """Numbers of its attempts, ascending."""
        folder = self.component_dir(component)
        if not folder.is_dir():
            return []
        return sorted(
            int(match[1]) for entry in folder.iterdir() if (match := _ATTEMPT.fullmatch(entry.name))
        )

    def component_dir(self, component: str) -> Path:
        """Folder of all its starts."""
        return self.path / "components" / component

    def attempt_dir(self, component: str, attempt: int) -> Path:
        """Folder of one start."""
        return self.component_dir(component) / f"attempt-{attempt}"

    def newest_attempts(self) -> list[Path]:
        """Folder of the newest attempt of each component that was ever started."""
        folder = self.path / "components"
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        return [self.attempt_dir(name, numbers[-1]) for name in names if (numbers := self.attempts(name))]

    def log_file(self, component: str, attempt: int) -> Path:
        """What one start printed, stdout and stderr."""
        return self.attempt_dir(component, attempt) / "output.log"

    def new_attempt(self, component: str) -> int:
        """Make the folder of the next attempt and return its number, counted from 1.

        Raises:
            RltuiError: if the folder cannot be made.
        """
        number = (self.attempts(component) or [0])[-1] + 1
        make_folder(self.attempt_dir(component, number))
        return number

    def write_record(self, record: ExperimentRecord) -> None:
        """Write `experiment.toml` and put the experiment on the user's list, with a copy of it.

        Raises:
            RltuiError: if a folder or file cannot be written.
            ConflictError: if what lies there is not the user's own.
        """
        import tomlkit  # takes 30 ms, which `status` need not pay

        content = tomlkit.dumps(asdict(record)).encode()
        self.make()
        if self.record_file.is_dir() and not self.record_file.is_symlink():
            _make_way(self.record_file)
        write_atomically(self.record_file, content)
        listed = _list_dir() / record.name
        make_folder(listed.parent)
        write_atomically(listed, content)

    def make(self) -> None:
        """Make the folder, for the user alone.

        Raises:
            RltuiError: if it cannot be made.
            ConflictError: if what lies there is not the user's own.
        """
        self.refuse_foreign()
        make_folder(self.path.parent)
        make_folder(self.path, mode=0o700)
        self.refuse_foreign()
        with contextlib.suppress(
            OSError
        ):  # older versions let others look in; some file systems have no modes
            self.path.chmod(0o700)

    def refuse_foreign(self) -> None:
        """Before anything in it is believed, written or run.

        Raises:
            ConflictError: if the folder is a link, another user's, or one that others may write to.
        """
        if reason := why_folder_is_foreign(self.path):
            raise ConflictError(
                f"{self.path} is not trusted: {reason}",
                hint="choose another folder with -o OUTPUT_DIR; "
                f"if all in it is yours: chmod -R go-w {self.path}",
            )

    def read_record(self) -> ExperimentRecord | None:
        """The record, `None` where there is none. Keys that a newer version wrote are passed over.

        Raises:
            ConfigError: if it is damaged or cannot be read.
            ConflictError: if the folder is not the user's own.
        """
        self.refuse_foreign()
        try:
            return _record(read_own(self.record_file))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(
                f"cannot read {self.record_file}: {error.strerror}", hint="whose folder is it?"
            ) from error
        except ValueError as error:
            raise ConfigError(
                f"{self.record_file} is damaged: {error}", hint="remove it and run `up` again"
            ) from error


@dataclass(frozen=True, slots=True)
class BrokenExperiment:
    """One on the user's list of which nothing can be said but why."""

    name: str
    output_dir: str | None
    problem: RltuiError


def listed_experiments() -> list[ExperimentRecord | BrokenExperiment]:
    """The user's list without those whose folder is another's by now: broken ones, then the newest first."""
    folder = _list_dir()
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    lives = _living_check()
    found = [_listed(name, lives) for name in names if NAME_PATTERN.fullmatch(name)]
    broken = [one for one in found if isinstance(one, BrokenExperiment)]
    records = [one for one in found if isinstance(one, ExperimentRecord)]
    return [*broken, *sorted(records, key=lambda record: record.created_at, reverse=True)]


def known_experiments() -> list[ExperimentRecord]:
    """All experiments on the user's list whose record can be read, newest first."""
    return [one for one in listed_experiments() if isinstance(one, ExperimentRecord)]


def find_experiment(name: str) -> ExperimentRecord | None:
    """The experiment of that name, if it is on the list and its folder is still its own.

    Raises:
        RltuiError: if it is, and cannot be read.
    """
    found = _listed(name, _living_check()) if NAME_PATTERN.fullmatch(name) else None
    if isinstance(found, BrokenExperiment):
        raise found.problem
    return found


def _listed(name: str, lives: Callable[[str], bool]) -> ExperimentRecord | BrokenExperiment | None:
    """What the list and the folder say together.

    The copy on the list stands in for a damaged record; for a deleted one only while something of the
    experiment lives, since a deleted folder is how people forget an experiment.
    """
    listed, output_dir = _list_dir() / name, None
    try:
        content = read_own(listed)
        copy = _copied(content)
        output_dir = copy.output_dir if copy is not None else content.decode()
        record = _believed(ControlFolder(Path(output_dir)), copy)
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


def _believed(control: ControlFolder, copy: ExperimentRecord | None) -> ExperimentRecord | None:
    try:
        return control.read_record()
    except ConfigError:
        if copy is None:
            raise
        return copy


def _copied(content: bytes) -> ExperimentRecord | None:
    """The record in an entry of the list; `None` for an older version's, which is the folder's path."""
    if content.startswith(b"/"):
        return None
    return _record(content)


def _living_check() -> Callable[[str], bool]:
    """Whether anything of the experiment in this folder runs. Looks at the processes when first asked."""

    @functools.cache
    def folders() -> frozenset[str]:
        from rltui.services.processes import living_output_dirs  # not needed where all is in place

        return living_output_dirs()

    return lambda output_dir: output_dir in folders()


def _record(content: bytes) -> ExperimentRecord:
    """Raises ValueError, saying what is wrong, where it is not one."""
    try:
        data = tomllib.loads(content.decode())
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    missing = [item.name for item in fields(ExperimentRecord) if item.name in _REQUIRED - data.keys()]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    for key, (kind, word) in _KINDS.items():
        if key in data and not kind(data[key]):
            raise ValueError(f"{key} is {data[key]!r}, not {word}")
    known: dict[str, Any] = {key: value for key, value in data.items() if key in _KINDS}
    known["config_files"] = tuple(known["config_files"])
    known["instances"] = {key: tuple(names) for key, names in known.get("instances", {}).items()}
    return ExperimentRecord(**known)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_options(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, int | str) for item in value.values())


def _is_instances(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_texts, value.values()))


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "\0" not in value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e12  # a time; NaN is not below anything


_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and bool(NAME_PATTERN.fullmatch(value)), "a name"),
    "output_dir": (_is_path, "an absolute path"),
    "workspace": (_is_path, "an absolute path"),
    "config_files": (_is_texts, "a list of texts"),
    "layout_file": (_is_text, "a text"),
    "framework": (_is_text, "a text"),
    "created_at": (_is_number, "a time"),
    "overrides": (_is_options, "a table of numbers and texts"),
    "overridden": (_is_options, "a table of numbers and texts"),
    "run_dir": (_is_text, "a text"),
    "instances": (_is_instances, "a table of lists of texts"),
    "observed": (lambda value: isinstance(value, bool), "true or false"),
}
"""By key of a record: what its value must be, and that in words."""
_REQUIRED = frozenset(list(_KINDS)[:7])


def forget(record: ExperimentRecord) -> None:
    """Take an experiment off the user's list, where it stands there with this folder. Its files stay."""
    listed = _list_dir() / record.name
    with contextlib.suppress(FileNotFoundError):
        content = read_own(listed)
        copy = _copied(content)
        if same_folder(copy.output_dir if copy is not None else content.decode(), record.output_dir):
            listed.unlink()


def same_folder(one: str, other: str) -> bool:
    """Whether two paths lead to one folder, through links too. It need not exist."""
    return Path(one).resolve() == Path(other).resolve()


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
    forced: bool = False,
) -> ExperimentRecord:
    """A record for a new experiment. `run_dir` is relative to the output folder.

    Raises:
        ConfigError, ConflictError: as `check_name`.
    """
    check_name(name, output_dir)
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
        forced=forced,
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


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Make a folder, with `mode` less the umask, and its parents.

    Raises:
        RltuiError: naming the folder and what the system said.
    """
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise RltuiError(
            f"cannot make the folder {folder}: {error.strerror}", hint="choose another with -o OUTPUT_DIR"
        ) from error


def _make_way(folder: Path) -> None:
    """Move a folder aside that lies where a file belongs, and cannot be replaced by one."""
    with contextlib.suppress(OSError):  # the write that follows says why
        folder.rename(folder.with_name(f"{folder.name}.{time.time_ns()}"))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file of rltui's own as a whole. Nobody else may read it.

    Raises:
        RltuiError: naming the file and what the system said; the old content is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:  # noqa: PTH123
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a folder that is read-only or gone
            temporary.unlink()
        raise RltuiError(f"cannot write {path}: {error.strerror}", hint="is the disk full?") from error


def _list_dir() -> Path:
    return paths.state_dir() / "experiments"
