"""Knobs: the editable values of a config, with type, bounds and readers. Pure data and checks of one
value.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rltui.base.kinds import is_integer, is_number
from rltui.base.secrets import MASK, OTHER_MASK, is_secret, mask_value
from rltui.base.text import did_you_mean, join_words
from rltui.base.toml.values import TomlValue, read_value
from rltui.errors import ConfigError, UsageError

KnobKind = Literal["int", "float", "bool", "str", "enum", "list"]
Control = Literal["", "fraction", "doubling"]
KnobValue = bool | int | float | str | None | list[Any]
"""A plain value, or a list of values without tables, which are edited in the file. `None` stands for "not in
the file".
"""
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})
_LONGEST_NUMBER = 100
"""Characters; a longer text is no value of any knob."""
_TOO_LARGE = 1 << 63
"""Bound of TOML's whole numbers; larger ones would overflow in computations."""
_INT = re.compile(r"[+-]?\d+(?:_\d+)*(?:\.0+)?")
IN_TEXT = 4
"""From this rank on, a word is not in the key."""
_MOST_GUESSES = 3
_UNSET = frozenset({"none", "null", "unset", "default"})
_NO_RENAMES: Mapping[str, str] = {}


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
    """May be absent (`None`), which means something else than any value."""
    minimum: float | None = None
    maximum: float | None = None
    """Bounds are inclusive."""
    above: float | None = None
    """Exclusive lower bound: must be greater than this."""
    below: float | None = None
    """Exclusive upper bound: must be less than this."""
    choices: tuple[str, ...] = ()
    """All values of an `enum`; for another kind, texts that are possible besides."""
    unit: str = ""
    file: str = "rl"
    """Role of the file that holds it, such as `rl` or `sft`: the key of `ConfigFiles`."""
    namespace: str = ""
    """Set if the keys of several files could be confused: `sft` makes the name `sft.optim.lr`."""
    main: bool = True
    """Turned from day to day: listed before all others. A short name that fits several means the main one."""
    control: Control = ""
    """The best editor control: `fraction` of a GPU's memory, or a size that goes by `doubling`."""

    @property
    def name(self) -> str:
        """Name for people and the API; unique in its framework."""
        return f"{self.namespace}.{self.key}" if self.namespace else self.key

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The smallest and the largest value, whether inclusive or exclusive."""
        low = self.above if self.minimum is None else self.minimum
        high = self.below if self.maximum is None else self.maximum
        return low if low is None else float(low), high if high is None else float(high)

    @property
    def expected(self) -> str:
        """Type and bounds in words: `a whole number ≥ 1`."""
        kind_texts = {
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
        return " ".join([kind_texts[self.kind], " and ".join(limits)]).rstrip() + besides

    def fault(self, value: TomlValue) -> str | None:
        """The error in a value from a config file, in words; `None` if there is none."""
        is_choice = isinstance(value, str) and value in self.choices
        if not is_choice and not is_of_kind(self.kind, value):
            return f"{self.name} must be {self.expected}, not {display(value, key=self.key)}"
        if self.kind in ("int", "float") and not isinstance(value, str) and not self._in_bounds(value):
            return f"{self.name} must be {self.expected}, not {display(value)}{self._nearest(value)}"
        return None

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
            return ": more than 64 bits"
        if self.maximum is not None and value > self.maximum:
            return f": the largest allowed is {self.maximum:g}"
        if self.minimum is not None and value < self.minimum:
            return f": the smallest allowed is {self.minimum:g}"
        return ""


def is_of_kind(kind: KnobKind, value: TomlValue) -> bool:
    """Whether a value is written as one of that kind; never true for `enum`."""
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return is_integer(value)
        case "float":
            return is_number(value)
        case "str":
            return isinstance(value, str)
        case "enum":
            return False
        case "list":
            return isinstance(value, list) and not any(isinstance(item, dict) for item in value)


def display(value: TomlValue, *, key: str = "") -> str:
    """A config value in a message, in TOML's words. `key`: where it stands, so that secrets are masked."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list of tables" if any(isinstance(item, dict) for item in value) else "a list"
    return f'"{mask_value(key, value)}"' if isinstance(value, str) else str(value)


def coerce_value(knob: Knob, value: TomlValue) -> TomlValue:
    """The value that pydantic makes of one with another type; `None` if it refuses it, or bounds do."""
    converted = _convert(knob.kind, value)
    return None if converted is None or knob.fault(converted) is not None else converted


def _convert(kind: str, value: TomlValue) -> TomlValue:
    text = value.strip() if isinstance(value, str) else None
    match kind:
        case "bool" if text is not None:
            return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None
        case "bool" if isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        case "int" if text is not None:
            is_integer = len(text) < _LONGEST_NUMBER and _INT.fullmatch(text)
            return int(text.partition(".")[0]) if is_integer else None
        case "int" if isinstance(value, float | bool):
            return int(value) if value - value == 0 and value == int(value) else None
        case "float" if isinstance(value, bool) or text is not None:
            try:
                return float(text if text is not None else value)
            except ValueError:
                return None
        case _:
            return None


