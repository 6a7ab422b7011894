"""Edits that bring values near each rule between knobs: each maker draws anew, sound or not."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.prime_rl_configs.variants import REMOVED, Edit

Maker = Callable[[random.Random], tuple[Edit, ...]]
CHOICES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_UNKNOWN = ("batch_sise", "lrr", "micro-batch-size", "group-size", "seqlen", "zzz")


def _some(choices: Mapping[str, Sequence[Any]], prefix: str) -> Maker:
    """One value for each key."""

    def edits(chance: random.Random) -> tuple[Edit, ...]:
        return tuple(
            (key.replace("*.", prefix), _value(chance.choice(values))) for key, values in choices.items()
        )

    return edits


def _value(choice: Any) -> Any:
    return REMOVED if choice == "GONE" else choice


def _of_model(prefix: str) -> Maker:
    def edits(chance: random.Random) -> tuple[Edit, ...]:
        names = chance.sample(sorted(CHOICES["model"]), chance.randint(1, 4))
        return tuple(
            (f"{prefix}model.{name}", _value(chance.choice(CHOICES["model"][name]))) for name in names
        )

    return edits


def _unknown(tables: Sequence[str]) -> Maker:
    def edits(chance: random.Random) -> tuple[Edit, ...]:
        table = chance.choice(tables)
        key = chance.choice(_UNKNOWN)
        return ((f"{table}.{key}" if table else key, chance.choice((1, "a", True, {"b": 1}, [{"c": 1}]))),)

    return edits


def _makers(name: str, prefix: str = "") -> list[Maker]:
    return [
        _unknown(table["unknown_in"]) if "unknown_in" in table else _some(table, prefix)
        for table in CHOICES[name]
    ]


MAKERS = {
    role: [
        *_makers(role),
        *_makers("inference"),
        *[_of_model(prefix)] * 2,
        *_makers("trainer", prefix),
    ]
    for role, prefix in (("rl", "trainer."), ("sft", ""))
}
