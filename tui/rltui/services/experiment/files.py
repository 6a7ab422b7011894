"""rltui's files of an experiment in `<output_dir>/.rltui/`, and the user's list of experiments."""

from __future__ import annotations

import contextlib
import json
import re
import time
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.base.kinds import (
    EXPERIMENT_NAME,
    FLAG,
    LINE,
    PATH,
    TEXTS,
    TIME,
    Kind,
    check_document,
    list_of,
    table_of,
)
from rltui.base.text import numbered
from rltui.core import hints
from rltui.core.hosts.options import KINDS_WITH_OPTIONS, HostOptions
from rltui.errors import ConfigError, ConflictError
from rltui.services.own_files import (
    entry_names,
    foreign_folder_reason,
    make_folder,
    read_own,
    write_atomically,
)

NAME_PATTERN = re.compile(EXPERIMENT_NAME)
_ATTEMPT = re.compile(r"attempt-(\d{1,9})")


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """The definition of an experiment. All paths are absolute."""

    name: str
    output_dir: str
    workspace: str
    config_files: tuple[str, ...]
    layout_file: str
    framework: str
    created_at: float
    overrides: Mapping[str, int | str] = field(default_factory=dict)
    """Knob name → value that rltui chose because the config's cannot be used, such as a busy port."""
    overridden: Mapping[str, int | str] = field(default_factory=dict)
    """Knob name → value in the config at that time. Once it changes, the config counts again."""
    run_dir: str = ""
    """The folder that the framework writes the run into; by default the output folder."""
    instances: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that `each` in the layout stands for, as the framework determined them at creation."""
    external: tuple[str, ...] = ()
    """Components of the layout that somebody else runs, as known at creation: `inference`."""
    inference: tuple[str, ...] = ()
    """Addresses of its inference servers, as given by a person; empty: as in the config."""
    inference_of: str = ""
    """Name of the experiment that owns the inference server."""
    devices: str = ""
    """The devices that it uses, as `CUDA_VISIBLE_DEVICES` lists them; by default all that its supervisor
    sees.
    """
    forced: bool = False
    """True: rules of ours are only warnings about its config."""
    host_options: HostOptions = field(default_factory=dict)
    """Options of a command line; in the file, the options of a kind of host have its name as their key."""
    observed: bool = False
    """True: somebody else runs it, so its files are only read, and nothing can be started or stopped."""

    def __post_init__(self) -> None:
        if not self.run_dir:
            object.__setattr__(self, "run_dir", self.output_dir)

    @property
    def tag(self) -> str:
        """Value of `RLTUI_EXPERIMENT` in its processes: unlike the name, never used twice on a box."""
        return f"{self.name}@{self.output_dir}"

    @property
    def config_paths(self) -> tuple[Path, ...]:
        return tuple(map(Path, self.config_files))

    @property
    def control(self) -> ControlFolder:
        return ControlFolder(Path(self.output_dir))

    @property
    def resume_command(self) -> str:
        """The command that starts it again once it is down, with the then current layout."""
        return hints.UP_AGAIN(
            configs=self.config_files,
            name=self.name,
            folder=self.output_dir,
            layout=self.layout_file or None,
        )


class ControlFolder:
    """`<output_dir>/.rltui` with record, journal and attempts."""

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
        """The folder that restarts move files to: never removed by rltui, since it may hold checkpoints."""
        return self.path / "archive"

    @property
    def series(self) -> Path:
        """See `services/metrics/store.py`."""
        return self.path / "metrics"

    @property
    def run_id_file(self) -> Path:
        """Contains the id of the run, which stays the same over all resumes."""
        return self.path / "run_id"

    @property
    def lock_file(self) -> Path:
        """Path of the lock of the experiment's supervisor."""
        return self.path / "supervisor.lock"

    @property
    def socket_file(self) -> Path:
        """Contains the path of the supervisor's socket."""
        return self.path / "supervisor.socket"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    def attempts(self, component: str) -> list[int]:
        """Numbers of its attempts, ascending."""
        names = entry_names(self.component_dir(component))
        return sorted(int(match[1]) for name in names if (match := _ATTEMPT.fullmatch(name)))

    def component_dir(self, component: str) -> Path:
        return self.path / "components" / component

    def attempt_dir(self, component: str, attempt: int) -> Path:
        return self.component_dir(component) / f"attempt-{attempt}"

    def components(self) -> list[str]:
        """Ids of all that were ever started, sorted."""
        return sorted(entry_names(self.path / "components"))

    def newest_attempts(self, components: Collection[str] | None = None) -> list[Path]:
        """Folder of the newest attempt of each component, of these or of all, that was ever started."""
        names = (name for name in self.components() if components is None or name in components)
        return [self.attempt_dir(name, numbers[-1]) for name in names if (numbers := self.attempts(name))]

    def log_file(self, component: str, attempt: int) -> Path:
        """Both stdout and stderr."""
        return self.attempt_dir(component, attempt) / paths.ATTEMPT_LOG

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
            ConflictError: if an existing folder is not the user's own.
        """
        import tomlkit  # takes 30 ms, which `status` need not pay

        document = _document(record)
        content = tomlkit.dumps(document).encode()
        self.make()
        if self.record_file.is_dir() and not self.record_file.is_symlink():
            # a folder that lies where a file belongs cannot be replaced by one: move it aside
            with contextlib.suppress(OSError):  # the write that follows says why
                self.record_file.rename(
                    self.record_file.with_name(f"{self.record_file.name}.{time.time_ns()}")
                )
        write_atomically(self.record_file, content)
        list_entry = list_dir() / record.name
        make_folder(list_entry.parent)
        write_atomically(list_entry, b"# " + json.dumps(document).encode() + b"\n" + content)

    def make(self) -> None:
        """Create the folder, for the user alone.

        Raises:
            RltuiError: if it cannot be created.
            ConflictError: if an existing folder is not the user's own.
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
        """Check the owner before anything in the folder is trusted, written or run.

        Raises:
            ConflictError: if the folder is a link, another user's, or one that others may write to.
        """
        if reason := foreign_folder_reason(self.path):
            raise ConflictError(
                f"{self.path} is not trusted: {reason}",
                hint=(
                    "choose another folder with -o OUTPUT_DIR; if everything in it is yours: chmod -R"
                    f" go-w {self.path}"
                ),
            )

    def holds(self, list_entry: bytes) -> bool:
        """True if the record equals this entry of the list, so that it need not be parsed.

        Raises:
            ConflictError: if the folder is not the user's own.
        """
        self.refuse_foreign()
        try:
            return read_own(self.record_file) == list_entry.partition(b"\n")[2]
        except OSError:
            return False

    def read_record(self) -> ExperimentRecord | None:
        """The record, `None` if there is none. Keys of a newer version are ignored.

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
                f"cannot read {self.record_file}: {error.strerror}", hint="check who owns the folder"
            ) from error
        except ValueError as error:
            raise ConfigError(
                f"{self.record_file} is damaged: {error}",
                hint="remove the file, then create the experiment again",
            ) from error


def copy_on_list(content: bytes) -> ExperimentRecord:
    """The record in an entry of the list. Its first line repeats it as JSON, which is read fifty times as
    fast.

    Raises:
        ValueError: with the reason if it is damaged.
    """
    with contextlib.suppress(ValueError, RecursionError):  # damaged: the rest may not be
        return _validate(json.loads(content.partition(b"\n")[0].removeprefix(b"# ")))
    return _record(content)


def _record(content: bytes) -> ExperimentRecord:
    """Raises ValueError with the reason if it is no record."""
    try:
        return _validate(tomllib.loads(content.decode()))
    except RecursionError:
        raise ValueError("values are nested too deeply") from None


def _document(record: ExperimentRecord) -> dict[str, Any]:
    """The record as `_validate` reads it."""
    values = asdict(record)
    options = values.pop("host_options")
    return {**values, **{kind: options.get(kind, {}) for kind in KINDS_WITH_OPTIONS}}


def _validate(data: object) -> ExperimentRecord:
    values = check_document(data, _KINDS, _REQUIRED)
    values["config_files"] = tuple(values["config_files"])
    for key in ("external", "inference"):
        values[key] = tuple(values.get(key, ()))
    values["instances"] = {key: tuple(names) for key, names in values.get("instances", {}).items()}
    options_by_kind = {kind: values.pop(kind, {}) for kind in KINDS_WITH_OPTIONS}
    values["host_options"] = {
        kind: {key: tuple(item) if isinstance(item, list) else item for key, item in options.items()}
        for kind, options in options_by_kind.items()
        if options
    }
    return ExperimentRecord(**values)


_OPTIONS = table_of(Kind(lambda value: isinstance(value, int | str), ""), "a table of numbers and strings")
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
    "instances": table_of(TEXTS, "a table of lists of strings"),
    "external": TEXTS,
    "inference": TEXTS,
    "inference_of": LINE,
    "forced": FLAG,
    "devices": LINE,
    **dict.fromkeys(
        KINDS_WITH_OPTIONS,
        table_of(
            Kind(lambda value: isinstance(value, str | bool) or TEXTS.fits(value), ""),
            "a table of strings, lists of strings, and booleans",
        ),
    ),
    "observed": FLAG,
}
_REQUIRED = frozenset(
    item.name
    for item in fields(ExperimentRecord)
    if item.default is MISSING and item.default_factory is MISSING
)


def same_folder(path: str, other_path: str) -> bool:
    """True if two paths lead to one folder, through links too. It need not exist."""
    return Path(path).resolve() == Path(other_path).resolve()


def with_new_location(record: ExperimentRecord, folder: Path) -> ExperimentRecord:
    """An experiment that was moved to `folder`, with its own paths adjusted."""
    old, new = record.output_dir, str(folder)

    def moved(path: str) -> str:
        return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path

    return replace(
        record,
        output_dir=new,
        run_dir=moved(record.run_dir),
        workspace=moved(record.workspace),
        layout_file=moved(record.layout_file),
        config_files=tuple(map(moved, record.config_files)),
    )


def list_dir() -> Path:
    """The user's list: a file for each experiment, named like it, with a copy of its record."""
    return paths.state_dir() / "experiments"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_LONGEST_NAME = 80
