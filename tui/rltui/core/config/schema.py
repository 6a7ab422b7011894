"""Reads config files by the JSON Schema of a framework's pydantic models: knobs, values and problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from rltui.base.text import did_you_mean
from rltui.base.toml.values import TomlValue, format_key
from rltui.core.config.json_schema import ENTRY, Json, Node, Property, SchemaTable, SchemaTables, parts
from rltui.core.config.knobs import Knob, KnobKind, coerce_value, display, is_of_kind
from rltui.core.config.report import Problem

_UNKNOWN = "unknown key "
"""First words of a problem with a key that the schema lacks."""
NONE = "None"
"""Text that stands for no value, as prime-rl has it."""
_MOST_UNKNOWN = 50
"""Limit per file: each unknown key is compared with all known keys."""
_DEEPEST = 32
"""Depth of nested tables below which nothing is checked."""


@dataclass(frozen=True, slots=True)
class SchemaHints:
    """Facts about keys that no schema tells, supplied by an overlay."""

    free: frozenset[str] = frozenset()
    """Keys below which another program's config begins: they are not checked."""
    foreign: frozenset[str] = frozenset()
    """Tables that another package defines, in releases of its own: an unknown key there is only a warning."""
    switches: frozenset[str] = frozenset()
    """Tables that `true` may stand for, with their defaults, and `false` for their absence."""
    explain: Callable[[str], str] = lambda _: ""
    """Unknown key → text to use instead of a guess, such as its name here."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One file as its schema has it.

    Names of keys begin with the namespace of the file, and are spelled as there: with aliases where it has
    some.
    """

    knobs: tuple[Knob, ...]
    """Every value that can be set, in the schema's order; for unions, those of the chosen member."""
    values: Mapping[str, TomlValue]
    """Name → effective value of each knob: the file's value as pydantic reads it, else the default. Also
    every table that exists, an empty one if it exists by default, and `None` for one that is off.
    """
    problems: tuple[Problem, ...]
    unknown: tuple[str, ...]
    set_names: frozenset[str]
    """Names of the knobs that the file sets, even to no value."""
    faulty: frozenset[str]
    """Names of values that have a wrong type, are out of bounds, or are missing."""
    may_be_other: bool
    """Unknown keys may be known to another release than that of the schema."""


