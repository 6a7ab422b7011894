"""A fork, a run that begins with another's config or checkpoint: what is asked for, and what it comes to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rltui.core.text import whole_number
from rltui.errors import UsageError

Checkpointed = int | Literal["last", "best"]
_LONGEST_NAME = 40
"""Leaves room for a number behind it."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class ForkRequest:
    edits: Mapping[str, str] = field(default_factory=dict)
    """By the name of a knob: its value, as `rltui set` takes them."""
    begin: Checkpointed | None = None
    """The checkpoint to begin with: its step, the newest, the best; `None`: the beginning."""
    name: str | None = None
    """`None`: one that tells what is changed."""
    folder: str | None = None
    """Its output folder; `None`: named like it, beside the parent's."""
    devices: str | None = None
    """As `CUDA_VISIBLE_DEVICES` lists them; `None`: as the parent has them."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    parent: str
    name: str
    folder: str
    diff: str
    """What the config says in place of what the parent last ran with."""
    step: int | None = None
    copied: tuple[str, ...] = ()
    """The folders that belong to it, relative to the run's."""
    copied_bytes: int = 0
    notes: tuple[str, ...] = ()


def checkpointed(text: str) -> Checkpointed:
    """What `--from` says.

    Raises:
        UsageError: if it is neither a step nor one of the words.
    """
    if text == "last":
        return "last"
    if text == "best":
        return "best"
    if (step := whole_number(text)) is not None:
        return step
    raise UsageError(f"{text!r} is no checkpoint", hint="the step of one, last, or best")


def fork_name(parent: str, wish: ForkRequest, step: int | None) -> str:
    """What tells it from its parent: `base-lr1e-3-from20`."""
    words = [f"{key.rpartition('.')[2]}{value}" for key, value in wish.edits.items()]
    words += [f"from{step}"] if step is not None else []
    ending = "-".join(_NOT_IN_NAMES.sub("-", word).strip("-") for word in words or ["fork"])
    return f"{parent}-{ending}"[:_LONGEST_NAME].rstrip("-")
