"""Config files by the JSON Schema of a framework's pydantic models: their knobs, values and problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rltui.core.config_report import Problem
from rltui.core.json_schema import ENTRY, Json, Node, Property, SchemaTable, SchemaTables, parts
from rltui.core.knobs import Knob, KnobKind, as_read, is_of_kind, shown
from rltui.core.text import did_you_mean
from rltui.core.toml.values import TomlValue, format_key

_UNKNOWN = "unknown key "
"""How a problem with a key that the schema lacks begins."""
NONE = "None"
"""Text that stands for no value, as prime-rl has it."""
_MOST_UNKNOWN = 50
"""Of one file: each is compared with all known keys."""
_DEEPEST = 32
"""Tables within tables; nobody looks into what is below."""


@dataclass(frozen=True, slots=True)
class Words:
    """What an overlay has to say of keys that no schema tells."""

    free: frozenset[str] = frozenset()
    """Keys below which another program's config begins: nobody looks into them."""
    foreign: frozenset[str] = frozenset()
    """Tables that another package defines, in releases of its own: an unknown key there is only doubtful."""
    switches: frozenset[str] = frozenset()
    """Tables that `true` may stand for, with their defaults, and `false` for their absence."""
    said: Callable[[str], str] = lambda _: ""
    """By unknown key: what to say instead of guessing, such as its name here."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One file as its schema has it. Names of keys begin with the namespace of the file, and are spelled as
    there: with aliases where it has some.
    """

    knobs: tuple[Knob, ...]
    """Every value that can be set, in the schema's order; of unions, what the chosen member has."""
    values: Mapping[str, TomlValue]
    """By name, what each knob amounts to: the file's value as pydantic reads it, else the default. Also every
    table that is there, an empty one where it is there by default, and `None` for one that is off."""
    problems: tuple[Problem, ...]
    unknown: tuple[str, ...]
    held: frozenset[str]
    """Names of the knobs that the file sets, if only to no value."""
    faulty: frozenset[str]
    """Names of what has a wrong type, is out of bounds, or is missing."""
    may_be_other: bool
    """Whether unknown keys may be known to another release than that of the schema."""


class ConfigSchema:
    """The schema of one kind of file. Not to be changed after it is made."""

    def __init__(
        self,
        document: Json,
        *,
        part: str | None = None,
        date: str = "",
        partial: bool = False,
        none: str | None = NONE,
    ) -> None:
        """`part`: a top-level table whose content is the whole file.

        `date`: when it was taken, in words, where it is not asked of what will read the file: a key that is
        unknown here may be known there. That is a warning then, but for what looks like a slip of the pen.
        `partial`: put together from what is known, so that even that is a warning. `none`: text that stands
        for no value.
        """
        self.date, self.partial, self.none = date, partial, none
        self.tables = SchemaTables(document, part=part)

    @property
    def keys(self) -> frozenset[str]:
        """Every key by its dotted path, of all members of unions; `[]` for elements of arrays of tables."""
        return self.tables.keys

    def has(self, key: str) -> bool:
        """Whether there is such a key, or a table of that name; numbers pick elements of arrays."""
        if key in self.keys:
            return True
        at = ""
        for part in parts(key):
            at = at + ENTRY if part.isdecimal() and at + ENTRY in self.keys else f"{at}.{part}".lstrip(".")
        return at in self.keys

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

    def strange(self, data: Mapping[str, Any], free: frozenset[str] = frozenset()) -> int:
        """How many keys of the file the schema lacks, or has with other values: how badly it fits."""
        walk = _Walk(self, "", "", "", "", Words(free), is_brief=True)
        reading = walk.reading(data)
        return len({*reading.unknown, *reading.faulty})


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    """As in the file, behind the namespace."""
    key: str = ""
    """As in `ConfigSchema.keys`: without namespace and aliases."""
    depth: int = 0
    around: frozenset[str] = frozenset()
    """Names of the tables that it is in."""

    def at(self, key: str, own: str = "") -> _Place:
        """A key of the table here, and its own name where that is another."""
        here = format_key((key,))
        own = format_key((own,)) if own and own != key else here
        name, known = f"{self.name}.{here}" if self.name else here, f"{self.key}.{own}" if self.key else own
        return _Place(name, known, self.depth + 1, self.around)

    def element(self, index: int) -> _Place:
        return _Place(f"{self.name}.{index}", self.key + ENTRY, self.depth + 1, self.around)

    def within(self, table: str) -> _Place:
        return _Place(self.name, self.key, self.depth, self.around | {table})


