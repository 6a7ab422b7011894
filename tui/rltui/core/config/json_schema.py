"""The tables of a JSON Schema that pydantic wrote: the possible values of each key.

Two extensions of JSON Schema are read: `x-aliases` of a property, further names that it is
accepted under, and a missing `additionalProperties`, with which pydantic drops keys that it does not know.
Unknown constructs count as any value, so that nothing is refused for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from rltui.base.toml.values import TomlValue, format_key
from rltui.core.config.knobs import KnobKind

ENTRY = "[]"
"""Stands for each element of an array of tables in the name of a key: `env[].id`."""
Json = Mapping[str, Any]
Extra = Literal["forbid", "ignore", "allow"]

_SENTENCE = re.compile(r".+?(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[.!?](?=\s|$)", re.DOTALL)
_SEGMENT = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^."])+')
_KINDS: Mapping[str, KnobKind] = {"integer": "int", "number": "float", "boolean": "bool", "string": "str"}
_BOUNDS = {
    "minimum": "minimum", "maximum": "maximum", "exclusiveMinimum": "above", "exclusiveMaximum": "below",
}  # fmt: skip


def parts(key: str) -> list[str]:
    """The segments of a dotted key as they are written, with their quotes."""
    return _SEGMENT.findall(key)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """The possible values of a key."""

    kinds: tuple[KnobKind, ...] = ()
    words: tuple[str, ...] = ()
    """Texts that are possible besides."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """Field of a `Knob` → bound."""
    lengths: tuple[int, int | None] = (0, None)
    """Least and most number of elements of a list."""
    nullable: bool = False
    free: bool = False
    """A table of any keys is possible, too."""
    any_table: bool = False
    """Only such a table, or the other values of this node, are possible."""
    free_entries: bool = False
    """The elements of a list may be such tables."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Possible tables: tag, else the table's own name → name of the table."""
    tag: str = ""
    """Key whose value picks the member; empty if there is one, or no such key."""
    entries: Node | None = None
    """Type of the elements of an array, if they are tables."""


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    name: str
    node: Node
    default: TomlValue
    required: bool
    help: str
    """The first sentence of its description."""


@dataclass(frozen=True, slots=True, eq=False)
class SchemaTable:
    """The schema of one pydantic model."""

    properties: tuple[Property, ...]
    """In the schema's order."""
    by_key: Mapping[str, Property]
    """The same properties by their names and aliases."""
    extra: Extra


