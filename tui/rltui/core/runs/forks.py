"""A fork, a run that begins with another's config or checkpoint: its request and its plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rltui.base.text import parse_whole_number
from rltui.errors import UsageError

CheckpointChoice = int | Literal["last", "best"]
_LONGEST_NAME = 40
"""Leaves room for a number suffix."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class ForkRequest:
    edits: Mapping[str, str] = field(default_factory=dict)
    """Name of a knob → its value, as `rltui set` takes them."""
    begin: CheckpointChoice | None = None
    """The checkpoint to begin with: its step, the newest, the best; `None`: the beginning."""
    name: str | None = None
    """`None`: generated from the changes."""
    folder: str | None = None
    """Output folder; `None`: named like the fork, in the folder of the parent's."""
    devices: str | None = None
    """Same grammar as `CUDA_VISIBLE_DEVICES`; `None`: those of the parent."""
    is_queued: bool = False
    """The queue starts it when there is room."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    parent: str
    name: str
    folder: str
    diff: str
    """Changes of the config relative to the last run of the parent."""
    step: int | None = None
    copied: tuple[str, ...] = ()
    """The folders that belong to the checkpoint, relative to the run's."""
    copied_bytes: int = 0
    notes: tuple[str, ...] = ()


def parse_checkpoint(text: str) -> CheckpointChoice:
    """The checkpoint that `--from` names.

    Raises:
        UsageError: if it is neither a step nor one of the words.
    """
    if text == "last":
        return "last"
    if text == "best":
        return "best"
    if (step := parse_whole_number(text)) is not None:
        return step
    raise UsageError(f"not a checkpoint: {text}", hint="use a step, last or best")


def fork_name(parent: str, request: ForkRequest, step: int | None) -> str:
    """Parent's name and the changes: `base-lr1e-3-from20`."""
    changes = [f"{key.rpartition('.')[2]}{value}" for key, value in request.edits.items()]
    changes += [f"from{step}"] if step is not None else []
    suffix = "-".join(_NOT_IN_NAMES.sub("-", change).strip("-") for change in changes or ["fork"])
    return f"{parent}-{suffix}"[:_LONGEST_NAME].rstrip("-")
