"""The shape of a config as its pydantic models have it: tables, values, and members of unions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rltui.frameworks.grammar import ENTRY


@dataclass(frozen=True, slots=True)
class Table:
    """One table, or the entries of an array of tables."""

    values: frozenset[str]
    """Keys of plain values, those below included."""
    free: frozenset[str]
    """Keys whose values nobody looks into."""
    nullable: frozenset[str]
    """Keys that may hold the text `None`, for no value."""
    required: frozenset[str]
    tables: Mapping[str, Table | Union] = field(default_factory=dict)
    optional: bool = False
    """The text `None` may stand in its place."""
    entries: bool = False
    """An array of such tables."""
    switch: bool = False
    """`true` stands for the table with its defaults, `false` for none."""
    word: str | None = None
    """A text that may stand in its place."""
    must: bool = False
    """The table above cannot do without it."""


@dataclass(frozen=True, slots=True)
class Union:
    """A table whose keys depend on one of them."""

    members: Mapping[str, Table]
    default: str | None
    """Member that is meant where the key is not there; `None`: it must be."""
    tag: str = "type"
    optional: bool = False
    must: bool = False
    """As for a table."""


def table(keys: str = "", **tables: Table | Union) -> Table:
    """A table from the names of its values; after a name, `!` says required, `?` nullable, `~` free."""
    names = keys.split()

    def marked(mark: str) -> frozenset[str]:
        return frozenset(name.rstrip("!?~") for name in names if mark in name)

    return Table(
        values=frozenset(name.rstrip("!?~") for name in names if "~" not in name),
        free=marked("~"),
        nullable=marked("?"),
        required=marked("!"),
        tables=tables,
    )


def optional(keys: str | Table = "", **tables: Table | Union) -> Table:
    """A table that `None` can switch off."""
    return replace(keys if isinstance(keys, Table) else table(keys, **tables), optional=True)


def union(default: str | None, members: Mapping[str, Table], *, may_be_none: bool = False) -> Union:
    """A union whose members are told by `type`, a key that each of them has."""
    with_tag = {name: replace(member, values=member.values | {"type"}) for name, member in members.items()}
    return Union(with_tag, default, optional=may_be_none)


def keys(shape: Table | Union, at: str = "") -> Iterator[tuple[str, str]]:
    """Every key as a dotted path with `[]` for entries, and what it is: `value`, `free` or `table`."""
    for member in shape.members.values() if isinstance(shape, Union) else (shape,):
        yield from ((at + name, "value") for name in member.values)
        yield from ((at + name, "free") for name in member.free)
        for name, below in member.tables.items():
            entries = isinstance(below, Table) and below.entries
            yield at + name + (ENTRY if entries else ""), "table"
            yield from keys(below, f"{at}{name}{ENTRY if entries else ''}.")