class _Walk:
    def __init__(
        self, schema: ConfigSchema, role: str, file: str, namespace: str, reader: str, words: Words, *,
        is_brief: bool = False,
    ) -> None:  # fmt: skip
        """`is_brief`: only what the file holds, and without guesses at what was meant."""
        self._is_brief = is_brief
        self._schema, self._role, self._file, self._words = schema, role, file or None, words
        self._namespace, self._reader = namespace, reader
        self._knobs: list[Knob] = []
        self._values: dict[str, TomlValue] = {}
        self._problems: list[Problem] = []
        self._unknown: list[str] = []
        self._held: set[str] = set()
        self._faulty: set[str] = set()
        self._may_be_other = False

    def reading(self, data: Mapping[str, Any]) -> Reading:
        self._values[self._namespace] = data
        self._table(self._schema.tables[""], data, _Place(self._namespace), {}, is_on=True)
        return Reading(
            tuple(self._knobs), self._values, tuple(self._problems), tuple(self._unknown),
            frozenset(self._held), frozenset(self._faulty), self._may_be_other,
        )  # fmt: skip

    def _table(
        self, table: SchemaTable, data: Mapping[str, Any], place: _Place, default: Json, *, is_on: bool,
        union: Node | None = None,
    ) -> None:  # fmt: skip
        """`default`: of the whole table, which goes before those of its keys.

        A table that is not on has no values, but its knobs can be set. `union`: what
        it was chosen from.
        """
        given: dict[str, list[str]] = {}
        for key, value in data.items():
            if known := table.by_key.get(key):
                given.setdefault(known.name, []).append(key)
            elif table.extra != "allow" and not self._misplaced(union, table, place, key):
                self._strange(table, value, place.at(key))
        for each in table.properties:
            for key in given.get(each.name, () if self._is_brief else (each.name,)):
                if union is not None and each.name == union.tag:
                    each = replace(each, node=replace(each.node, words=tuple(union.members)))
                self._property(each, data.get(key), place.at(key, each.name), default, is_on=is_on)

    def _property(
        self, each: Property, value: TomlValue, place: _Place, defaults: Json, *, is_on: bool
    ) -> None:
        node = each.node
        usual = defaults.get(each.name, each.default) if is_on else None
        is_none = value is not None and value == self._schema.none
        if value is None and is_on and each.required and each.name not in defaults:
            self._fault(place, "is missing, and has no default")
        if is_none and not node.nullable:
            what = "a table" if node.members else "a value"
            self._fault(place, f'must have {what}: "{self._schema.none}" stands for none')
        given, default = (None, None) if is_none else (value, usual)
        amounts = default if given is None else given
        is_table, is_plain = isinstance(given, Mapping), bool(node.kinds or node.words)
        if place.key in self._words.free:
            if given is not None:
                self._set(place, given)
        elif node.entries is not None and (not node.kinds or given is None or _has_tables(given)):
            self._entries(node, amounts, place, is_given=given is not None)
        elif node.members and (amounts is None or isinstance(amounts, Mapping) or not is_plain):
            self._member(node, given, place, default, is_on=is_on)
        elif node.free and (is_table or not is_plain):
            self._set(place, amounts)
            if node.any_table and not (given is None or is_table):
                self._fault(place, f"must be a table, not {shown(given, key=place.key)}")
        else:
            self._leaf(each, value, place, usual, is_on=is_on)

    def _leaf(
        self, each: Property, value: TomlValue, place: _Place, default: TomlValue, *, is_on: bool
    ) -> None:
        node = each.node
        knob = Knob(
            self._key(place), _kind(node, value), (), each.help, default,
            nullable=node.nullable or not is_on, choices=node.words, file=self._role,
            namespace=self._namespace, **node.bounds,  # type: ignore[arg-type]  # fields by name
        )  # fmt: skip
        self._knobs.append(knob)
        if value is None:
            self._set(place, default)
            return
        self._held.add(knob.name)
        self._set(place, None if value == self._schema.none else value)
        is_free = value == self._schema.none or (node.free_entries and _has_tables(value))
        fault = None if is_free else knob.fault(value)
        if fault is None:
            self._length(node, value, place)
        elif (read := as_read(knob, value)) is not None:
            self._set(place, read)
            self._problem(place, f"{knob.name} is read as {shown(read)}: write it so", "warning")
        elif self._schema.date and isinstance(value, str) and knob.choices:
            self._problem(place, f"{fault} ({self._as_of('the choices')})", "warning")
        else:
            self._wrong(place, fault)

    def _entries(self, node: Node, value: TomlValue, place: _Place, *, is_given: bool) -> None:
        if is_given and not (isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value)):
            self._fault(place, f"must be a list of tables: write [[{self._key(place)}]]")
            return
        self._set(place, value)
        if is_given and node.entries is not None:
            self._length(node, value, place)
            for index, entry in enumerate(value):
                self._member(node.entries, entry, place.element(index), None, is_on=True)

    def _length(self, node: Node, value: TomlValue, place: _Place) -> None:
        least, most = node.lengths
        if isinstance(value, list) and len(value) < least:
            self._fault(place, f"must have at least {least} element{'s'[least == 1 :]}, not {len(value)}")
        elif isinstance(value, list) and most is not None and len(value) > most:
            self._fault(place, f"must have at most {most} element{'s'[most == 1 :]}, not {len(value)}")

    def _member(
        self, node: Node, value: TomlValue, place: _Place, default: TomlValue, *, is_on: bool
    ) -> None:
        """A table. `default`: `None` where it is off unless it is given."""
        if isinstance(value, bool) and place.key in self._words.switches:
            is_on, value, default = is_on and value, None, {} if value else None
        if value is not None and not isinstance(value, Mapping):
            if node.free:
                self._set(place, value)
            else:
                self._fault(place, f"must be a table, not {shown(value, key=place.key)}")
            return
        is_on = is_on and (value is not None or default is not None)
        self._set(place, value if value is not None else {} if is_on else None)
        usual: Json = default if isinstance(default, Mapping) else {}
        member = self._chosen(node, value, place, usual)
        is_recursive = member in place.around and value is None
        if member is None or is_recursive or place.depth > _DEEPEST:
            return
        inner, around = self._schema.tables[member], usual if value is None else {}
        self._table(inner, value or {}, place.within(member), around, is_on=is_on, union=node)

    def _chosen(self, node: Node, value: Json | None, place: _Place, default: Json) -> str | None:
        """Name of the table that applies; `None` where that cannot be said."""
        data = value or {}
        lacking = {
            tag: len(data.keys() - self._schema.tables[each].by_key.keys())
            for tag, each in node.members.items()
        }
        likely = min(lacking, key=lacking.__getitem__)
        if not node.tag:
            return node.members[likely]
        tag = data.get(node.tag, default.get(node.tag, likely))
        if isinstance(tag, str) and tag in node.members:
            return node.members[tag]
        if value is not None:
            message = f"must be one of {', '.join(node.members)}, not {shown(tag)}"
            if self._schema.date:
                name = place.at(node.tag).name
                self._problem(place.at(node.tag), f"{name} {message} ({self._as_of('those')})", "warning")
            else:
                self._fault(place.at(node.tag), message)
        return None

    def _misplaced(self, union: Node | None, chosen: SchemaTable, place: _Place, key: str) -> bool:
        """Whether a key is one of other members than the chosen one: told as such rather than as unknown."""
        tables = self._schema.tables
        tags = {tag: tables[each] for tag, each in union.members.items()} if union and union.tag else {}
        others = [tag for tag, each in tags.items() if key in each.by_key]
        if union is None or not others:
            return False
        here, meant = place.at(key), " or ".join(others[:4])
        now = next(tag for tag, each in tags.items() if each is chosen)
        is_now = f"{place.at(union.tag).name} is {shown(now)}"
        if chosen.extra == "ignore":
            text = f"{here.name} is ignored while {is_now}: it is read with {meant}"
            self._problem(here, text, "warning")
        else:
            self._unknown.append(here.name)
            self._problem(here, f"{here.name} belongs to {union.tag} {meant}, but {is_now}")
        return True

    def _strange(self, table: SchemaTable, value: TomlValue, place: _Place) -> None:
        """A key that the table lacks, or a table of such."""
        said = self._words.said(place.key)
        if isinstance(value, Mapping) and value and not said and place.depth < _DEEPEST:
            for key, inner in value.items():
                self._strange(table, inner, place.at(key))
            return
        if self._is_brief and table.extra == "ignore":
            return  # it is taken
        name = place.name
        self._unknown.append(name)
        if self._is_brief:
            return
        if len(self._unknown) > _MOST_UNKNOWN:
            if len(self._unknown) == _MOST_UNKNOWN + 1:
                text = f"more than {_MOST_UNKNOWN} unknown keys: is it a config of {self._reader}?"
                self._problems.append(Problem(severity="warning", message=text, file=self._file))
            return
        start = place.key.partition(ENTRY)[0]
        known = [key for key in self._schema.keys if ENTRY not in key or key.startswith(start)]
        placed = said or _elsewhere(place.key, known)
        slip = "" if placed else did_you_mean(place.key, known)
        hint = (placed or slip).replace(ENTRY, "")
        if table.extra == "ignore":
            nobody = hint or f"{self._reader} does not know it"
            self._problem(place, f"{name} is ignored without a word: {nobody}", "warning")
        elif not self._schema.date:
            self._problem(place, f"{_UNKNOWN}{name}: {hint or f'{self._reader} does not know it'}")
        else:
            is_foreign = place.key.rpartition(".")[0] in self._words.foreign
            severity = self._of_date(is_slip=bool(slip) and not is_foreign)
            text = f"{_UNKNOWN}{name}: {hint or 'it may be newer, or older'} ({self._as_of(self._reader)})"
            self._problem(place, text, severity)

    def _of_date(self, *, is_slip: bool) -> Literal["error", "warning"]:
        if is_slip and not self._schema.partial:
            return "error"
        self._may_be_other = True
        return "warning"

    def _as_of(self, what: str) -> str:
        return f"rltui knows {what} as of {self._schema.date}"

    def _key(self, place: _Place) -> str:
        return place.name.removeprefix(f"{self._namespace}.") if self._namespace else place.name

    def _set(self, place: _Place, value: TomlValue) -> None:
        self._values[place.name] = value

    def _fault(self, place: _Place, what: str) -> None:
        self._wrong(place, f"{place.name} {what}")

    def _wrong(self, place: _Place, message: str) -> None:
        self._faulty.add(place.name)
        self._problem(place, message)

    def _problem(self, place: _Place, message: str, severity: Literal["error", "warning"] = "error") -> None:
        key = place.name
        self._problems.append(Problem(severity=severity, key=key, message=message, file=self._file))


def _has_tables(value: TomlValue) -> bool:
    return isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)


def _kind(node: Node, value: TomlValue) -> KnobKind:
    """As what a value is edited: what it is now, where it may be several things."""
    if not node.kinds:
        return "enum" if node.words else "str"
    return next((kind for kind in node.kinds if is_of_kind(kind, value)), node.kinds[0])


def _elsewhere(key: str, known: Sequence[str]) -> str:
    """A known key that lacks only outer tables, or one of the same last name: set in the wrong table."""
    top, leaf = key.partition(".")[0], key.rpartition(".")[2]
    found = [name for name in known if name.endswith(f".{key}")]
    if not found and any(name.partition(".")[0] == top for name in known):
        found = [name for name in known if name.rpartition(".")[2] == leaf]
    return f"did you mean {' or '.join(sorted(found)[:4])}?" if found else ""
