"""Knobs: what can be edited in a config, with type, bounds and readers. Pure data and checks of one value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from rltui.core.secrets import masked

KnobKind = Literal["int", "float", "bool", "str", "enum", "list"]
Control = Literal["", "fraction", "doubling"]
TomlValue = Any
"""Whatever a TOML file can hold."""

_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})
LONGEST_NUMBER = 100
"""Characters; what is longer is no value of any knob."""
_TOO_LARGE = 1 << 63
"""What TOML's whole numbers are below; larger ones would overflow what is computed with them."""
_INT = re.compile(r"[+-]?\d+(?:_\d+)*(?:\.0+)?")


@dataclass(frozen=True, slots=True)
class Knob:
    """A config value worth showing. `key` is the dotted path inside `file`."""

    key: str
    kind: KnobKind
    readers: tuple[str, ...]
    """Components that read it at their start, hence must restart for a change to count."""
    help: str
    """One sentence for a newcomer."""
    default: TomlValue = field(default=None, hash=False)
    nullable: bool = False
    """May be absent, and then means something else than any value (`None`)."""
    minimum: float | None = None
    maximum: float | None = None
    """Bounds are inclusive."""
    above: float | None = None
    """Exclusive lower bound: must be greater than this."""
    below: float | None = None
    """Exclusive upper bound: must be less than this."""
    choices: tuple[str, ...] = ()
    """Of an `enum`, all that may be chosen; of another kind, texts that may stand there besides."""
    unit: str = ""
    file: str = "rl"
    """Role of the file that holds it, such as `rl` or `sft`: the key of `ConfigFiles`."""
    namespace: str = ""
    """Set where the keys of several files could be confused: `sft` makes the name `sft.optim.lr`."""
    main: bool = True
    """Turned from day to day: shown before all others. A short name that fits several means the main one."""
    control: Control = ""
    """How an editor best moves it: `fraction` of a GPU's memory, or a size that goes by `doubling`."""

    @property
    def name(self) -> str:
        """What people and the API call it; unique in its framework."""
        return f"{self.namespace}.{self.key}" if self.namespace else self.key

    @property
    def expected(self) -> str:
        """Type and bounds in words: `a whole number ≥ 1`."""
        words = {
            "int": "a whole number",
            "float": "a number",
            "bool": "true or false",
            "str": "text",
            "list": "a list",
        }
        if self.kind == "enum":
            return f"one of {', '.join(self.choices)}"
        bounds = (
            (">", self.above),
            ("≥", self.minimum),
            ("≤", self.maximum),
            ("<", self.below),
        )
        limits = [f"{sign} {limit:g}" for sign, limit in bounds if limit is not None]
        besides = f", or {' or '.join(self.choices)}" if self.choices else ""
        return " ".join([words[self.kind], " and ".join(limits)]).rstrip() + besides

    def fault(self, value: TomlValue) -> str | None:
        """What is wrong with a value from a config file, in words; `None` if nothing is."""
        if not self._has_type(value):
            return f"{self.name} must be {self.expected}, not {shown(value, key=self.key)}"
        if self.kind in ("int", "float") and not isinstance(value, str) and not self._in_bounds(value):
            return f"{self.name} must be {self.expected}, not {shown(value)}{self._nearest(value)}"
        return None

    def _has_type(self, value: TomlValue) -> bool:
        if isinstance(value, str) and value in self.choices:
            return True
        return is_of_kind(self.kind, value)

    def _in_bounds(self, value: float) -> bool:
        return (
            value - value == 0  # neither infinite nor not a number
            and (type(value) is not int or -_TOO_LARGE <= value < _TOO_LARGE)
            and (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def _nearest(self, value: float) -> str:
        if isinstance(value, int) and not -_TOO_LARGE <= value < _TOO_LARGE:
            return ": it needs more than 64 bits"
        if self.maximum is not None and value > self.maximum:
            return f": the largest allowed is {self.maximum:g}"
        if self.minimum is not None and value < self.minimum:
            return f": the smallest allowed is {self.minimum:g}"
        return ""


def is_of_kind(kind: KnobKind, value: TomlValue) -> bool:
    """Whether a value is written as one of that kind; of an `enum`, none is by itself."""
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "str":
            return isinstance(value, str)
        case "enum":
            return False
        case "list":
            return isinstance(value, list) and not any(isinstance(item, dict) for item in value)


def shown(value: TomlValue, *, key: str = "") -> str:
    """A config value in a message, in TOML's words. `key`: where it stands, so that no secret is told."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list of tables" if any(isinstance(item, dict) for item in value) else "a list"
    return f'"{masked(key, value)}"' if isinstance(value, str) else str(value)


def as_read(knob: Knob, value: TomlValue) -> TomlValue:
    """The value that pydantic makes of one with another type; `None` if it refuses it, or bounds do."""
    read = _converted(knob.kind, value)
    return None if read is None or knob.fault(read) is not None else read


def _converted(kind: str, value: TomlValue) -> TomlValue:
    text = value.strip() if isinstance(value, str) else None
    match kind:
        case "bool" if text is not None:
            return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None
        case "bool" if isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        case "int" if text is not None:
            is_one = len(text) < LONGEST_NUMBER and _INT.fullmatch(text)
            return int(text.partition(".")[0]) if is_one else None
        case "int" if isinstance(value, float | bool):
            return int(value) if value - value == 0 and value == int(value) else None
        case "float" if isinstance(value, bool) or text is not None:
            try:
                return float(text if text is not None else value)
            except ValueError:
                return None
        case _:
            return None
