"""What a config file may hold, by the JSON Schema that its framework's pydantic models give of themselves.

Two things are read that JSON Schema does not have: `x-aliases` of a property, further names that it is
accepted under, and a missing `additionalProperties`, with which pydantic drops keys that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from rltui.core.config_report import Problem
from rltui.core.knobs import Knob, KnobKind, TomlValue, as_read, shown
from rltui.core.suggest import did_you_mean
from rltui.core.toml_values import format_key

ENTRY = "[]"
"""In the name of a key, stands for each element of an array of tables: `env[].id`."""
UNKNOWN = "unknown key "
"""How a problem with a key that the schema lacks begins."""
NONE = "None"
"""Text that stands for no value, as prime-rl has it."""
_MOST_UNKNOWN = 50
"""Of one file: each is compared with all known keys."""
_SENTENCE = re.compile(r".+?[.!?](?=\s|$)", re.DOTALL)
_KINDS: Mapping[str, KnobKind] = {
    "integer": "int", "number": "float", "boolean": "bool", "string": "str", "array": "list",
}  # fmt: skip

Json = Mapping[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """What an overlay has to say of keys that no schema tells."""

    free: frozenset[str] = frozenset()
    """Keys below which another program's config begins: nobody looks into them."""
    foreign: frozenset[str] = frozenset()
    """Tables that another package defines, in releases of its own: an unknown key there is only doubtful."""
    said: Callable[[str], str] = lambda _: ""
    """By unknown key: what to say instead of guessing, such as its name here."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One file as its schema has it. Names of keys begin with the namespace of the file."""

    knobs: tuple[Knob, ...]
    """Every value that can be set, in the schema's order; of unions, what the chosen member has."""
    values: Mapping[str, TomlValue]
    """By name, what each knob amounts to: the file's value as pydantic reads it, else the default. Also every
    table that is there, an empty one where it is there by default, and `None` for one that is off."""
    problems: tuple[Problem, ...]
    """Unknown keys, wrong types, values out of bounds, what is missing."""
    unknown: tuple[str, ...]
    """Keys that the schema lacks."""
    held: frozenset[str]
    """Names of the knobs that the file sets, if only to no value."""


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """What may stand at a key."""

    kinds: tuple[KnobKind, ...] = ()
    words: tuple[str, ...] = ()
    """Texts that may stand there besides."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """By field of a `Knob`."""
    nullable: bool = False
    free: bool = False
    """Also a table of any keys."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Tables: by tag, the name of their definition; one without a tag by an empty one."""
    tag: str = ""
    """Key that tells which member it is; empty where there is one, or where nothing tells."""
    entries: _Node | None = None
    """What the elements of an array are, where they are tables."""


@dataclass(frozen=True, slots=True, eq=False)
class _Property:
    name: str
    node: _Node
    default: TomlValue
    required: bool
    help: str


@dataclass(frozen=True, slots=True)
class _Table:
    properties: Mapping[str, _Property]
    """Also by their aliases."""
    extra: Literal["forbid", "ignore", "allow"]