_MOST_PINS = 100


class SavedFiles:
    """Files in an experiment's control folder that only people read."""

    def __init__(self, control_folder: Path) -> None:
        self._pins_file = control_folder / "pins.json"
        self._exports = control_folder / "exports"

    def pins(self) -> tuple[str, ...]:
        """Pinned charts, in order; empty if the file cannot be used."""
        try:
            document = json.loads(read_own(self._pins_file))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            import logging  # 5 ms, which `ls` need not pay

            logging.getLogger(__name__).warning("%s is left out: %s", self._pins_file, error)
            return ()
        return (
            tuple(pin for pin in document if isinstance(pin, str))[:_MOST_PINS]
            if isinstance(document, list)
            else ()
        )

    def save_pins(self, pins: Sequence[str]) -> None:
        """Replace the stored pins.

        Raises:
            RltuiError: if they cannot be written.
        """
        self._write(self._pins_file, json.dumps(list(pins)))

    def save(self, name: str, text: str) -> Path:
        """Write `text` to a new file whose name resembles `name`, and return its path.

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
    """Path of a new file whose name resembles `name`."""
    stem, dot, suffix = _NOT_IN_NAMES.sub("-", name).strip("-.")[-_LONGEST_NAME:].rpartition(".")
    if not dot:
        stem, suffix = suffix or "export", "txt"
    return next(path for free in numbered(stem) if not (path := folder / f"{free}.{suffix}").exists())
