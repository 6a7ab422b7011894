"""What prime-rl has changed about its keys, as `data/migration.toml` has it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rltui.base.toml.values import TomlValue
from rltui.frameworks.prime_rl.values import data_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of prime-rl's to one key, or to all below it."""

    date: str = ""
    commit: str = ""
    key: str = ""
    """Its name before, `[]` for elements of arrays; with `sft.` for a file of SFT alone."""
    to: str = ""
    """Its name since; empty: as the concepts have it, or none."""
    why: str = ""
    """Empty: as `gone` of the concepts has it."""
    todo: str = ""
    """What a person has to do."""
    always: bool = False
    """`to` counts even where the name before is still accepted."""
    gone: bool = False
    """It means something else since, or nothing."""
    values: Mapping[str, TomlValue] = field(default_factory=dict)
    """Old value as TOML → new one."""
    drops: tuple[TomlValue, ...] = ()
    """Values that are not written any more."""
    empties: tuple[TomlValue, ...] = ()
    """Values for which the table is written, without keys."""
    takes: str = ""
    """What is taken of a value: `count`, `first` or `each` of a list, `name` behind the last slash."""
    adds: Mapping[str, TomlValue] = field(default_factory=dict)
    """Further keys that are set where they are missing."""
    when: Mapping[str, TomlValue] = field(default_factory=dict)
    """Values of other keys without which this does not apply."""

    @property
    def acts(self) -> bool:
        return bool(self.to or self.gone or self.values or self.drops or self.takes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """A default that prime-rl changed."""

    date: str
    commit: str = ""
    key: str
    was: TomlValue
    why: str
    write: bool = False
    """The result of the training would be another: the old value is written down."""
    below: str = ""
    """Table without which nobody reads it."""
    of_unknown_models: bool = False
    """It is another one for models without a known renderer only."""


@cache
def facts() -> tuple[tuple[Change, ...], tuple[Default, ...]]:
    """Read all changes and defaults, the oldest first."""
    data = tomllib.loads(data_file("migration.toml"))
    changes = (change for entry in data["change"] for change in _changes(entry))
    return tuple(changes), tuple(Default(**entry) for entry in data["default"])


def _changes(entry: Mapping[str, Any]) -> Iterator[Change]:
    """Make one for each key that its braces stand for."""
    keys = _spread(entry["key"])

    def one(text: str, index: int) -> str:
        texts = _spread(text)
        return texts[index] if len(texts) == len(keys) else text

    fields: dict[str, Any] = {
        name: tuple(item) if isinstance(item, list) else item for name, item in entry.items()
    }
    for index, key in enumerate(keys):
        adds = {one(name, index): value for name, value in entry.get("adds", {}).items()}
        yield Change(**{**fields, "key": key, "to": one(entry.get("to", ""), index), "adds": adds})


def _spread(text: str) -> list[str]:
    """Spread `{a,b}.c` into `a.c` and `b.c`."""
    start, brace, rest = text.partition("{")
    if not brace:
        return [text]
    words, _, end = rest.partition("}")
    return [f"{start}{word}{other}" for word in words.split(",") for other in _spread(end)]
