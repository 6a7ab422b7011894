"""Runs as they are listed, compared and kept. Pure, and without pydantic: a list has thousands of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NewType, Self

from rltui.core.kinds import FLAG, INTEGER, LINE, TEXT, TIME, Kind, checked, list_of
from rltui.core.levels import Level
from rltui.core.states import RUN_STATES, RunState

RunId = NewType("RunId", str)
"""Ten letters and digits, never used twice; files are named by it. Made by `services/runs/run_sheet.py`, and
of a text by `run_id` alone."""
ID_LENGTH = 10
_ID = re.compile(rf"[a-z0-9]{{{ID_LENGTH}}}")


def run_id(text: object) -> RunId | None:
    """The id that a text is; `None` where it is none."""
    return RunId(text) if isinstance(text, str) and _ID.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrigin:
    """Where a run comes from, as whoever started it says. Empty: from a config file."""

    parent: str = ""
    """Id of the run that it was forked from."""
    parent_step: int | None = None
    """The checkpoint of the parent that it began with; `None`: at the beginning."""
    again: str = ""
    """Id of the run that it repeats."""
    group: str = ""
    """What it was queued in: the name of a sweep."""
    entry: str = ""
    """Id of the entry of the queue that started it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata(RunOrigin):
    """What people say of a run. Kept in its folder; all else can be read again."""

    id: RunId
    created_at: float
    tags: tuple[str, ...] = ()
    """Sorted."""
    note: str = ""
    is_best: bool = False
    archived_at: float | None = None
    """Since when it is not listed unless asked for."""
    trashed_at: float | None = None
    """Since when its folder lies in the trash."""

    @classmethod
    def parsed(cls, data: object) -> Self:
        """Of a JSON document that anybody may have written. Keys of newer versions are passed over.

        Raises:
            ValueError: saying what is wrong with it.
        """
        known = checked(data, _SHEET_KINDS, _REQUIRED)
        return cls(**{**known, "tags": tuple(sorted(known.get("tags", ())))})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """What is to become of a sheet. What is `None` or empty stays."""

    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    note: str | None = None
    is_best: bool | None = None
    is_archived: bool | None = None
    is_trashed: bool | None = None
    """Its folder goes to the trash, or comes back."""

    def undone(self, sheet: RunMetadata) -> RunChange:
        """What makes it again what it was, when `sheet` was as before."""
        return RunChange(
            add_tags=tuple(tag for tag in self.remove_tags if tag in sheet.tags),
            remove_tags=tuple(tag for tag in self.add_tags if tag not in sheet.tags),
            note=None if self.note is None else sheet.note,
            is_best=None if self.is_best is None else sheet.is_best,
            is_archived=None if self.is_archived is None else sheet.archived_at is not None,
            is_trashed=None if self.is_trashed is None else sheet.trashed_at is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfigFile:
    """A config file as a run last read it."""

    path: str
    sha256: str
    """Of its content, which is kept under this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(RunMetadata):
    """A run as the index has it: what its folder and its sheet say, in one value."""

    name: str
    folder: str
    """The output folder of an experiment; of a run that rltui was only shown, its own folder."""
    control: str = ""
    """rltui's own folder for it (`ControlFolder.path`); empty: there is none any more."""
    run_dir: str = ""
    observed: bool = False
    """rltui was shown it, and did not start it."""
    kind: Literal["run", "evaluation"] = "run"
    """`evaluation`: results of an evaluator alone."""
    framework: str = ""
    generation: str = ""
    """As its framework names it; empty where it has but one."""
    state: RunState = "stopped"
    problem: str = ""
    """Why it is damaged, gone or failed, in words."""
    started_at: float | None = None
    """Its first attempt."""
    ended_at: float | None = None
    """Its last sign of life; `None` while it runs."""
    seconds: float = 0.0
    """How long something of it ran: pauses between attempts do not count."""
    gpu_seconds: float = 0.0
    """Attempts by the devices they had."""
    attempts: int = 0
    """Starts of the component that was started most often."""
    step: int | None = None
    """Completed, as the status tells it."""
    max_steps: int | None = None
    metrics: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """By id of a curated metric concept: its last value and its best; of one that comes by batches the best
    mean of ten successive steps."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """By id of a curated metric concept that comes by batches: what it came to over the last steps."""
    sparkline: tuple[float, ...] = ()
    """Its reward over all steps, at most 24 means, oldest first."""
    checkpoints: tuple[int, ...] = ()
    """Steps of the complete ones, ascending."""
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Config keys that differ, with both values: against the parent; of a run with its own copy of the config
    against what that was made of; else against the defaults."""
    configs: tuple[RunConfigFile, ...] = ()
    commit: str = ""
    """Of the workspace when it last started; empty: no git."""
    is_dirty: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    """By name: `prime-rl`, `verifiers`, `vllm`, `torch`, `driver`."""
    host: str = ""
    gpus: tuple[str, ...] = ()
    """Its devices, as people name them."""
    disk_bytes: int | None = None
    """`None`: not measured yet."""
    supervisor: tuple[int, float] | None = None
    """Pid and start time, in seconds since the epoch, of the supervisor that says that it runs."""

    @property
    def is_running(self) -> bool:
        """Something of it runs, or it is looked at while it does."""
        return RUN_STATES[self.state].is_running

    @property
    def reward(self) -> float | None:
        """Its level over the last steps; where none is known, the last value."""
        level = self.levels.get("reward")
        return self.metrics.get("reward", (None, None))[0] if level is None else level.mean

    @classmethod
    def parsed(cls, data: Any) -> Self:  # noqa: ANN401 - JSON
        """Of a document that `orjson` made of a row: what a sheet says is checked, the rest is rltui's own.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: if it is none.
        """
        known = {key: value for key, value in data.items() if key in _FIELDS}
        known |= checked(data, _SHEET_KINDS, _REQUIRED)
        for key in ("sparkline", "checkpoints", "gpus", "tags"):
            known[key] = tuple(known.get(key, ()))
        for key in ("metrics", "changed"):
            known[key] = {name: (first, second) for name, (first, second) in known.get(key, {}).items()}
        if (state := known.get("state", "stopped")) not in RUN_STATES:
            raise ValueError(f"no state of a run: {state!r}")
        known["levels"] = {name: Level(**level) for name, level in known.get("levels", {}).items()}
        known["configs"] = tuple(RunConfigFile(**each) for each in known.get("configs", ()))
        if (supervisor := known.get("supervisor")) is not None:
            pid, started = supervisor
            known["supervisor"] = (int(pid), float(started))
        return cls(**known)


_FIELDS = frozenset(each.name for each in fields(RunRow))
_RUN_ID = Kind(lambda value: run_id(value) is not None, f"an id of {ID_LENGTH} letters and digits")
_OF_OTHER_RUN = Kind(lambda value: value == "" or _RUN_ID.fits(value), _RUN_ID.words)
_SHEET_KINDS: Mapping[str, Kind] = {
    "id": _RUN_ID,
    "created_at": TIME,
    "parent": _OF_OTHER_RUN,
    "parent_step": INTEGER.or_none,
    "again": _OF_OTHER_RUN,
    "group": LINE,
    "entry": LINE,
    "tags": list_of(LINE, "a list of words"),
    "note": TEXT,
    "is_best": FLAG,
    "archived_at": TIME.or_none,
    "trashed_at": TIME.or_none,
}
_REQUIRED = frozenset({"id", "created_at"})