# --- which knobs a person means -------------------------------------------------------------------------


def rank(words: Sequence[str], key: str, *texts: str) -> int | None:
    """Rank of the worst of `words`, 0 the best; `None` if one occurs nowhere.

    The order: a segment of the key (`lr` of `trainer.optim.lr`), the beginning of a segment, the beginning of
    a word in it, any substring of the key, a word of the `texts`, any substring of these.
    """
    ranks = [_rank(word, key, texts) for word in words]
    return None if None in ranks else max((rank_ for rank_ in ranks if rank_ is not None), default=0)


def pattern(words: Sequence[str]) -> re.Pattern[str]:
    """Finds each occurrence of any of `words`, to be highlighted."""
    return re.compile("|".join(map(re.escape, words)) or r"(?!)", re.IGNORECASE)


def _rank(word: str, key: str, texts: Sequence[str]) -> int | None:
    word, key = word.casefold().replace("-", "_"), key.casefold().replace("-", "_")
    tests = (f".{word}." in f".{key}.", f".{word}" in f".{key}", f"_{word}" in f"_{key}", word in key)
    if any(tests):
        return tests.index(True)
    text = " ".join(texts).casefold()
    if re.search(rf"\b{re.escape(word)}", text):
        return IN_TEXT
    return IN_TEXT + 1 if word in text else None


class UnknownKnobError(ConfigError):
    """No knob and no key of the files has that name."""

    code = "unknown_knob"


def find_knob(
    knobs: Sequence[Knob],
    name: str,
    *,
    others: Sequence[Knob] = (),
    renamed: Mapping[str, str] = _NO_RENAMES,
) -> Knob:
    """The knob of that name, or the only one whose name ends with it (`batch_size`, `optim.lr`).

    A knob of the main file goes before one with a namespace; `sft.lr` finds `sft.optim.lr`. Among several, a
    main knob goes before the others.

    Args:
        knobs: of the framework.
        name: as typed.
        others: further keys of the files; if a name could mean both, `knobs` go first.
        renamed: dotted key of another generation → explanation.

    Raises:
        ConfigError: if none fits (with the closest name), or several (with all of them).
    """
    suffix = name.replace("-", "_")
    by_name = {knob.name: knob for knob in (*others, *knobs)}
    if exact := by_name.get(name) or by_name.get(suffix):
        return exact
    for group in (knobs, others):
        fitting = [knob for knob in group if _ends_with(knob, suffix)]
        candidates = [knob for knob in fitting if not knob.namespace] or fitting
        candidates = [knob for knob in candidates if knob.main] or candidates
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = join_words([knob.name for knob in candidates], "or")
            raise ConfigError(f"ambiguous knob {name}: {names}", hint="give the full name")
    explanation = next((text for key, text in renamed.items() if f".{key}".endswith(f".{suffix}")), "")
    guess = did_you_mean(name, [*by_name, *(full_name.rpartition(".")[2] for full_name in by_name)])
    hint = explanation or guess or _by_meaning(name, knobs)
    raise UnknownKnobError(f"unknown knob {name}", hint=hint)


def _by_meaning(name: str, knobs: Sequence[Knob]) -> str:
    """A guess by the search of `rltui knobs`: `learning_rate` is what `optim.lr` means."""
    words = re.split(r"[._-]+", name)
    ranked = [
        (rank_, knob.name) for knob in knobs if (rank_ := rank(words, knob.name, knob.help)) is not None
    ]
    likeliest = [name_ for _, name_ in sorted(ranked)[:_MOST_GUESSES]]
    return f"did you mean {join_words(likeliest, 'or')}?" if likeliest else ""


def _ends_with(knob: Knob, suffix: str) -> bool:
    namespace, _, rest = suffix.partition(".")
    in_namespace = knob.namespace and namespace == knob.namespace and knob.key.endswith(f".{rest}")
    return bool(in_namespace) or knob.name.endswith(f".{suffix}")


# --- from what a person types to a value ----------------------------------------------------------------


def split_assignment(text: str) -> tuple[str, str]:
    """`KEY=VALUE` in two.

    Raises:
        UsageError: if there is no `=` or no key.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"not KEY=VALUE: {text}", hint="for example orchestrator.batch_size=64")
    return key.strip(), value.strip()


def split_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Several assignments with distinct keys.

    Raises:
        UsageError: as `split_assignment`, or if a key comes twice.
    """
    assignments: dict[str, str] = {}
    for key, value in map(split_assignment, texts):
        if key in assignments:
            raise UsageError(f"{key} is set twice", hint="give each knob once")
        assignments[key] = value
    return assignments


