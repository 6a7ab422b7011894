"""Runs as they are listed, compared and stored. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NewType, Self

from rltui.base.kinds import FLAG, INTEGER, LINE, TEXT, TIME, Kind, check_document, list_of
from rltui.core.experiment.states import Reason, RunState
from rltui.core.metrics.learning import target_by_metrics
from rltui.core.metrics.levels import MetricLevel
from rltui.core.runs.state import FOLDER_DAMAGED, FOLDER_GONE

RunId = NewType("RunId", str)
"""Ten letters and digits, never used twice; files are named by it. Made by `services/runs/metadata.py`,
or from a text by `run_id`.
"""
ID_LENGTH = 10
BEST = "@best"
"""Refers to the run with the highest reward; of several, the newest."""
_ID = re.compile(rf"[a-z0-9]{{{ID_LENGTH}}}")


def run_id(text: object) -> RunId | None:
    """The text as an id; `None` if it is none."""
    return RunId(text) if isinstance(text, str) and _ID.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrigin:
    """Origin of a run according to its creator. Empty: from a config file."""

    parent: str = ""
    """Id of the run that it was forked from."""
    parent_step: int | None = None
    """The checkpoint of the parent that it began with; `None`: at the beginning."""
    again: str = ""
    """Id of the run that it repeats."""
    group: str = ""
    """Name of the sweep that it was queued in."""
    entry: str = ""
    """Id of the entry of the queue that started it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata(RunOrigin):
    """People's notes on a run. Stored in its folder; all else can be read again."""

    id: RunId
    created_at: float
    tags: tuple[str, ...] = ()
    """In alphabetical order."""
    note: str = ""
    is_best: bool = False
    archived_at: float | None = None
    """Time since which it is not listed by default."""
    trashed_at: float | None = None
    """Time since which its folder lies in the trash."""
    rights: str = ""
    """Rights of agents on it; empty: those of the settings."""

    @classmethod
    def parse(cls, data: object) -> Self:
        """Read a JSON document that anybody may have written. Keys of newer versions are dropped.

        Raises:
            ValueError: naming the error in it.
        """
        values = check_document(data, _METADATA_KINDS, _REQUIRED)
        return cls(**{**values, "tags": tuple(sorted(values.get("tags", ())))})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """A change of a run's name or metadata. Fields that are `None` or empty stay."""

    name: str | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    note: str | None = None
    is_best: bool | None = None
    is_archived: bool | None = None
    is_trashed: bool | None = None
    """Move the folder to the trash, or back."""
    rights: str | None = None
    """Rights of agents on it, which a person alone may change."""

    def inverse(self, row: RunRow) -> RunChange:
        """The opposite change, if `row` was the former state."""
        return RunChange(
            name=None if self.name is None else row.name,
            add_tags=tuple(tag for tag in self.remove_tags if tag in row.tags),
            remove_tags=tuple(tag for tag in self.add_tags if tag not in row.tags),
            note=None if self.note is None else row.note,
            is_best=None if self.is_best is None else row.is_best,
            is_archived=None if self.is_archived is None else row.archived_at is not None,
            is_trashed=None if self.is_trashed is None else row.trashed_at is not None,
            rights=None if self.rights is None else row.rights,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfigFile:
    """A config file as a run last read it."""

    path: str
    sha256: str
    """Hash of its content, which is stored under this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(RunMetadata):
    """A run as the index has it: the content of its folder and its metadata, in one value."""

    name: str
    folder: str
    """The output folder of an experiment; of an observed run, its own folder."""
    control: str = ""
    """rltui's own folder for it (`ControlFolder.path`); empty: there is none any more."""
    run_dir: str = ""
    observed: bool = False
    """True if another program started it and rltui only reads its folder."""
    kind: Literal["run", "evaluation"] = "run"
    """`evaluation`: results of an evaluator alone."""
    framework: str = ""
    generation: str = ""
    """Name in its framework; empty if that has only one."""
    state: RunState = "stopped"
    reason: Reason = Reason()
    is_alive: bool = False
    """True if something of it runs, or it is observed and grows."""
    started_at: float | None = None
    """Start of its first attempt."""
    ended_at: float | None = None
    """Time of the last sign of life; `None` while something of it runs."""
    seconds: float = 0.0
    """Time during which some component ran: pauses between attempts do not count."""
    gpu_seconds: float = 0.0
    """Sum over attempts of duration × devices."""
    attempts: int = 0
    """Starts of the component that was started most often."""
    step: int | None = None
    """Completed steps according to the status."""
    max_steps: int | None = None
    metrics: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """Id of a curated metric concept → its last value and its best; for one that comes by batches, the best
    mean of ten successive steps.
    """
    levels: Mapping[str, MetricLevel] = field(default_factory=dict)
    """Id of a curated metric concept that comes by batches → its level over the last steps."""
    sparkline: tuple[float, ...] = ()
    """Reward over all steps, at most 24 means, oldest first."""
    checkpoints: tuple[int, ...] = ()
    """Steps of the complete ones, ascending."""
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Config key → its two differing values: against the parent; for a run with its own copy of the config
    against the original of that; else against the defaults.
    """
    configs: tuple[RunConfigFile, ...] = ()
    commit: str = ""
    """Commit of the workspace at its last start; empty: no git."""
    is_dirty: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package → version: `prime-rl`, `verifiers`, `vllm`, `torch`, `driver`."""
    host: str = ""
    gpus: tuple[str, ...] = ()
    """Names of its devices for people."""
    disk_bytes: int | None = None
    """`None` if not measured yet."""
    supervisor: tuple[int, float] | None = None
    """Pid and start time, in seconds since the epoch, of the supervisor that follows it."""

    @property
    def metadata(self) -> RunMetadata:
        return RunMetadata(**{field_.name: getattr(self, field_.name) for field_ in fields(RunMetadata)})

    @property
    def is_unreadable(self) -> bool:
        """True if its folder is gone or damaged; the row holds what the index had."""
        return self.reason.code in (FOLDER_GONE, FOLDER_DAMAGED)

    @property
    def target(self) -> str:
        """Concept of the metric that it learns by, if it has no reward to learn from."""
        trainable = self.levels.get("trainable")
        return target_by_metrics(self.metrics, is_rewarded=trainable is not None and trainable.mean > 0)

    @property
    def reward(self) -> float | None:
        """Level of the reward over the last steps; if none is known, the last value."""
        level = self.levels.get("reward")
        return self.metrics.get("reward", (None, None))[0] if level is None else level.mean


_RUN_ID = Kind(lambda value: run_id(value) is not None, f"an id of {ID_LENGTH} letters and digits")
_OTHER_RUN_ID = Kind(lambda value: value == "" or _RUN_ID.fits(value), _RUN_ID.words)
_METADATA_KINDS: Mapping[str, Kind] = {
    "id": _RUN_ID,
    "created_at": TIME,
    "parent": _OTHER_RUN_ID,
    "parent_step": INTEGER.or_none,
    "again": _OTHER_RUN_ID,
    "group": LINE,
    "entry": LINE,
    "tags": list_of(LINE, "a list of words"),
    "note": TEXT,
    "is_best": FLAG,
    "archived_at": TIME.or_none,
    "trashed_at": TIME.or_none,
    "rights": LINE,
}
_REQUIRED = frozenset({"id", "created_at"})
