"""What rltui keeps of an experiment in `<output_dir>/.rltui/`, and the user's list of experiments."""

from __future__ import annotations

import contextlib
import json
import re
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rltui import paths
from rltui.core import hints
from rltui.core.kinds import EXPERIMENT_NAME, FLAG, LINE, PATH, TEXTS, TIME, Kind, checked, list_of, table_of
from rltui.errors import ConfigError, ConflictError
from rltui.services.own_files import make_folder, read_own, why_folder_is_foreign, write_atomically

NAME_PATTERN = re.compile(EXPERIMENT_NAME)
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
    external: tuple[str, ...] = ()
    """Components of the layout that somebody else runs, as was known when it was created: `inference`."""
    inference: tuple[str, ...] = ()
    """Where its inference servers are, as a person said; empty: where the config says."""
    inference_of: str = ""
    """The experiment whose inference server that is."""
    devices: str = ""
    """Those that it uses, as `CUDA_VISIBLE_DEVICES` lists them. Left out: all that its supervisor sees."""
    forced: bool = False
    """No rule of ours refuses its config: what we know against it are warnings."""
    slurm: Mapping[str, str | bool | tuple[str, ...]] = field(default_factory=dict)
    """What a command line said of its SLURM jobs: goes before what the layout says."""
    observed: bool = False
    """Somebody else runs it: only its files are looked at, and nothing can be started or stopped."""

    def __post_init__(self) -> None:
        if not self.run_dir:
            object.__setattr__(self, "run_dir", self.output_dir)

    @property
    def tag(self) -> str:
        """What its processes carry as `RLTUI_EXPERIMENT`: unlike the name, never used twice on a box."""
        return f"{self.name}@{self.output_dir}"

    @property
    def resume_command(self) -> str:
        """What makes it anew once it is down: with the layout and the components of by then."""
        return hints.UP_AGAIN(
            configs=self.config_files,
            name=self.name,
            folder=self.output_dir,
            layout=self.layout_file or None,
        )


