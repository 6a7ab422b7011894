"""Environment sources: what is below `[[orchestrator.train.source]]` and its like for evals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rltui.core.knobs import Knob, TomlValue
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl import env_servers
from rltui.frameworks.prime_rl.knob_tables import Place

_PLACES = (
    ("rl", "orchestrator.train", "train", ("orchestrator",)),
    ("rl", "orchestrator.eval", "eval", ("orchestrator",)),
    ("sft", "eval", "eval", ("sft",)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One element of an array of sources."""

    file: str
    """Role of its file."""
    at: str
    """Dotted path of the element, without namespace: `orchestrator.train.source.0`."""
    split: str
    """`train` or `eval`."""
    data: Mapping[str, Any]
    readers: tuple[str, ...]

    @property
    def name(self) -> str:
        """What logs, metrics and its server call it; empty where nothing says what it is."""
        return env_servers.source_name(self.data)

    @property
    def has_environment(self) -> bool:
        """It says which environment it is for."""
        return bool(env_servers.source_name({"env": self.data.get("env")}))

    @property
    def namespace(self) -> str:
        """As in the names of knobs."""
        return "sft" if self.file == "sft" else ""


def sources(files: ConfigFiles) -> tuple[Source, ...]:
    """Train, then eval: the order of their servers' ports."""
    return tuple(
        Source(role, f"{table}.source.{index}", split, entry, readers)
        for role, table, split, readers in _PLACES
        if role in files
        for index, entry in enumerate(_entries(value_at(files[role].data, f"{table}.source")))
    )


def source_knobs(files: ConfigFiles) -> tuple[Knob, ...]:
    """What can be turned for each source alone; a changed one concerns its server too."""
    every = sources(files)
    servers = {
        f"orchestrator.{one.split}.source.{one.index}": one.component for one in env_servers.sources(files)
    }
    return tuple(knob for source in every for knob in _knobs(source, servers.get(source.at) or None))


def source_defaults(files: ConfigFiles) -> dict[str, TomlValue]:
    """By knob name: what a source takes from its table where it does not say."""
    found: dict[str, TomlValue] = {}
    for source in sources(files):
        table, _, _ = source.at.partition(".source.")
        above = "orchestrator" if source.split == "train" else table
        prefix = f"{source.namespace}.{source.at}" if source.namespace else source.at
        inherited = {"group_size": f"{above}.group_size"}
        if source.split == "eval":
            inherited |= {key: f"{table}.{key}" for key in ("num_examples", "interval")}
        for key, origin in inherited.items():
            value = value_at(files[source.file].data, origin)
            if isinstance(value, int) and not isinstance(value, bool):
                found[f"{prefix}.{key}"] = value
    return found


def _knobs(source: Source, server: str | None) -> Iterator[Knob]:
    own = Place(source.readers, source.at, source.file, source.namespace)
    both = replace(own, readers=(*source.readers, server)) if server is not None else own
    yield from both.put((_NAME,))
    yield from own.put((_GROUP_SIZE, *(_TRAIN if source.split == "train" else _EVAL)))


_NAME = Knob(
    "name", "str", (),
    "Name of the environment in logs and metrics; without it, its id.",
    nullable=True,
)  # fmt: skip
_GROUP_SIZE = Knob(
    "group_size", "int", (),
    "Answers sampled for each prompt of this environment; without it, as for all.",
    1, minimum=1, unit="rollouts", control="doubling",
)  # fmt: skip
_TRAIN = (
    Knob(
        "ratio", "float", (),
        "How often this environment is drawn from, measured against the others.",
        1.0, above=0,
    ),
)  # fmt: skip
_EVAL = (
    Knob(
        "num_examples", "int", (),
        "Examples of this eval environment; -1 takes all.",
        -1, minimum=-1, unit="examples",
    ),
    Knob(
        "interval", "int", (),
        "Steps between evals of this environment; without it, as for all.",
        100, minimum=1, unit="steps",
    ),
)  # fmt: skip


def _entries(value: TomlValue) -> list[Mapping[str, Any]]:
    return [entry if isinstance(entry, Mapping) else {} for entry in value] if isinstance(value, list) else []
