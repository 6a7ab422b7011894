"""Knobs: what can be edited in a config, with type, bounds and readers. Pure data and checks of one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

KnobKind = Literal["int", "float", "bool", "str", "enum"]


@dataclass(frozen=True, slots=True)
class Knob:
    """A config value worth showing. `key` is the dotted path inside `file`."""

    key: str
    kind: KnobKind
    readers: tuple[str, ...]
    """Components that read it at their start, hence must restart for a change to count."""
    help: str
    """One sentence for a newcomer."""
    default: Any = None
    nullable: bool = False
    """May be absent, and then means something else than any value (`None`)."""
    minimum: float | None = None
    maximum: float | None = None
    """Bounds are inclusive."""
    choices: tuple[str, ...] = ()
    unit: str = ""
    file: str = "rl"
    """Role of the file that holds it, such as `rl` or `sft`: the key of `ConfigFiles`."""