def resolve_edits(
    knobs: Sequence[Knob],
    edits: Mapping[str, TomlValue],
    *,
    others: Sequence[Knob] = (),
    renamed: Mapping[str, str] = _NO_RENAMES,
    add: Callable[[str, TomlValue], Knob] | None = None,
) -> dict[Knob, KnobValue]:
    """Names and values as clients send them, checked. Text is parsed like typed text.

    Args:
        knobs: of the framework.
        edits: name → value.
        others: keys of the files that are no knobs.
        renamed: as in `find_knob`.
        add: makes a knob of an unknown name and its value, and lets any text pass for a choice; `None`:
            both are refused.

    Raises:
        ConfigError: for an unknown or ambiguous name, a wrong value, or one knob set twice.
    """
    resolved: dict[Knob, KnobValue] = {}
    for name, value in edits.items():
        try:
            knob = find_knob(knobs, name, others=others, renamed=renamed)
        except UnknownKnobError:
            if add is None or value is None:
                raise
            value = parse_untyped(value) if isinstance(value, str) else value
            knob = add(name, value)
        if knob in resolved:
            raise ConfigError(f"{knob.name} is set twice", hint="give each knob once")
        checked_knob = replace(knob, kind="str") if add is not None and knob.kind == "enum" else knob
        resolved[knob] = _resolve(checked_knob, value, is_known=knob in knobs)
    return resolved


def _resolve(knob: Knob, value: TomlValue, *, is_known: bool) -> KnobValue:
    if is_known or knob.kind not in ("int", "float"):
        return parse_value(knob, value) if isinstance(value, str) else _check(knob, value)
    if isinstance(value, str):  # of an unknown key no more is known than that it holds a number
        value = None if value.lower() in _UNSET else _parse_literal(knob, value)
    if is_number(value):
        return value
    return _check(knob, value)


def parse_value(knob: Knob, text: str) -> KnobValue:
    """A typed value: TOML syntax, text also without quotes.

    `none` removes a key that may be absent. So do `null`, `unset` and `default`, if they can be no value:
    for a text knob, and among the choices, each of these words is a value like any other.

    Raises:
        ConfigError: if the type or a bound is wrong; the message names the knob and what it takes.
    """
    is_none = knob.kind == "str" and knob.nullable and text.lower() == "none"
    if is_none or (knob.kind != "str" and text.lower() in _UNSET and text not in knob.choices):
        return None
    return _check(knob, _parse_literal(knob, text))


def _check(knob: Knob, value: TomlValue) -> KnobValue:
    """The value as the knob's own type.

    Raises:
        ConfigError: if the type or a bound is wrong.
    """
    if value is None:
        return None
    if is_secret(knob.key) and isinstance(value, str) and (MASK in value or OTHER_MASK in value):
        raise ConfigError(f"{knob.name} is a secret and not shown", hint="type the value")
    if fault := knob.fault(value):
        raise ConfigError(fault)
    if knob.kind == "float":
        return float(value)
    return value  # type: ignore[no-any-return]


def parse_untyped(text: str) -> TomlValue:
    """The value of a key of unknown type: TOML, or else plain text."""
    try:
        return read_value(text)
    except ValueError:
        return text


def _parse_literal(knob: Knob, text: str) -> TomlValue:
    quoted = text[:1] in ("'", '"')
    if knob.kind in ("str", "enum") and not quoted:
        return text
    try:
        if "\n" in text and knob.kind != "list":
            raise ConfigError(f"{knob.name} must be {knob.expected} on one line")
        return read_value(text)
    except tomllib.TOMLDecodeError as error:
        if knob.kind in ("int", "float") and (number := _convert(knob.kind, text)) is not None:
            return number  # `.5` and `007`, which are no TOML
        hint = 'write a list as ["a", "b"] or [1, 2]' if knob.kind == "list" else ""
        message = f"{knob.name} must be {knob.expected}, not {display(text, key=knob.key)}"
        raise ConfigError(message, hint=hint) from error


_LARGE_STEP = 10.0
"""A learning rate that changes by more than this factor is seldom meant."""


def large_step(key: str, old: object, new: object) -> str | None:
    """A warning about a new learning rate that is far from the last one; `None` for any other change."""
    if key.rpartition(".")[2] not in ("lr", "learning_rate"):
        return None
    if not (is_number(old) and is_number(new) and 0 < old < math.inf and 0 < new < math.inf):
        return None
    factor = max(new / old, old / new)
    if factor <= _LARGE_STEP * (1 + 1e-9):
        return None
    direction = "higher" if new > old else "lower"
    return f"{new:g} is {factor:,.0f} times {direction} than {old:g}; is that intended?"
