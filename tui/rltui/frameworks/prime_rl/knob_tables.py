"""Knobs of tables that recur in several files, and where they are put."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import value_at


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table of knobs stands, and who reads it."""

    readers: tuple[str, ...]
    prefix: str = ""
    """Table above the keys, such as `trainer.model`."""
    file: str = "rl"
    namespace: str = ""

    def put(
        self,
        knobs: Iterable[Knob],
        *,
        defaults: Mapping[str, TomlValue] | None = None,
        without: Collection[str] = (),
    ) -> tuple[Knob, ...]:
        """The knobs here. `defaults`: by key before the prefix, where they differ; `without`: such keys."""
        return tuple(
            replace(
                knob,
                key=f"{self.prefix}.{knob.key}" if self.prefix else knob.key,
                readers=self.readers,
                file=self.file,
                namespace=self.namespace,
                default=(defaults or {}).get(knob.key, knob.default),
            )
            for knob in knobs
            if knob.key not in without
        )


@dataclass(frozen=True, slots=True)
class Follows:
    """Defaults that come from another value, and those of tables that are off unless they are there."""

    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a knob → names of those that have its value unless they are set."""
    table: Mapping[str, Mapping[str, TomlValue]] = field(default_factory=dict)
    """Name of a table → key → what it is when the table is there without it."""

    def defaults(self, files: ConfigFiles, knobs: Mapping[str, Knob]) -> dict[str, TomlValue]:
        """By knob name. Values of a wrong type count as not set. `knobs`: all of them by name."""
        found: dict[str, TomlValue] = {}
        for table, keys in self.table.items():
            for key, value in keys.items():
                knob = knobs[f"{table}.{key}"]
                if (
                    knob.file in files
                    and value_at(files[knob.file].data, knob.key.rpartition(".")[0]) is not None
                ):
                    found[knob.name] = value
        for shared, followers in self.shared.items():
            value = given(files, knobs[shared])
            value = found.get(shared) if value is None else value
            if value is not None:
                found.update(dict.fromkeys(followers, value))
        return found


def given(files: ConfigFiles, knob: Knob) -> TomlValue:
    """What a file holds for a knob; `None` if nothing or something impossible."""
    value = value_at(files[knob.file].data, knob.key) if knob.file in files else None
    return value if value is not None and knob.fault(value) is None else None