class ControlFolder:
    """`<output_dir>/.rltui`: record, journal, attempts."""

    def __init__(self, output_dir: Path) -> None:
        self.path = output_dir / paths.STATE_FOLDER

    @property
    def record_file(self) -> Path:
        return self.path / "experiment.toml"

    @property
    def journal_file(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def intent_file(self) -> Path:
        return self.path / "intent.json"

    @property
    def archive(self) -> Path:
        """What restarts moved aside: never removed by rltui, since checkpoints may be among it."""
        return self.path / "archive"

    @property
    def series(self) -> Path:
        """The series of the run: `services/metrics/store.py`."""
        return self.path / "metrics"

    @property
    def series_lock(self) -> Path:
        """Held by who writes them."""
        return self.path / "metrics.lock"

    @property
    def run_id_file(self) -> Path:
        """Names the run, from its beginning on over all resumes."""
        return self.path / "run_id"

    @property
    def lock_file(self) -> Path:
        """Held by its supervisor."""
        return self.path / "supervisor.lock"

    @property
    def socket_file(self) -> Path:
        """Holds the path of the supervisor's socket."""
        return self.path / "supervisor.socket"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    def attempts(self, component: str) -> list[int]:
        """Numbers of its attempts, ascending."""
        folder = self.component_dir(component)
        if not folder.is_dir():
            return []
        return sorted(
            int(match[1]) for entry in folder.iterdir() if (match := _ATTEMPT.fullmatch(entry.name))
        )

    def component_dir(self, component: str) -> Path:
        return self.path / "components" / component

    def attempt_dir(self, component: str, attempt: int) -> Path:
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
            # a folder that lies where a file belongs cannot be replaced by one: move it aside
            with contextlib.suppress(OSError):  # the write that follows says why
                self.record_file.rename(
                    self.record_file.with_name(f"{self.record_file.name}.{time.time_ns()}")
                )
        write_atomically(self.record_file, content)
        listed = list_dir() / record.name
        make_folder(listed.parent)
        write_atomically(listed, b"# " + json.dumps(asdict(record)).encode() + b"\n" + content)

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

    def holds(self, listed: bytes) -> bool:
        """The record says what this entry of the list says: it need not be parsed.

        Raises:
            ConflictError: if the folder is not the user's own.
        """
        self.refuse_foreign()
        try:
            return read_own(self.record_file) == listed.partition(b"\n")[2]
        except OSError:
            return False

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


def copy_on_list(content: bytes) -> ExperimentRecord | None:
    """The record in an entry of the list; `None` for an older version's, which is the folder's path.

    Its first line has it once more as JSON, which is read fifty times as fast.
    """
    if content.startswith(b"/"):
        return None
    first = content.partition(b"\n")[0]
    if first.startswith(b"# {"):
        with contextlib.suppress(ValueError, RecursionError):  # damaged: the rest may not be
            return _validated(json.loads(first[2:]))
    return _record(content)


def _record(content: bytes) -> ExperimentRecord:
    """Raises ValueError, saying what is wrong, where it is not one."""
    try:
        return _validated(tomllib.loads(content.decode()))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _validated(data: object) -> ExperimentRecord:
    known = checked(data, _KINDS, _REQUIRED)
    known["config_files"] = tuple(known["config_files"])
    for key in ("external", "inference"):
        known[key] = tuple(known.get(key, ()))
    known["instances"] = {key: tuple(names) for key, names in known.get("instances", {}).items()}
    asked = known.get("slurm", {}).items()
    known["slurm"] = {key: tuple(item) if isinstance(item, list) else item for key, item in asked}
    return ExperimentRecord(**known)


_OPTIONS = table_of(Kind(lambda value: isinstance(value, int | str), ""), "a table of numbers and texts")
_KINDS: Mapping[str, Kind] = {
    "name": Kind(lambda value: isinstance(value, str) and bool(NAME_PATTERN.fullmatch(value)), "a name"),
    "output_dir": PATH,
    "workspace": PATH,
    "config_files": list_of(PATH, "a list of absolute paths"),
    "layout_file": PATH,
    "framework": LINE,
    "created_at": TIME,
    "overrides": _OPTIONS,
    "overridden": _OPTIONS,
    "run_dir": Kind(lambda value: value == "" or PATH.fits(value), PATH.words),
    "instances": table_of(TEXTS, "a table of lists of texts"),
    "external": TEXTS,
    "inference": TEXTS,
    "inference_of": LINE,
    "forced": FLAG,
    "devices": LINE,
    "slurm": table_of(
        Kind(lambda value: isinstance(value, str | bool) or TEXTS.fits(value), ""),
        "a table of texts, lists of texts, and true or false",
    ),
    "observed": FLAG,
}
"""By key of a record: what its value must be."""
_REQUIRED = frozenset(
    {"name", "output_dir", "workspace", "config_files", "layout_file", "framework", "created_at"}
)


def same_folder(one: str, other: str) -> bool:
    """Whether two paths lead to one folder, through links too. It need not exist."""
    return Path(one).resolve() == Path(other).resolve()


def list_dir() -> Path:
    """The user's list: a file for each experiment, named like it, with a copy of its record."""
    return paths.state_dir() / "experiments"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_LONGEST_NAME = 80
_MOST_PINS = 100


class KeptFiles:
    """Files in an experiment's control folder that only people read."""

    def __init__(self, control_folder: Path) -> None:
        self._pins_file = control_folder / "pins.json"
        self._exports = control_folder / "exports"

    def pins(self) -> tuple[str, ...]:
        """Charts that were pinned, in order; none where the file cannot be used."""
        try:
            found = json.loads(read_own(self._pins_file))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            import logging  # 5 ms, which `ls` need not pay

            logging.getLogger(__name__).warning("%s is left out: %s", self._pins_file, error)
            return ()
        return (
            tuple(pin for pin in found if isinstance(pin, str))[:_MOST_PINS]
            if isinstance(found, list)
            else ()
        )

    def keep_pins(self, pins: Sequence[str]) -> None:
        """Take the place of those that were kept.

        Raises:
            RltuiError: if that cannot be written.
        """
        self._write(self._pins_file, json.dumps(list(pins)))

    def save(self, name: str, text: str) -> Path:
        """Write `text` to a new file whose name is like `name`, and return where it is.

        Raises:
            RltuiError: if it cannot be written.
        """
        path = free_file(self._exports, name)
        self._write(path, text)
        return path

    @staticmethod
    def _write(path: Path, text: str) -> None:
        make_folder(path.parent)
        write_atomically(path, text.encode("utf-8", "surrogateescape"))


def free_file(folder: Path, name: str) -> Path:
    """A file in `folder` that is not there, whose name is like `name`."""
    stem, dot, suffix = _NOT_IN_NAMES.sub("-", name).strip("-.")[-_LONGEST_NAME:].rpartition(".")
    if not dot:
        stem, suffix = suffix or "export", "txt"
    number, path = 1, folder / f"{stem}.{suffix}"
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.{suffix}"
    return path