class SchemaTables:
    """All tables of one schema, parsed on first use."""

    def __init__(self, document: Json, *, part: str | None) -> None:
        """`part`: a top-level table whose content is the whole file."""
        self._definitions: dict[str, Json] = {**document.get("$defs", {}), "": document}
        self._parsed_tables: dict[str, SchemaTable] = {}
        self._open_names: set[str] = set()
        if part is not None:
            (name,) = self._node(document["properties"][part]).members.values()
            self._definitions[""] = self._definitions[name]

    def __getitem__(self, name: str) -> SchemaTable:
        """A table by the name of its definition; the whole file by the empty one."""
        if name not in self._parsed_tables:
            self._parsed_tables[name] = self._table(self._definitions[name])
        return self._parsed_tables[name]

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every key by its dotted path, of all members of unions; `[]` for elements of arrays of tables."""
        return frozenset(self._keys("", "", frozenset()))

    def _keys(self, name: str, prefix: str, enclosing: frozenset[str]) -> Iterator[str]:
        for key, prop in self[name].by_key.items():
            path = prefix + format_key((key,))
            yield path
            node = prop.node
            if node.entries is not None:
                node, path = node.entries, path + ENTRY
                yield path
            for member in node.members.values():
                if member not in enclosing:  # a table may hold itself
                    yield from self._keys(member, f"{path}.", enclosing | {member})

    def _table(self, document: Json) -> SchemaTable:
        required = document.get("required", ())
        properties: list[Property] = []
        by_key: dict[str, Property] = {}
        for key, definition in document.get("properties", {}).items():
            default = definition.get("default")
            text = " ".join(str(definition.get("description", "")).split())
            text = sentence[0] if (sentence := _SENTENCE.match(text)) else text
            properties.append(Property(key, self._node(definition), default, key in required, text))
            by_key |= dict.fromkeys((key, *definition.get("x-aliases", ())), properties[-1])
        further = document.get("additionalProperties")
        extra: Extra = "ignore" if further is None else "allow" if further else "forbid"
        return SchemaTable(tuple(properties), by_key, extra)

    def _node(self, definition: Json) -> Node:
        return _any_of([self._alternative(alternative) for alternative in _alternatives(definition)])

    def _alternative(self, definition: Json) -> Node:
        match definition:
            case {"$ref": str(reference)}:
                return self._reference(_reference_name(reference))
            case {"discriminator": {"propertyName": str(tag), "mapping": dict(mapping)}}:
                return Node(
                    members={value: _reference_name(reference) for value, reference in mapping.items()},
                    tag=tag,
                )
            case {"const": choice}:
                return _choices((choice,))
            case {"enum": list(choices)}:
                return _choices(choices)
            case {"type": "null"}:
                return Node(nullable=True)
            case {"type": "array"}:
                items = self._node(definition.get("items", {}))
                lengths = definition.get("minItems", 0), definition.get("maxItems")
                if items.members:
                    return Node(entries=items, lengths=lengths)
                return Node(("list",), lengths=lengths, free_entries=items.free)
            case {"type": str(kind)} if kind in _KINDS:
                return Node(
                    (_KINDS[kind],),
                    bounds={name: definition[key] for key, name in _BOUNDS.items() if key in definition},
                )
            case {"type": "object"}:
                return Node(free=True, any_table=True)
        return Node(free=True)

    def _reference(self, name: str) -> Node:
        definition = self._definitions[name]
        if "properties" in definition or definition.get("type") == "object":
            return Node(members={name: name})
        if name in self._open_names:  # a type that holds itself, such as that of all JSON
            return Node(free=True)
        self._open_names.add(name)
        try:
            return self._node(definition)
        finally:
            self._open_names.remove(name)


def _alternatives(definition: Json) -> Iterator[Json]:
    """The alternatives of a property, without the `anyOf` around them."""
    key = next(
        (
            key
            for key in ("anyOf", "oneOf", "allOf")
            if key in definition and "discriminator" not in definition
        ),
        "",
    )
    if not key:
        yield definition
    for alternative in definition.get(key, ()):
        yield from _alternatives(alternative)


def _any_of(nodes: Iterable[Node]) -> Node:
    kinds: dict[KnobKind, None] = {}
    words: dict[str, None] = {}
    bounds: dict[str, float] = {}
    members: dict[str, str] = {}
    lengths: tuple[int, int | None] = (0, None)
    tag, nullable, free, anything, free_entries = "", False, False, False, False
    entries: Node | None = None
    for node in nodes:
        kinds |= dict.fromkeys(node.kinds)
        words |= dict.fromkeys(node.words)
        bounds |= node.bounds
        members |= node.members
        lengths = node.lengths if node.lengths != (0, None) else lengths
        tag, entries = node.tag or tag, node.entries or entries
        nullable, free = nullable or node.nullable, free or node.free
        anything = anything or (node.free and not node.any_table)
        free_entries = free_entries or node.free_entries
    return Node(
        tuple(kinds), tuple(words), bounds, lengths, nullable, free, free and not anything, free_entries,
        members, tag, entries,
    )  # fmt: skip


def _choices(choices: Iterable[TomlValue]) -> Node:
    """Texts themselves; of other values only their kind."""
    kinds: dict[KnobKind, None] = {}
    words: list[str] = []
    nullable = False
    for choice in choices:
        match choice:
            case None:
                nullable = True
            case str():
                words.append(choice)
            case bool():
                kinds["bool"] = None
            case _:
                kinds["int" if isinstance(choice, int) else "float"] = None
    return Node(tuple(kinds), tuple(words), nullable=nullable)


def _reference_name(reference: str) -> str:
    """The name at the end of `#/$defs/name`."""
    return reference.rpartition("/")[2]
