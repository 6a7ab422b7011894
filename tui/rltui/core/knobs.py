"""Knobs: what can be edited in a config, with type, bounds and readers. Pure data and checks of one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rltui.core.secrets import masked

KnobKind = Literal["int", "float", "bool", "str", "enum", "list"]
Control = Literal["", "fraction", "doubling"]
TomlValue = Any
"""Whatever a TOML file can hold."""


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
        return " ".join([words[self.kind], " and ".join(limits)]).rstrip()

    def fault(self, value: TomlValue) -> str | None:
        """What is wrong with a value from a config file, in words; `None` if nothing is."""
        if not self._has_type(value):
            return f"{self.name} must be {self.expected}, not {shown(masked(self.key, value))}"
        if self.kind in ("int", "float") and not self._in_bounds(value):
            return f"{self.name} must be {self.expected}, not {shown(value)}{self._nearest(value)}"
        return None

    def _has_type(self, value: TomlValue) -> bool:
        match self.kind:
            case "bool":
                return isinstance(value, bool)
            case "int":
                return isinstance(value, int) and not isinstance(value, bool)
            case "float":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "str":
                return isinstance(value, str)
            case "enum":
                return value in self.choices
            case "list":
                return isinstance(value, list) and not any(isinstance(item, dict) for item in value)

    def _in_bounds(self, value: float) -> bool:
        return (
            value - value == 0  # neither infinite nor not a number
            and (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def _nearest(self, value: float) -> str:
        if self.maximum is not None and value > self.maximum:
            return f": the largest allowed is {self.maximum:g}"
        if self.minimum is not None and value < self.minimum:
            return f": the smallest allowed is {self.minimum:g}"
        return ""


def shown(value: TomlValue) -> str:
    """A config value in a message, in TOML's words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return f'"{value}"' if isinstance(value, str) else str(value)
