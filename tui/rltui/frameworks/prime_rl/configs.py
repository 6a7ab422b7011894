"""The config files of every generation: the schemas there are, which one a file fits, and our overlay.

The schemas were asked of prime-rl's own models at the commits that they name; the newest, without a commit,
is put together from single files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from rltui.core.config_data import leaves
from rltui.core.config_schema import ConfigSchema
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.prime_rl.defaults import defaults
from rltui.frameworks.prime_rl.env_servers import servers_of
from rltui.frameworks.prime_rl.rules import rules
from rltui.frameworks.prime_rl.tables import table_problems
from rltui.frameworks.schemas import Configs, Overlay

SPLIT, MERGED, CURRENT = "prime-rl-split", "prime-rl-merged", "prime-rl"
"""Ids of the generations: three files (2025), one `rl.toml` (until August 2026), since then run folders."""
PARTS = ("trainer", "orchestrator", "inference")
"""Roles of the files of the first generation; later, tables of `rl.toml`."""
FREE = frozenset(
    f"{at}source[].{key}"
    for at in ("orchestrator.train.", "orchestrator.eval.", "eval.")
    for key in ("env", "serve")
)
"""What is below belongs to verifiers and to the environment's own package."""
SWITCHES = frozenset({"trainer.model.full_offload", "model.full_offload"})
"""A validator turns `true` into the table, which no schema tells."""
FOREIGN = ("orchestrator.renderer", "renderer")
"""Tables of the package `renderers`."""

_DATES: Mapping[str, tuple[str, ...]] = {
    SPLIT: ("2025-12-01",),
    MERGED: ("2026-08-06", "2026-07-13", "2026-06-22", "2026-04-25", "2026-02-25", "2025-12-01"),
    CURRENT: ("2026-11-01", "2026-08-21"),
}
"""Generation → days of its schemas, the newest first."""


@cache
def overlay() -> Overlay:
    """What no schema tells, for all generations."""
    return Overlay.parse(_data("concepts.toml"))


@dataclass(frozen=True, slots=True)
class Fit:
    """How badly a schema suits a file: the fewer the better."""

    strange: int
    """Keys that it lacks, and values that it does not take."""
    known: int
    """Keys of the file that it has."""


@cache
def snapshots(generation: str, role: str, until: str = "9999") -> tuple[ConfigSchema, ...]:
    """The schemas of a kind of file from before a day, the newest first."""
    return tuple(_snapshot(day, role) for day in _DATES[generation] if day < until)


def best(generation: str, role: str, data: Mapping[str, Any]) -> tuple[ConfigSchema, Fit]:
    """The schema of a generation that a file fits best; of equals the newest whose commit is known."""
    fits = [(fit(schema, data), schema) for schema in snapshots(generation, role)]
    found, schema = min(fits, key=lambda each: (each[0].strange, each[1].partial))
    return schema, found


def fit(schema: ConfigSchema, data: Mapping[str, Any]) -> Fit:
    """How a file with this content suits."""
    strange = schema.strange(data, FREE)
    return Fit(strange, sum(1 for _ in leaves(data)) - strange)


def configs(generation: str, schemas: Mapping[str, ConfigSchema] = MappingProxyType({})) -> Configs:
    """Knobs, values and problems of the files of a generation.

    `schemas`: by role, those of the checkout that will read the files; they go before ours.
    """

    def schema(file: ConfigFile) -> ConfigSchema:
        return schemas.get(file.role) or best(generation, file.role, file.data)[0]

    split = {role: role for role in (*PARTS, "sft")}
    return Configs(
        overlay(), schema=schema, namespaces=split if generation == SPLIT else {"rl": "", "sft": "sft"},
        reader="prime-rl", free=FREE, foreign=FOREIGN, switches=SWITCHES,
        readers=servers_of, rules=rules,
        defaults=defaults, further=table_problems,
    )  # fmt: skip


@cache
def _snapshot(day: str, role: str) -> ConfigSchema:
    found = _document(day)
    part = role if role in PARTS else None
    document = found["roles"]["rl" if part else role]
    return ConfigSchema(document, part=part, date=_in_words(day), partial=found["partial"])


@cache
def _document(day: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(_data(f"schemas/{day}.json"))
    return found


def _data(name: str) -> str:
    return (resources.files(__package__) / "data" / name).read_text(encoding="utf-8")


_MONTHS: Sequence[str] = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip


def _in_words(day: str) -> str:
    """`21 August 2026`."""
    year, month, number = day.split("-")
    return f"{int(number)} {_MONTHS[int(month) - 1]} {year}"
