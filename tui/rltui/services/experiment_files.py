"""What rltui keeps of an experiment in `<output_dir>/.rltui/`, and the user's list of experiments."""

from __future__ import annotations

import contextlib
import os
import re
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from pathlib import Path

from rltui import paths
from rltui.errors import ConfigError, ConflictError, RltuiError

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
_USUAL = frozenset({"rl", "sft"})
"""Names of files that tell nothing of what is in them."""
_ATTEMPT = re.compile(r"attempt-(\d+)$")


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
        self.run_id_file = self.path / "run_id"
        """Names the run, from its beginning on over all resumes."""
        self.lock_file = self.path / "supervisor.lock"
        self.socket_file = self.path / "supervisor.socket"
        """Holds the path of the supervisor's socket."""
        self.supervisor_log = self.path / "supervisor.log"

    def attempts(self, component: str) -> list[int]:
        """Numbers of its attempts, ascending."""
        folder = self.path / "components" / component
        if not folder.is_dir():
            return []
        return sorted(int(match[1]) for entry in folder.iterdir() if (match := _ATTEMPT.search(entry.name)))

    def attempt_dir(self, component: str, attempt: int) -> Path:
        """Folder of one start."""
        return self.path / "components" / component / f"attempt-{attempt}"

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
        """Write `experiment.toml` and put the experiment on the user's list.

        Raises:
            RltuiError: if a folder or file cannot be written.
        """
        import tomlkit  # takes 30 ms, which `status` need not pay

        make_folder(self.path)
        write_atomically(self.record_file, tomlkit.dumps(asdict(record)).encode())
        listed = _list_dir() / record.name
        make_folder(listed.parent)
        write_atomically(listed, record.output_dir.encode())

    def read_record(self) -> ExperimentRecord | None:
        """The record, `None` where there is none.

        Raises:
            ConfigError: if it is damaged or cannot be read.
        """
        try:
            data = tomllib.loads(self.record_file.read_text())
            return ExperimentRecord(
                **{
                    **data,
                    "config_files": tuple(data["config_files"]),
                    "instances": {key: tuple(names) for key, names in data.get("instances", {}).items()},
                }
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(
                f"cannot read {self.record_file}: {error.strerror}", hint="whose folder is it?"
            ) from error
        except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{self.record_file} is damaged: {error}", hint="remove it and run `up` again"
            ) from error


def known_experiments() -> list[ExperimentRecord]:
    """All experiments on the user's list whose folder is still theirs, newest first."""
    folder = _list_dir()
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    records = [record for name in names if (record := find_experiment(name)) is not None]
    return sorted(records, key=lambda record: record.created_at, reverse=True)


def find_experiment(name: str) -> ExperimentRecord | None:
    """The experiment of that name, if it is on the list and its folder is still its own."""
    if not NAME_PATTERN.fullmatch(name):
        return None
    try:
        output_dir = (_list_dir() / name).read_text()
    except FileNotFoundError:
        return None
    record = ControlFolder(Path(output_dir)).read_record()
    return record if record is not None and record.name == name else None


def forget(record: ExperimentRecord) -> None:
    """Take an experiment off the user's list, where it stands there with this folder. Its files stay."""
    listed = _list_dir() / record.name
    try:
        if same_folder(listed.read_text(), record.output_dir):
            listed.unlink()
    except FileNotFoundError:
        return


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
    candidates = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(
        candidate
        for candidate in candidates
        if (other := find_experiment(candidate)) is None or same_folder(other.output_dir, str(output_dir))
    )


def make_folder(folder: Path) -> None:
    """Make a folder and its parents.

    Raises:
        RltuiError: naming the folder and what the system said.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RltuiError(
            f"cannot make the folder {folder}: {error.strerror}", hint="choose another with -o OUTPUT_DIR"
        ) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file of rltui's own as a whole.

    Raises:
        RltuiError: naming the file and what the system said; the old content is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a folder that is read-only or gone
            temporary.unlink()
        raise RltuiError(f"cannot write {path}: {error.strerror}", hint="is the disk full?") from error


def _list_dir() -> Path:
    return paths.state_dir() / "experiments"
