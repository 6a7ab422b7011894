"""Seeded random edits of real config files: in and out of bounds, wrong types, rules, unknown keys."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.base.toml.values import split_key
from rltui.core.config.knobs import Knob

Edit = tuple[str, Any]
REMOVED = object()
"""As a value: the key goes."""
ODD: dict[str, Sequence[Any]] = {
    "int": ("64", " 64 ", "64.0", "x", 64.0, 6.5, True, "None", [1], {"a": 1}),
    "float": ("0.5", "x", 1, True, "None", [0.5]),
    "bool": ("true", "off", "x", 1, 2, 0.5, "None"),
    "str": (3, True, ["a"], "None"),
    "enum": ("nonsense", "None", 3),
    "list": ("a", 3, "None", []),
}
"""By kind: what a person may have typed instead."""


@dataclass(frozen=True)
class Variant:
    """A config, and how it came to be."""

    origin: str
    edits: tuple[Edit, ...]
    config: dict[str, Any]


def edited(config: Mapping[str, Any], edits: Sequence[Edit]) -> dict[str, Any]:
    """A copy with these values; edits below something that is no table are left out."""
    changed = copy.deepcopy(dict(config))
    for key, value in edits:
        *above, leaf = split_key(key)
        at: Any = changed
        for name in above:
            at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
            if not isinstance(at, dict | list):
                break
        if isinstance(at, dict):
            if value is REMOVED:
                at.pop(leaf, None)
            else:
                at[leaf] = copy.deepcopy(value)
    return changed


def of_knobs(knobs: Sequence[Knob], chance: random.Random) -> Iterator[tuple[Edit, ...]]:
    """For each knob, a sound value, one just outside each bound, and an odd one."""
    for knob in knobs:
        values: list[Any] = [_sound(knob, chance), chance.choice(ODD[knob.kind])]
        step = 1 if knob.kind == "int" else 0.25
        values += [knob.minimum - step] if knob.minimum is not None else []
        values += [knob.maximum + step] if knob.maximum is not None else []
        values += [knob.above] if knob.above is not None else []
        yield from (((knob.key, int(value) if _is_whole(knob, value) else value),) for value in values)


def _is_whole(knob: Knob, value: Any) -> bool:
    return knob.kind == "int" and isinstance(value, float) and value.is_integer() and value != 64.0


def _sound(knob: Knob, chance: random.Random) -> Any:
    low = knob.minimum if knob.minimum is not None else knob.above or 0
    high = knob.maximum if knob.maximum is not None else low + 64
    match knob.kind:
        case "int":
            return chance.randint(int(low) + (knob.above is not None), int(min(high, low + 64)))
        case "float":
            return round(chance.uniform(low + 0.01, high), 3)
        case "bool":
            return chance.random() < 0.5
        case "enum":
            return chance.choice(knob.choices)
        case "list":
            return ["a", "b"]
        case "str":
            return "word"


def of_rules(rules: Sequence[Callable[[random.Random], tuple[Edit, ...]]], chance: random.Random, *,
             rounds: int) -> Iterator[tuple[Edit, ...]]:  # fmt: skip
    """Each of the makers in turn, and two at once."""
    for _ in range(rounds):
        for rule in rules:
            yield rule(chance)
        yield (*chance.choice(rules)(chance), *chance.choice(rules)(chance))