class ConfigSchema:
    """The schema of one kind of file. Not to be changed after it is made."""

    def __init__(
        self, document: Json, *, part: str | None = None, date: str = "", partial: bool = False
    ) -> None:
        """`part`: a top-level table whose content is the whole file.

        `date`: when it was taken, in words, where it is not asked of what will read the file: a key that is
        unknown here may be known there. That is a warning then, but for what looks like a slip of the pen.
        `partial`: put together from what is known, so that even that is a warning.
        """
        self.date, self.partial = date, partial
        self._definitions: dict[str, Json] = {**document.get("$defs", {}), "": document}
        if part is not None:
            (name,) = self._node(document["properties"][part]).members.values()
            self._definitions[""] = self._definitions[name]
        self._tables: dict[str, _Table] = {}

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every key by its dotted path, of all members of unions; `[]` for elements of arrays of tables."""
        return frozenset(self._keys("", "", ()))

    def has(self, key: str) -> bool:
        """Whether there is such a key, or a table of that name; numbers pick elements of arrays."""
        return re.sub(r"\.\d+(?=\.|$)", ENTRY, key) in self.keys

    def read(
        self,
        data: Mapping[str, Any],
        *,
        role: str,
        path: str = "",
        namespace: str = "",
        reader: str = "it",
        words: Words = Words(),
    ) -> Reading:
        """The file with this content. `reader`: who does not know an unknown key, in words."""
        return _Walk(self, role, path, namespace, reader, words).reading(data)

    def table(self, name: str) -> _Table:
        """A definition by its name; the whole file by the empty one."""
        if name not in self._tables:
            document = self._definitions[name]
            required = document.get("required", ())
            properties: dict[str, _Property] = {}
            for key, found in document.get("properties", {}).items():
                each = _Property(
                    key, self._node(found), found.get("default"), key in required, _first_sentence(found)
                )
                properties |= dict.fromkeys((key, *found.get("x-aliases", ())), each)
            extra = document.get("additionalProperties")
            kind: Literal["forbid", "ignore", "allow"] = (
                "ignore" if extra is None else "forbid" if extra is False else "allow"
            )
            self._tables[name] = _Table(properties, kind)
        return self._tables[name]

    def _node(self, found: Json) -> _Node:
        kinds: dict[KnobKind, None] = {}
        words: dict[str, None] = {}
        members: dict[str, str] = {}
        bounds: dict[str, float] = {}
        tag, nullable, free = "", False, False
        entries: _Node | None = None
        for each in _alternatives(found):
            if not each.keys() - {"default", "title", "description", "x-aliases"}:
                free = True  # anything
            if "$ref" in each:
                name = each["$ref"].rpartition("/")[2]
                definition = self._definitions[name]
                if "properties" in definition or definition.get("type") == "object":
                    members[str(len(members))] = name
                else:
                    inner = self._node(definition)
                    kinds |= dict.fromkeys(inner.kinds)
                    words |= dict.fromkeys(inner.words)
                    nullable, free = nullable or inner.nullable, free or inner.free
            elif "discriminator" in each:
                tag = each["discriminator"]["propertyName"]
                for word, where in each["discriminator"]["mapping"].items():
                    members[word] = where.rpartition("/")[2]
            elif each.get("type") == "null":
                nullable = True
            elif each.get("type") == "object":
                free = True
            elif "const" in each or "enum" in each:
                for choice in each.get("enum", (each.get("const"),)):
                    if isinstance(choice, str):
                        words[choice] = None
                    elif choice is not None:
                        kinds["bool" if isinstance(choice, bool) else "int"] = None
            elif each.get("type") in _KINDS:
                kind = _KINDS[each["type"]]
                items = self._node(each["items"]) if each.get("items") else _Node()
                if kind == "list" and items.members:
                    entries = items
                else:
                    kinds[kind] = None
                bounds |= {name: each[key] for key, name in _BOUNDS.items() if key in each}
        return _Node(
            tuple(kinds), tuple(words), bounds, nullable, free, self._told_apart(members, tag), tag, entries
        )

    def _told_apart(self, members: dict[str, str], tag: str) -> Mapping[str, str]:
        """Several tables without a discriminator stay as they are: any of them will do."""
        return members if tag or len(members) != 1 else {"": next(iter(members.values()))}

    def _keys(self, name: str, at: str, around: tuple[str, ...]) -> Iterator[str]:
        if around.count(name) > 1:  # a table that holds itself
            return
        for key, each in self.table(name).properties.items():
            here = at + format_key((key,))
            yield here
            inner = each.node.entries or each.node
            if each.node.entries is not None:
                here += ENTRY
                yield here
            for member in inner.members.values():
                yield from self._keys(member, f"{here}.", (*around, name))


_BOUNDS = {
    "minimum": "minimum", "maximum": "maximum", "exclusiveMinimum": "above", "exclusiveMaximum": "below",
}  # fmt: skip


def _alternatives(found: Json) -> Iterator[Json]:
    """The parts of a property that may be one of several things, without `anyOf` around them."""
    if "discriminator" in found:
        yield found
        return
    for key in ("anyOf", "oneOf", "allOf"):
        if key in found:
            for each in found[key]:
                yield from _alternatives(each)
            return
    yield found


def _first_sentence(found: Json) -> str:
    text = " ".join(str(found.get("description", "")).split())
    match = _SENTENCE.match(text)
    return match[0] if match else text


class _Walk:
    """Goes through one file and its schema side by side."""

    def __init__(
        self, schema: ConfigSchema, role: str, file: str, namespace: str, reader: str, words: Words
    ) -> None:
        self._schema, self._role, self._file, self._words = schema, role, file, words
        self._namespace, self._reader = namespace, reader
        self._prefix: Path = (namespace,) if namespace else ()
        self._knobs: list[Knob] = []
        self._values: dict[str, TomlValue] = {}
        self._problems: list[Problem] = []
        self._unknown: list[str] = []
        self._held: set[str] = set()

    def reading(self, data: Mapping[str, Any]) -> Reading:
        self._values[self._namespace] = data
        self._table(self._schema.table(""), data, (), "", {}, is_there=True)
        return Reading(
            tuple(self._knobs),
            self._values,
            tuple(self._problems),
            tuple(self._unknown),
            frozenset(self._held),
        )

    def _table(
        self, table: _Table, data: Mapping[str, Any], path: Path, at: str, base: Json, *, is_there: bool
    ) -> None:
        """`at`: the path with `[]` for elements. `base`: defaults from around, which go before its own.

        A table that is not there, and not by default either, has no values, but its knobs can be set.
        """
        done = set()
        for key, value in data.items():
            known = table.properties.get(key)
            if known is None:
                self._strange(table, value, (*path, key), _below(at, key))
            else:
                done.add(known.name)
                self._property(known, value, (*path, key), _below(at, known.name), base, is_there=is_there)
        for each in dict.fromkeys(table.properties.values()):
            if each.name not in done:
                self._property(each, None, (*path, each.name), _below(at, each.name), base, is_there=is_there)

    def _property(
        self, each: _Property, value: TomlValue, path: Path, at: str, base: Json, *, is_there: bool
    ) -> None:
        node = each.node
        default = base.get(each.name, each.default) if is_there else None
        is_none = value == NONE and not ("str" in node.kinds and not node.nullable and NONE in node.words)
        if value is None and is_there and each.required and (not node.members or not base):
            self._say(path, "is missing, and has no default")
        if is_none and not node.nullable:
            what = "a table" if node.members else "a value"
            self._say(path, f'must have {what}: "{NONE}" stands for none')
        if at in self._words.free:
            self._values.update({self._name(path): value} if value is not None and not is_none else {})
        elif node.entries is not None and not (node.kinds and value is not None and not _has_tables(value)):
            self._entries(node.entries, value, path, at)
        elif node.members:
            self._member(node, None if is_none else value, path, at, default, off=is_none, is_there=is_there)
        elif node.free and (isinstance(value, Mapping) or not (node.kinds or node.words)):
            self._values[self._name(path)] = default if value is None or is_none else value
        else:
            self._leaf(each, value, path, default, is_there=is_there, is_none=is_none)

    def _leaf(
        self,
        each: _Property,
        value: TomlValue,
        path: Path,
        default: TomlValue,
        *,
        is_there: bool,
        is_none: bool,
    ) -> None:
        node = each.node
        knob = Knob(
            format_key(path), _kind(node, value), (), each.help, default,
            nullable=node.nullable or not is_there, choices=node.words, file=self._role,
            namespace=self._namespace, **node.bounds,  # type: ignore[arg-type]  # fields by name
        )  # fmt: skip
        self._knobs.append(knob)
        self._values[knob.name] = None if is_none else default if value is None else value
        if value is not None:
            self._held.add(knob.name)
        if value is None or is_none or (node.free and not node.kinds):
            return
        fault = knob.fault(value)
        if fault is None:
            return
        read = as_read(knob, value)
        if read is not None:
            self._values[knob.name] = read
            self._say_of(path, f"{knob.name} is read as {shown(read)}: write it so", "warning")
        elif self._schema.date and isinstance(value, str) and knob.choices:
            self._say_of(path, f"{fault} ({self._as_of('the choices')})", "warning")
        else:
            self._say_of(path, fault)

    def _entries(self, node: _Node, value: TomlValue, path: Path, at: str) -> None:
        name = self._name(path)
        if value is None:
            self._values[name] = []
            return
        if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
            self._say_of(path, f"{name} must be a list of tables: write [[{format_key(path)}]]")
            return
        self._values[name] = value
        for index, entry in enumerate(value):
            self._member(node, entry, (*path, str(index)), at + ENTRY, {}, off=False, is_there=True)

    def _member(
        self,
        node: _Node,
        value: TomlValue,
        path: Path,
        at: str,
        default: TomlValue,
        *,
        off: bool,
        is_there: bool,
    ) -> None:
        name = self._name(path)
        default_table: Json = default if isinstance(default, Mapping) else {}
        is_given = isinstance(value, Mapping)
        is_on = is_there and not off and (is_given or value is True or isinstance(default, Mapping))
        if value is not None and not is_given and not isinstance(value, bool):
            if node.free or _fits(node, value):
                self._values[name] = value
            else:
                self._say_of(path, f"{name} must be a table, not {shown(value)}")
            return
        if value is False:
            is_on = False
        data: Mapping[str, Any] = value if is_given else {}
        self._values[name] = data if is_given else {} if is_on else None
        base = {} if is_given else default_table
        found = self._chosen(node, data, path, default_table, is_given=is_given)
        if found is None:
            return
        for member in found:
            self._table(self._schema.table(member), data, path, at, base, is_there=is_on)

    def _chosen(
        self, node: _Node, data: Mapping[str, Any], path: Path, default: Json, *, is_given: bool
    ) -> list[str] | None:
        """Names of the tables that apply; `None` where that cannot be said."""
        if not node.tag:
            if len(node.members) == 1:
                return list(node.members.values())
            tables = [(len(data.keys() - self._schema.table(each).properties.keys()), each)
                      for each in node.members.values()]  # fmt: skip
            return [min(tables, key=lambda item: item[0])[1]]
        tag = data.get(node.tag, default.get(node.tag, self._likely_tag(node, data)))
        if isinstance(tag, str) and tag in node.members:
            if is_given:
                self._misplaced(node, data, path, tag)
            return [node.members[tag]]
        if not is_given:
            return None
        words = ", ".join(node.members)
        message = f"{self._name((*path, node.tag))} must be one of {words}, not {shown(tag)}"
        if self._schema.date:
            self._say_of((*path, node.tag), f"{message} ({self._as_of('those')})", "warning")
        else:
            self._say_of((*path, node.tag), message)
        return None

    def _likely_tag(self, node: _Node, data: Mapping[str, Any]) -> str:
        """Of a union without a default: the first member that has most of the keys."""
        strange = {word: len(data.keys() - self._schema.table(member).properties.keys())
                   for word, member in node.members.items()}  # fmt: skip
        return min(strange, key=strange.__getitem__)

    def _misplaced(self, node: _Node, data: Mapping[str, Any], path: Path, tag: str) -> None:
        """Keys of another member than the chosen one: told as such rather than as unknown."""
        chosen = self._schema.table(node.members[tag])
        own = chosen.properties
        for key in data:
            others = [
                word
                for word, member in node.members.items()
                if key not in own and key in self._schema.table(member).properties
            ]
            if others:
                is_now = f"{self._name((*path, node.tag))} is {shown(tag)}"
                words = " or ".join(others[:4])
                here = (*path, key)
                if chosen.extra == "ignore":
                    text = f"{self._name(here)} is ignored while {is_now}: it is read with {words}"
                    self._say_of(here, text, "warning")
                else:
                    self._say(here, f"belongs to {node.tag} {words}, but {is_now}")

    def _strange(self, table: _Table, value: TomlValue, path: Path, at: str) -> None:
        if table.extra == "allow" or at in self._words.free:
            return
        name = self._name(path)
        if any(problem.key == name for problem in self._problems):
            return
        said = self._words.said(at)
        if isinstance(value, Mapping) and value and not said:
            for key, inner in value.items():
                self._strange(table, inner, (*path, key), _below(at, key))
            return
        self._unknown.append(name)
        if len(self._unknown) > _MOST_UNKNOWN:
            if len(self._unknown) == _MOST_UNKNOWN + 1:
                text = f"more than {_MOST_UNKNOWN} unknown keys: is it a config of {self._reader}?"
                self._problems.append(Problem(severity="warning", message=text, file=self._file or None))
            return
        known = [
            key for key in self._schema.keys if ENTRY not in key or key.startswith(at.partition(ENTRY)[0])
        ]
        placed = said or _elsewhere(at, known)
        slip = "" if placed else did_you_mean(at, known)
        hint = (placed or slip).replace(ENTRY, "")
        if table.extra == "ignore":
            nobody = hint or f"{self._reader} does not know it"
            self._say_of(path, f"{name} is ignored without a word: {nobody}", "warning")
        elif self._schema.date:
            text = f"{UNKNOWN}{name}: {hint or 'it may be newer, or older'} ({self._as_of(self._reader)})"
            is_sure = slip and not self._schema.partial and at.rpartition(".")[0] not in self._words.foreign
            self._say_of(path, text, "error" if is_sure else "warning")
        else:
            self._say_of(path, f"{UNKNOWN}{name}: {hint or f'{self._reader} does not know it'}")

    def _as_of(self, what: str) -> str:
        return f"rltui knows {what} as of {self._schema.date}"

    def _name(self, path: Path) -> str:
        return format_key((*self._prefix, *path))

    def _say(self, path: Path, what: str) -> None:
        self._say_of(path, f"{self._name(path)} {what}")

    def _say_of(self, path: Path, message: str, severity: Literal["error", "warning"] = "error") -> None:
        self._problems.append(
            Problem(severity=severity, key=self._name(path), message=message, file=self._file or None)
        )


def _below(at: str, key: str) -> str:
    return f"{at}.{format_key((key,))}" if at else format_key((key,))


def _has_tables(value: TomlValue) -> bool:
    return isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)


def _kind(node: _Node, value: TomlValue) -> KnobKind:
    """As what a value is edited: what it is now, where it may be several things."""
    if not node.kinds:
        return "enum" if node.words else "str"
    return next((kind for kind in node.kinds if _is(kind, value)), node.kinds[0])


def _is(kind: KnobKind, value: TomlValue) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list":
            return isinstance(value, list)
        case _:
            return isinstance(value, str)


def _fits(node: _Node, value: TomlValue) -> bool:
    """Whether a value that is no table may stand in its place."""
    return (
        value in node.words
        if isinstance(value, str) and node.words
        else any(_is(kind, value) for kind in node.kinds)
    )


def _elsewhere(key: str, known: list[str]) -> str:
    """A known key that lacks only outer tables, or one of the same last name: set in the wrong table."""
    top, leaf = key.partition(".")[0], key.rpartition(".")[2]
    found = [name for name in known if name.endswith(f".{key}")]
    if not found and any(name.partition(".")[0] == top for name in known):
        found = [name for name in known if name.rpartition(".")[2] == leaf]
    return f"did you mean {' or '.join(sorted(found)[:4])}?" if found else ""