class ConfigSchema:
    """The schema of one kind of file. Must not be changed after construction."""

    def __init__(
        self,
        document: Json,
        *,
        part: str | None = None,
        date: str = "",
        partial: bool = False,
        none: str | None = NONE,
    ) -> None:
        """Prepare a schema.

        Args:
            document: the JSON Schema.
            part: a top-level table whose content is the whole file.
            date: when it was taken, in words, if it is not of the program that will read the file: a key
                that is unknown here may be known there. That is a warning then, unless it looks like a typo.
            partial: incomplete, so that even a likely typo is a warning.
            none: text that stands for no value.
        """
        self.date, self.partial, self.none = date, partial, none
        self.tables = SchemaTables(document, part=part)
        self.known_by_reader: dict[tuple[object, ...], _Known] = {}
        """The knobs of files that are read alike: most keys of a schema are in none of them."""

    @property
    def keys(self) -> frozenset[str]:
        """Every key by its dotted path, of all members of unions; `[]` for elements of arrays of tables."""
        return self.tables.keys

    def has(self, key: str) -> bool:
        """Whether such a key, or a table of that name, exists; numbers pick elements of arrays."""
        if key in self.keys:
            return True
        path = ""
        for segment in parts(key):
            path = (
                path + ENTRY
                if segment.isdecimal() and path + ENTRY in self.keys
                else f"{path}.{segment}".lstrip(".")
            )
        return path in self.keys

    def read(
        self,
        data: Mapping[str, Any],
        *,
        role: str,
        path: str = "",
        namespace: str = "",
        reader: str = "it",
        hints: SchemaHints = SchemaHints(),
    ) -> Reading:
        """The file with this content. `reader`: name of its reader for messages about unknown keys."""
        return _Walk(self, role, path, namespace, reader, hints).reading(data)

    def misfit_count(self, data: Mapping[str, Any], free: frozenset[str] = frozenset()) -> int:
        """Number of keys of the file that the schema lacks, or has with other values: a measure of the
        misfit.
        """
        reading = self._brief(data, free)
        return len({*reading.unknown, *reading.faulty})

    def unknown_keys(self, data: Mapping[str, Any], free: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Keys of the file that the schema lacks, or arrays of tables."""
        return self._brief(data, free).unknown

    def _brief(self, data: Mapping[str, Any], free: frozenset[str]) -> Reading:
        return _Walk(self, "", "", "", "", SchemaHints(free), is_brief=True).reading(data)


@dataclass(frozen=True, slots=True)
class _Position:
    name: str
    """Name in the file, after the namespace."""
    key: str = ""
    """Key in `ConfigSchema.keys`: without namespace and aliases."""
    depth: int = 0
    enclosing: frozenset[str] = frozenset()
    """Names of the tables that enclose it."""

    def child(self, key: str, own: str = "") -> _Position:
        """A key of the table here, and its own name if that is another."""
        here = format_key((key,))
        own = format_key((own,)) if own and own != key else here
        name, schema_key = (
            f"{self.name}.{here}" if self.name else here,
            f"{self.key}.{own}" if self.key else own,
        )
        return _Position(name, schema_key, self.depth + 1, self.enclosing)

    def element(self, index: int) -> _Position:
        return _Position(f"{self.name}.{index}", self.key + ENTRY, self.depth + 1, self.enclosing)

    def within(self, table: str) -> _Position:
        return _Position(self.name, self.key, self.depth, self.enclosing | {table})


class _Unset(NamedTuple):
    """A key that is not set, with all below it."""

    knobs: tuple[Knob, ...]
    values: Mapping[str, TomlValue]


class _Known(NamedTuple):
    """The knobs of files that are read alike, by their places and the ids of their defaults, which live as
    long as the schema.
    """

    unset: dict[tuple[object, ...], _Unset]
    knobs: dict[tuple[object, ...], Knob]


class _Walk:
    def __init__(
        self, schema: ConfigSchema, role: str, file: str, namespace: str, reader: str, words: SchemaHints, *,
        is_brief: bool = False,
    ) -> None:  # fmt: skip
        """`is_brief`: collect only the keys of the file, and make no guesses."""
        self._is_brief = is_brief
        self._schema, self._role, self._file, self._words = schema, role, file or None, words
        self._namespace, self._reader = namespace, reader
        alike = (role, namespace, words.free, words.switches)
        self._known = schema.known_by_reader.setdefault(alike, _Known({}, {}))
        self._knobs: list[Knob] = []
        self._values: dict[str, TomlValue] = {}
        self._problems: list[Problem] = []
        self._unknown: list[str] = []
        self._set_names: set[str] = set()
        self._faulty: set[str] = set()
        self._may_be_other = False

    def reading(self, data: Mapping[str, Any]) -> Reading:
        self._values[self._namespace] = data
        self._table(self._schema.tables[""], data, _Position(self._namespace), {}, is_on=True)
        return Reading(
            tuple(self._knobs), self._values, tuple(self._problems), tuple(self._unknown),
            frozenset(self._set_names), frozenset(self._faulty), self._may_be_other,
        )  # fmt: skip

    def _table(
        self, table: SchemaTable, data: Mapping[str, Any], position: _Position, default: Json, *, is_on: bool,
        union: Node | None = None,
    ) -> None:  # fmt: skip
        """Read one table.

        `default`: of the whole table, which precedes those of its keys. A table that is not on has no values,
        but its knobs can be set. `union`: the union it was chosen from.
        """
        keys_by_name: dict[str, list[str]] = {}
        for key, value in data.items():
            if prop_ := table.by_key.get(key):
                keys_by_name.setdefault(prop_.name, []).append(key)
            elif table.extra != "allow" and not self._is_misplaced(union, table, position, key):
                self._strange(table, value, position.child(key))
        for prop in table.properties:
            for key in keys_by_name.get(prop.name, () if self._is_brief else (prop.name,)):
                if union is not None and prop.name == union.tag:
                    prop = replace(prop, node=replace(prop.node, words=tuple(union.members)))
                child = position.child(key, prop.name)
                if key in data:
                    self._property(prop, data[key], child, default, is_on=is_on)
                else:
                    self._unset_property(prop, child, default, is_on=is_on)

    def _unset_property(self, prop: Property, position: _Position, defaults: Json, *, is_on: bool) -> None:
        has_default = prop.name in defaults
        default = defaults[prop.name] if has_default else prop.default
        key = (position, is_on, has_default, id(default))
        unset = self._known.unset.get(key)
        if unset is None:
            outer_knobs, outer_values, problems = self._knobs, self._values, len(self._problems)
            self._knobs, self._values = [], {}
            self._property(prop, None, position, defaults, is_on=is_on)
            unset = _Unset(tuple(self._knobs), self._values)
            self._knobs, self._values = outer_knobs, outer_values
            if len(self._problems) == problems:  # those name the file
                self._known.unset[key] = unset
        self._knobs += unset.knobs
        self._values |= unset.values

    def _property(
        self, prop: Property, value: TomlValue, position: _Position, defaults: Json, *, is_on: bool
    ) -> None:
        node = prop.node
        default_value = defaults.get(prop.name, prop.default) if is_on else None
        is_none = value is not None and value == self._schema.none
        if value is None and is_on and prop.required and prop.name not in defaults:
            self._fault(position, "is required")
        if is_none and not node.nullable:
            kind = "table" if node.members else "value"
            self._fault(position, f'needs a {kind}: "{self._schema.none}" means none')
        set_value, default = (None, None) if is_none else (value, default_value)
        effective = default if set_value is None else set_value
        is_table, is_plain = isinstance(set_value, Mapping), bool(node.kinds or node.words)
        if position.key in self._words.free:
            if set_value is not None:
                self._set(position, set_value)
        elif node.entries is not None and (not node.kinds or set_value is None or _has_tables(set_value)):
            self._entries(node, effective, position, is_given=set_value is not None)
        elif node.members and (effective is None or isinstance(effective, Mapping) or not is_plain):
            self._member(node, set_value, position, default, is_on=is_on)
        elif node.free and (is_table or not is_plain):
            self._set(position, effective)
            if node.any_table and not (set_value is None or is_table):
                self._fault(position, f"must be a table, not {display(set_value, key=position.key)}")
        else:
            self._leaf(prop, value, position, default_value, is_on=is_on)

    def _leaf(
        self, prop: Property, value: TomlValue, position: _Position, default: TomlValue, *, is_on: bool
    ) -> None:
        node, kind = prop.node, _kind(prop.node, value)
        key = (position, is_on, kind, id(default))
        knob = self._known.knobs.get(key)
        if knob is None:
            knob = self._known.knobs[key] = Knob(
                self._key(position), kind, (), prop.help, default,
                nullable=node.nullable or not is_on, choices=node.words, file=self._role,
                namespace=self._namespace, **node.bounds,  # type: ignore[arg-type]  # fields by name
            )  # fmt: skip
        self._knobs.append(knob)
        if value is None:
            self._set(position, default)
            return
        self._set_names.add(knob.name)
        self._set(position, None if value == self._schema.none else value)
        is_free = value == self._schema.none or (node.free_entries and _has_tables(value))
        fault = None if is_free else knob.fault(value)
        if fault is None:
            self._length(node, value, position)
        elif (coerced := coerce_value(knob, value)) is not None:
            self._set(position, coerced)
            self._problem(
                position, f"{knob.name} is read as {display(coerced)}; write {display(coerced)}", "warning"
            )
        elif self._schema.date and isinstance(value, str) and knob.choices:
            self._problem(position, f"{fault} ({self._as_of('the choices')})", "warning")
        else:
            self._wrong(position, fault)

    def _entries(self, node: Node, value: TomlValue, position: _Position, *, is_given: bool) -> None:
        if is_given and not (isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value)):
            self._fault(position, f"must be a list of tables: write [[{self._key(position)}]]")
            return
        self._set(position, value)
        if is_given and node.entries is not None:
            self._length(node, value, position)
            for index, entry in enumerate(value):
                self._member(node.entries, entry, position.element(index), None, is_on=True)

    def _length(self, node: Node, value: TomlValue, position: _Position) -> None:
        least, most = node.lengths
        if isinstance(value, list) and len(value) < least:
            self._fault(position, f"must have at least {least} element{'s'[least == 1 :]}, not {len(value)}")
        elif isinstance(value, list) and most is not None and len(value) > most:
            self._fault(position, f"must have at most {most} element{'s'[most == 1 :]}, not {len(value)}")

    def _member(
        self, node: Node, value: TomlValue, position: _Position, default: TomlValue, *, is_on: bool
    ) -> None:
        """Read a table. `default`: `None` if it is off unless it is set."""
        if isinstance(value, bool) and position.key in self._words.switches:
            is_on, value, default = is_on and value, None, {} if value else None
        if value is not None and not isinstance(value, Mapping):
            if node.free:
                self._set(position, value)
            else:
                self._fault(position, f"must be a table, not {display(value, key=position.key)}")
            return
        is_on = is_on and (value is not None or default is not None)
        self._set(position, value if value is not None else {} if is_on else None)
        defaults: Json = default if isinstance(default, Mapping) else {}
        member = self._member_table(node, value, position, defaults)
        is_recursive = member in position.enclosing and value is None
        if member is None or is_recursive or position.depth > _DEEPEST:
            return
        inner, inherited = self._schema.tables[member], defaults if value is None else {}
        self._table(inner, value or {}, position.within(member), inherited, is_on=is_on, union=node)

    def _member_table(self, node: Node, value: Json | None, position: _Position, default: Json) -> str | None:
        """Name of the table that applies; `None` if that is unclear."""
        data = value or {}
        lacking = {
            tag: len(data.keys() - self._schema.tables[table_name].by_key.keys())
            for tag, table_name in node.members.items()
        }
        likely = min(lacking, key=lacking.__getitem__)
        if not node.tag:
            return node.members[likely]
        tag = data.get(node.tag, default.get(node.tag, likely))
        if isinstance(tag, str) and tag in node.members:
            return node.members[tag]
        if value is not None:
            message = f"must be one of {', '.join(node.members)}, not {display(tag)}"
            if self._schema.date:
                name = position.child(node.tag).name
                self._problem(
                    position.child(node.tag), f"{name} {message} ({self._as_of('those')})", "warning"
                )
            else:
                self._fault(position.child(node.tag), message)
        return None

    def _is_misplaced(self, union: Node | None, member: SchemaTable, position: _Position, key: str) -> bool:
        """Whether a key belongs to another member than `member`: reported as such rather than as
        unknown.
        """
        tables = self._schema.tables
        tags = {tag: tables[table] for tag, table in union.members.items()} if union and union.tag else {}
        others = [tag for tag, table in tags.items() if key in table.by_key]
        if union is None or not others:
            return False
        here, owners = position.child(key), " or ".join(others[:4])
        present_tag = next(tag for tag, table in tags.items() if table is member)
        is_now = f"{position.child(union.tag).name} is {display(present_tag)}"
        if member.extra == "ignore":
            text = f"{here.name} is ignored while {is_now}; only {owners} reads it"
            self._problem(here, text, "warning")
        else:
            self._unknown.append(here.name)
            self._problem(here, f"{here.name} belongs to {union.tag} {owners}, but {is_now}")
        return True

    def _strange(self, table: SchemaTable, value: TomlValue, position: _Position) -> None:
        """Report a key that the table lacks, or a table of such keys."""
        explanation = self._words.explain(position.key)
        if isinstance(value, Mapping) and value and not explanation and position.depth < _DEEPEST:
            for key, inner in value.items():
                self._strange(table, inner, position.child(key))
            return
        if self._is_brief and table.extra == "ignore":
            return  # it is taken
        name = position.name
        self._unknown.append(name)
        if self._is_brief:
            return
        if len(self._unknown) > _MOST_UNKNOWN:
            if len(self._unknown) == _MOST_UNKNOWN + 1:
                text = f"more than {_MOST_UNKNOWN} unknown keys: is this a config for {self._reader}?"
                self._problems.append(Problem(severity="warning", message=text, file=self._file))
            return
        start = position.key.partition(ENTRY)[0]
        known_keys = [key for key in self._schema.keys if ENTRY not in key or key.startswith(start)]
        correction = explanation or _key_in_other_table(position.key, known_keys)
        slip = "" if correction else did_you_mean(position.key, known_keys)
        hint = (correction or slip).replace(ENTRY, "")
        if table.extra == "ignore":
            reason = hint or f"{self._reader} has no such key"
            self._problem(position, f"{name} is silently ignored: {reason}", "warning")
        elif not self._schema.date:
            self._problem(position, f"{_UNKNOWN}{name}: {hint or f'{self._reader} has no such key'}")
        else:
            is_foreign = position.key.rpartition(".")[0] in self._words.foreign
            severity = self._of_date(is_slip=bool(slip) and not is_foreign)
            text = (
                f"{_UNKNOWN}{name}: {hint or 'possibly from a newer or older version'}"
                f" ({self._as_of(self._reader)})"
            )
            self._problem(position, text, severity)

    def _of_date(self, *, is_slip: bool) -> Literal["error", "warning"]:
        if is_slip and not self._schema.partial:
            return "error"
        self._may_be_other = True
        return "warning"

    def _as_of(self, what: str) -> str:
        return f"rltui knows {what} as of {self._schema.date}"

    def _key(self, position: _Position) -> str:
        return position.name.removeprefix(f"{self._namespace}.") if self._namespace else position.name

    def _set(self, position: _Position, value: TomlValue) -> None:
        self._values[position.name] = value

    def _fault(self, position: _Position, what: str) -> None:
        self._wrong(position, f"{position.name} {what}")

    def _wrong(self, position: _Position, message: str) -> None:
        self._faulty.add(position.name)
        self._problem(position, message)

    def _problem(
        self, position: _Position, message: str, severity: Literal["error", "warning"] = "error"
    ) -> None:
        key = position.name
        self._problems.append(Problem(severity=severity, key=key, message=message, file=self._file))


def _has_tables(value: TomlValue) -> bool:
    return isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)


def _kind(node: Node, value: TomlValue) -> KnobKind:
    """The kind that a value is edited as: its present kind, if several are possible."""
    if not node.kinds:
        return "enum" if node.words else "str"
    return next((kind for kind in node.kinds if is_of_kind(kind, value)), node.kinds[0])


def _key_in_other_table(key: str, known_keys: Sequence[str]) -> str:
    """A known key that lacks only outer tables, or one of the same last name: set in the wrong table."""
    top, leaf = key.partition(".")[0], key.rpartition(".")[2]
    matches = [name for name in known_keys if name.endswith(f".{key}")]
    if not matches and any(name.partition(".")[0] == top for name in known_keys):
        matches = [name for name in known_keys if name.rpartition(".")[2] == leaf]
    return f"did you mean {' or '.join(sorted(matches)[:4])}?" if matches else ""
