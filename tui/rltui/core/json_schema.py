"""The tables of a JSON Schema that pydantic wrote: what may stand at each of their keys.

Two things are read that JSON Schema does not have: `x-aliases` of a property, further names that it is
accepted under, and a missing `additionalProperties`, with which pydantic drops keys that it does not know.
What is not understood counts as anything at all, so that nothing is refused for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from rltui.core.knobs import KnobKind
from rltui.core.toml.values import TomlValue, format_key

ENTRY = "[]"
"""In the name of a key, stands for each element of an array of tables: `env[].id`."""
Json = Mapping[str, Any]
Extra = Literal["forbid", "ignore", "allow"]

_SENTENCE = re.compile(r".+?(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[.!?](?=\s|$)", re.DOTALL)
_PART = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^."])+')
_KINDS: Mapping[str, KnobKind] = {"integer": "int", "number": "float", "boolean": "bool", "string": "str"}
_BOUNDS = {
    "minimum": "minimum", "maximum": "maximum", "exclusiveMinimum": "above", "exclusiveMaximum": "below",
}  # fmt: skip


def parts(key: str) -> list[str]:
    """The parts of a dotted key as they are written, with their quotes."""
    return _PART.findall(key)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """What may stand at a key."""

    kinds: tuple[KnobKind, ...] = ()
    words: tuple[str, ...] = ()
    """Texts that may stand there besides."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """By field of a `Knob`."""
    lengths: tuple[int, int | None] = (0, None)
    """How many elements a list must and may have."""
    nullable: bool = False
    free: bool = False
    """Also a table of any keys."""
    any_table: bool = False
    """Nothing but such a table, or what else is said here."""
    free_entries: bool = False
    """The elements of a list may be such tables."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Tables that may stand there: by tag, else by its own name, the name of each."""
    tag: str = ""
    """Key that tells which member it is; empty where there is one, or where nothing tells."""
    entries: Node | None = None
    """What the elements of an array are, where they are tables."""


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
    """A pydantic model."""

    properties: tuple[Property, ...]
    """In the schema's order."""
    by_key: Mapping[str, Property]
    """The same by their names and aliases."""
    extra: Extra


class SchemaTables:
    """All tables of one schema. They are read when they are asked for."""

    def __init__(self, document: Json, *, part: str | None) -> None:
        """`part`: a top-level table whose content is the whole file."""
        self._definitions: dict[str, Json] = {**document.get("$defs", {}), "": document}
        self._read: dict[str, SchemaTable] = {}
        self._open: set[str] = set()
        if part is not None:
            (name,) = self._node(document["properties"][part]).members.values()
            self._definitions[""] = self._definitions[name]

    def __getitem__(self, name: str) -> SchemaTable:
        """A table by the name of its definition; the whole file by the empty one."""
        if name not in self._read:
            self._read[name] = self._table(self._definitions[name])
        return self._read[name]

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every key by its dotted path, of all members of unions; `[]` for elements of arrays of tables."""
        return frozenset(self._keys("", "", frozenset()))

    def _keys(self, name: str, at: str, around: frozenset[str]) -> Iterator[str]:
        for key, each in self[name].by_key.items():
            here = at + format_key((key,))
            yield here
            node = each.node
            if node.entries is not None:
                node, here = node.entries, here + ENTRY
                yield here
            for member in node.members.values():
                if member not in around:  # a table may hold itself
                    yield from self._keys(member, f"{here}.", around | {member})

    def _table(self, document: Json) -> SchemaTable:
        required = document.get("required", ())
        properties: list[Property] = []
        by_key: dict[str, Property] = {}
        for key, found in document.get("properties", {}).items():
            default, text = found.get("default"), _first_sentence(found)
            properties.append(Property(key, self._node(found), default, key in required, text))
            by_key |= dict.fromkeys((key, *found.get("x-aliases", ())), properties[-1])
        further = document.get("additionalProperties")
        extra: Extra = "ignore" if further is None else "allow" if further else "forbid"
        return SchemaTable(tuple(properties), by_key, extra)

    def _node(self, found: Json) -> Node:
        return _any_of([self._alternative(each) for each in _alternatives(found)])

    def _alternative(self, found: Json) -> Node:
        match found:
            case {"$ref": str(where)}:
                return self._referred(_last(where))
            case {"discriminator": {"propertyName": str(tag), "mapping": dict(mapping)}}:
                return Node(members={word: _last(where) for word, where in mapping.items()}, tag=tag)
            case {"const": choice}:
                return _choices((choice,))
            case {"enum": list(choices)}:
                return _choices(choices)
            case {"type": "null"}:
                return Node(nullable=True)
            case {"type": "array"}:
                items = self._node(found.get("items", {}))
                lengths = found.get("minItems", 0), found.get("maxItems")
                if items.members:
                    return Node(entries=items, lengths=lengths)
                return Node(("list",), lengths=lengths, free_entries=items.free)
            case {"type": str(kind)} if kind in _KINDS:
                return Node(
                    (_KINDS[kind],),
                    bounds={name: found[key] for key, name in _BOUNDS.items() if key in found},
                )
            case {"type": "object"}:
                return Node(free=True, any_table=True)
        return Node(free=True)

    def _referred(self, name: str) -> Node:
        definition = self._definitions[name]
        if "properties" in definition or definition.get("type") == "object":
            return Node(members={name: name})
        if name in self._open:  # a type that holds itself, such as that of all JSON
            return Node(free=True)
        self._open.add(name)
        try:
            return self._node(definition)
        finally:
            self._open.remove(name)


def _alternatives(found: Json) -> Iterator[Json]:
    """The parts of a property that may be one of several things, without `anyOf` around them."""
    key = next(
        (key for key in ("anyOf", "oneOf", "allOf") if key in found and "discriminator" not in found), ""
    )
    if not key:
        yield found
    for each in found.get(key, ()):
        yield from _alternatives(each)


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
    """Texts by themselves; of other values only their kind."""
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


def _last(where: str) -> str:
    """The name at the end of `#/$defs/name`."""
    return where.rpartition("/")[2]


def _first_sentence(found: Json) -> str:
    text = " ".join(str(found.get("description", "")).split())
    match = _SENTENCE.match(text)
    return match[0] if match else text
