"""Config files of one generation written for a later one, each key with what became of it and why.

What was renamed is in `data/concepts.toml`, what else has changed in `data/migration.toml`, and which keys a
release has in its schema. A file goes through all releases with a schema, one after the other.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from itertools import pairwise
from typing import Any

from rltui.base.toml import edit
from rltui.base.toml.rearrange import (
    empty_headers,
    nested,
    rearranged,
    unnested,
    with_inline_tables,
    without_header,
)
from rltui.base.toml.values import TomlValue, format_key, format_value, same_value, split_key
from rltui.core.config.data import changed_keys, deep_leaves, value_at
from rltui.core.config.equivalence import Moved
from rltui.core.config.knobs import display
from rltui.core.config.report import KeyChange
from rltui.core.config.schema import ConfigSchema, SchemaHints
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFile, Parsed
from rltui.frameworks.migration import ConfigRelease, Migrated, MigratedFile
from rltui.frameworks.prime_rl import configs
from rltui.frameworks.prime_rl.values import data_file, known_renderers
from rltui.frameworks.verifiers.files import is_vf_rl

Path = tuple[str | int, ...]
"""Keys from the root down; a number picks an element of an array of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What prime-rl changed about one key, or about all below it."""

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
def _facts() -> tuple[tuple[Change, ...], tuple[Default, ...]]:
    data = tomllib.loads(data_file("migration.toml"))
    changes = (change for entry in data["change"] for change in _changes(entry))
    return tuple(changes), tuple(Default(**entry) for entry in data["default"])


def _changes(entry: Mapping[str, Any]) -> Iterator[Change]:
    """One for each key that its braces stand for."""
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
    """`{a,b}.c` as `a.c` and `b.c`."""
    start, brace, rest = text.partition("{")
    if not brace:
        return [text]
    words, _, end = rest.partition("}")
    return [f"{start}{word}{other}" for word in words.split(",") for other in _spread(end)]


RELEASES = (
    ConfigRelease("A", "until January 2026, three files", "2025-09", "2025-12-01", configs.SPLIT),
    ConfigRelease("B", "until August 2026, one file", "2026-02", "2026-04-25", configs.MERGED),
    ConfigRelease("C", "August 2026, run folders", "2026-08-08", "2026-08-21", configs.CURRENT),
    ConfigRelease("D", "since September 2026", "2026-09", "2026-11-01", configs.CURRENT),
)


def find(word: str) -> ConfigRelease | None:
    """By its letter, by the day of a schema, by a date in its time, or by words of its title."""
    if word in configs.DAYS:
        return _release_of(word)
    named = [known for known in RELEASES if known.name == word.upper()]
    if not named and word[:4].isdecimal():
        named = [known for known in RELEASES if known.since <= word or known.since.startswith(word)]
    words = word.lower().replace("-", " ")
    if not named and len(words) > len("may"):
        named = [known for known in RELEASES if words in known.title.lower()]
    return named[-1] if named else None


def _release_of(day: str) -> ConfigRelease:
    """The release of a schema: a generation, or a state within one."""
    for known in RELEASES:
        if known.day == day:
            return known
    letter = next(known for known in RELEASES if known.framework == configs.generation_of(day))
    return replace(letter, title=f"as of {date.fromisoformat(day):%-d %B %Y}", day=day)


def roles_of(parsed: Parsed) -> tuple[str, ...] | None:
    """Files of several programs, or each file for itself; a file of few keys goes with the one before it."""
    if len(parsed) > 1:
        parts = [configs.role_in(configs.SPLIT, path, data) for path, data in parsed]
        if None not in parts and len(set(parts)) == len(parts) and set(parts) <= set(configs.PARTS):
            return tuple(map(str, parts))
    roles: list[str] = []
    for path, data in parsed:
        role = configs.role_in(configs.CURRENT, path, data)
        if role is None and not is_vf_rl(data):
            role = roles[-1] if roles else configs.role_in(configs.SPLIT, path, data)
        if role is None:
            return None
        roles.append(role)
    return tuple(roles)


def of_schemas(schemas: Mapping[str, ConfigSchema]) -> ConfigRelease | None:
    """The generation whose shipped schemas lack the fewest keys of a checkout's; of equals the newest."""
    lacking = {
        known: sum(
            len(schema.keys - configs.snapshot(known.day, role).keys) for role, schema in schemas.items()
        )
        for known in reversed(RELEASES)
    }
    return min(lacking, key=lacking.__getitem__) if schemas else None


def reader(roles: Iterable[str], release: ConfigRelease) -> str:
    """Id of the framework whose programs read files of these roles."""
    return configs.SPLIT if set(roles) <= set(configs.PARTS) else release.framework


def source_of(files: Sequence[ConfigFile], until: str = configs.NEVER) -> ConfigRelease:
    """The release that the files fit best: of equals the newest, but not one after a day if possible."""
    return _release_of(
        min(_fitting(files), key=lambda day: (day > until, configs.snapshot(day, "rl").partial))
    )


def _fitting(files: Sequence[ConfigFile]) -> list[str]:
    """The days whose schemas the files fit best, the newest first."""
    if _are_parts(files):
        return [RELEASES[0].day]
    misfits = {
        day: sum(configs.fit(configs.snapshot(day, file.role), file.data).strange for file in files)
        for day in configs.DAYS
    }
    return [day for day in configs.DAYS if misfits[day] == min(misfits.values())]


def _are_parts(files: Sequence[ConfigFile]) -> bool:
    """They are the files of the first generation, which belong together."""
    return len(files) > 1 and {file.role for file in files} <= set(configs.PARTS)


def migrate(
    files: Sequence[ConfigFile], target: ConfigRelease, source: ConfigRelease | None = None
) -> Migrated:
    """The files as they would be for a later release; nothing is written. `source`: as in `Migration`.

    Raises:
        ConfigError: if they are for a later one already, or cannot be rewritten without loss.
    """
    if source is not None:
        return Migrated(source, target, _all_migrated(files, source, target))
    source = source_of(files, until=target.day)
    done = _all_migrated(files, source, target)
    fitting = {known.name: known for known in map(_release_of, reversed(_fitting(files)))}
    others = (
        known
        for name, known in fitting.items()
        if name != source.name and known.day <= target.day
        if [file.text for file in _all_migrated(files, known, target)] != [file.text for file in done]
    )
    return Migrated(source, target, done, tuple(others))


def _all_migrated(
    files: Sequence[ConfigFile], source: ConfigRelease, target: ConfigRelease
) -> tuple[MigratedFile, ...]:
    if source.day > target.day:
        raise ConfigError(
            f"the config is for {source.words}, which is later than {target.name}",
            hint="a config is only converted to a later generation",
        )
    if _are_parts(files) and source is RELEASES[0] and target is not source:
        return (_merged(files, target),)
    roles = [file.role for file in files]
    return tuple(
        _migrated(file, source, target, is_overlay=file.role in roles[:index])
        for index, file in enumerate(files)
    )


def _migrated(
    file: ConfigFile, source: ConfigRelease, target: ConfigRelease, *, is_overlay: bool
) -> MigratedFile:
    """`is_overlay`: it changes values of another file, and leaves the others as they are."""
    is_part = file.role in configs.PARTS
    text = nested(file.text, file.role) if is_part else file.text
    work = _Work(file.role, edit.parse(text, file.path), is_overlay=is_overlay)
    work.advance(source.day, target.day)
    if is_part:
        work.keep_within()
    changed = work.text(text, file.path)
    if is_part:
        changed = unnested(changed, file.role)
    new_text = changed if work.is_changed else file.text
    return work.file(file.path, (file,), new_text, target)


def _merged(files: Sequence[ConfigFile], target: ConfigRelease) -> MigratedFile:
    """The files of the three programs as one, with what is the same for all at its top."""
    by_role = {file.role: file for file in files}
    parts = [by_role[role] for role in reversed(configs.PARTS) if role in by_role]
    text = "\n".join(f"{nested(file.text, file.role).rstrip()}\n" for file in parts)
    path = f"{parts[0].path.rpartition('/')[0]}/rl.toml"
    work = _Work("rl", edit.parse(text, path))
    work.share([file.role for file in parts])
    work.advance(RELEASES[0].day, target.day)
    return work.file(path, tuple(parts), work.text(text, path), target)


# --- one file on its way ------------------------------------------------------------------------------------


@dataclass
class _Key:
    """A key of the file, and what has become of it so far."""

    old: Path | None
    """`None` for one that was added."""
    new: Path | None
    value: TomlValue
    was: TomlValue
    changes: list[Change] = field(default_factory=list)
    merged_with: Path | None = None
    used: frozenset[str] = frozenset()
    """Changes of the present step that have been applied to it."""

    @property
    def place(self) -> Path:
        assert self.new is not None
        return self.new


class _Work:
    """The content of one file, as far as it has come."""

    def __init__(self, role: str, data: Mapping[str, Any], *, is_overlay: bool = False) -> None:
        """`data` of the file of one program: below its role."""
        self._part = role if role in configs.PARTS else ""
        self._role, self._space = "rl" if self._part else role, "sft." if role == "sft" else ""
        self._original, self._is_overlay = data, is_overlay
        self.keys = [_Key(path, path, value, value) for path, value in _leaves(data)]
        """All that it began with, and what was added."""
        self._tables: dict[Path, Path] = {path: path for path in _tables(data)}
        self._notes: list[KeyChange] = []

    @property
    def data(self) -> dict[str, Any]:
        return _tree((key.new, key.value) for key in self.keys if key.new is not None)

    @property
    def is_changed(self) -> bool:
        return bool(changed_keys(deep_leaves(self._original), deep_leaves(self.data)))

    def advance(self, after: str, until: str) -> None:
        """Through all releases after one day until another."""
        days = [day for day in sorted(configs.DAYS) if after <= day <= until]
        for before, day in pairwise(days):
            self._step(before, day)

    def share(self, roles: Sequence[str]) -> None:
        """Set what all parts have alike once for all, and how many devices they have."""
        schema = configs.snapshot(RELEASES[0].day, "rl")
        shared = Change(why="one key at the top of rl.toml sets it for all parts", commit="34ac60439")
        for shared_key, others in configs.OVERLAY.shared.items():
            key, *_ = (*_named_in(schema, shared_key), shared_key)
            names = [
                name
                for other in others
                if other.partition(".")[0] in roles
                for name in _named_in(schema, other)
            ]
            keys = [k for k in self.keys if k.new is not None and _dotted(k.new) in names]
            if keys and len(keys) == len(names) and all(same_value(k.value, keys[0].value) for k in keys):
                for key_ in keys:
                    key_.changes.append(shared)
                    key_.new, key_.merged_with = None, _path(key)
                keys[0].new, keys[0].merged_with = _path(key), None
        counts = [value_at(self.data, f"inference.parallel.{name}") for name in ("tp", "dp")]
        devices = math.prod(count for count in counts if isinstance(count, int))
        if devices > 1:
            why = Change(why="the number follows from inference.parallel", commit="1826b1892")
            self._add(_path("deployment.num_infer_gpus"), devices, why)
        self._keep_tables(schema)

    def keep_within(self) -> None:
        """Drop what the file of one program cannot have any more."""
        for key in self.keys:
            if key.new is not None and key.new[0] != self._part:
                key.changes.append(
                    Change(
                        why=f"it is {_dotted(key.new)} of rl.toml now",
                        todo="set it where the whole run is configured",
                    )
                )
                key.new = None

    def text(self, text: str, path: str) -> str:
        """The text with all that has changed.

        Raises:
            ConfigError: if that cannot be done without loss.
        """
        moves: dict[tuple[str, ...], tuple[str, ...] | None] = {
            _strings(old): _strings(new) for old, new in self._tables.items() if old != new
        }
        moves |= {
            _strings(key.old): None if key.new is None or key.value == {} else _strings(key.new)
            for key in self.keys
            if key.old is not None and key.old != key.new
        }
        data = self.data
        text = rearranged(text, moves)
        while empty := [table for table in empty_headers(text) if value_at(data, format_key(table)) is None]:
            text = without_header(text, empty[0])
        text = with_inline_tables(text, lambda table: value_at(data, format_key(table)))
        leaves, wanted = deep_leaves(edit.parse(text, path)), deep_leaves(data)
        for key, (_, value) in changed_keys(leaves, wanted).items():
            if value == {}:
                text = f"{text.rstrip()}\n\n[{key}]\n"
            elif leaves.get(key) != {}:
                text = edit.edit(text, {key: value})
        if changed_keys(deep_leaves(edit.parse(text, path)), wanted):
            raise ConfigError(f"{path} cannot be rewritten with its comments", hint="convert it by hand")
        return text

    def file(
        self, path: str, sources: tuple[ConfigFile, ...], text: str, target: ConfigRelease
    ) -> MigratedFile:
        role = self._part or self._role
        return MigratedFile(
            path, role, sources, text, self._report(), reader([role], target),
            configs.snapshot(target.day, role),
        )  # fmt: skip

    def _report(self) -> tuple[KeyChange, ...]:
        changes: dict[tuple[str | None, str | None], KeyChange] = {}
        for key in self.keys:
            if (change := self._change(key)) is not None:
                changes.setdefault((change.key, change.to), change)
        return (*changes.values(), *self._notes)

    # --- from one release to the next ---------------------------------------------------------------------

    def _step(self, before: str, day: str) -> None:
        was, schema = configs.snapshot(before, self._role), configs.snapshot(day, self._role)
        facts = [change for change in _facts()[0] if before < change.date <= day]
        data = self.data
        self._tables = {old: self._table(new, data, facts, schema) for old, new in self._tables.items()}
        for key in self.keys:
            key.used = frozenset()
        for _ in range(2):  # another type of a table has other keys
            data = self.data
            unknown = {_path(name) for name in schema.unknown_keys(data, configs.FREE)}
            for key in [key for key in self.keys if key.new is not None]:
                self._advance_key(key, data, facts, was, schema, unknown, day)
        self._merge(day)
        self._keep_tables(schema)
        self._defaults(before, day)

    def _merge(self, day: str) -> None:
        """Two keys with one name since: the first one stays."""
        present: dict[Path, _Key] = {}
        for key in [key for key in self.keys if key.new is not None]:
            other = present.setdefault(key.place, key)
            if other is not key:
                key.merged_with, key.new = key.new, None
                if not same_value(other.value, key.value):
                    why = f"{_dotted(other.place)} is set by another key"
                    todo = f"the values differ: {display(other.value)} is kept"
                    key.changes.append(Change(date=day, why=why, todo=todo))

    def _advance_key(
        self, key: _Key, data: Mapping[str, Any], facts: Sequence[Change], was: ConfigSchema,
        schema: ConfigSchema, unknown: set[Path], until: str,
    ) -> None:  # fmt: skip
        path = key.place
        is_unknown = any(path[:depth] in unknown for depth in range(1, len(path) + 1))
        while change := self._applies(path, data, facts, key.used, is_unknown=is_unknown or bool(key.used)):
            key.used |= {change.key}
            self._apply(change, key, path)
            if key.new is None:
                return
            path = key.place
        if not (is_unknown or key.used) or _knows(schema, path):
            return
        renamed = self._renamed(path, schema)
        if renamed is not None and (_knows(schema, renamed) or not _knows(was, path)):
            key.new = renamed
        elif not key.used and (self._is_known_before(path, schema) or self._told(path, facts)):
            key.new = None
        else:
            return
        if (reason := self._reason(path, until)) not in key.changes:
            key.changes.append(reason)

    def _applies(
        self,
        path: Path,
        data: Mapping[str, Any],
        facts: Sequence[Change],
        used: frozenset[str],
        *,
        is_unknown: bool,
    ) -> Change | None:
        """The change that says most about a key."""
        found = [
            change
            for change in facts
            if change.acts
            and (is_unknown or change.always or not change.to)
            and change.key not in used
            and _rest(self._names(path), change.key) is not None
            and all(value_at(data, name) == value for name, value in change.when.items())
        ]
        return max(found, key=lambda change: (len(change.key), bool(change.when)), default=None)

    def _apply(self, change: Change, key: _Key, path: Path) -> None:
        key.changes.append(change)
        if change.gone or any(same_value(key.value, value) for value in change.drops):
            key.new = None
            return
        if change.takes == "each" and isinstance(key.value, list):
            key.new = None
            for index, item in enumerate(key.value):
                target = _with_indices(_path(change.to), (index,))
                if target[:-1] in self._tables.values():
                    key.merged_with = _path(change.to)
                    self._add(target, item, change)
            return
        if change.to:
            key.new = self._placed(change, path)
        key.value = _converted(change, key.value)
        if any(same_value(key.value, value) for value in change.empties):
            key.new, key.value = key.place[:-1], {}
        for name, value in change.adds.items():
            self._add(_with_indices(_path(name), path), value, change)

    def _placed(self, change: Change, path: Path) -> Path:
        """Where a change puts a key."""
        names = self._names(path)
        rest = _rest(names, change.key) or 0
        beyond = names[-1].removesuffix(_pattern(path))
        to = change.to.removeprefix(self._space).removeprefix(beyond)
        return (*_with_indices(_path(to), path), *path[len(path) - rest :])

    def _names(self, path: Path) -> tuple[str, ...]:
        """The names that a key goes by in the facts: a key of SFT is described as one of RL."""
        name = f"{self._space}{_pattern(path)}"
        like = (
            f"{other}{name.removeprefix(start)}"
            for start, other in configs.OVERLAY.like.items()
            if name.startswith(f"{start}.")
        )
        return (name, next(like, name))

    def _renamed(self, path: Path, schema: ConfigSchema) -> Path | None:
        """The path under the name that the concepts have for it, or for a table around it."""
        for depth in range(len(path), 0, -1):
            if isinstance(path[depth - 1], int):
                continue
            start = f"{self._space}{_dotted(path[:depth])}"
            for name in configs.OVERLAY.names_of(start):
                new = _path(name.removeprefix(self._space))
                if name == start:
                    break
                if _knows(schema, new):
                    return (*new, *path[depth:])
        return None

    def _table(
        self, path: Path, data: Mapping[str, Any], facts: Sequence[Change], schema: ConfigSchema
    ) -> Path:
        """Where a table is after a step."""
        change = self._applies(path, data, facts, frozenset(), is_unknown=not _knows(schema, path))
        if change is not None and change.to:
            path = self._placed(change, path)
        if _knows(schema, path):
            return path
        return self._renamed(path, schema) or path

    def _is_known_before(self, path: Path, schema: ConfigSchema) -> bool:
        earlier = (configs.snapshot(day, self._role) for day in configs.DAYS)
        return any(_knows(other, path) for other in earlier if other is not schema)

    def _told(self, path: Path, facts: Iterable[Change]) -> list[Change]:
        """What is known of a key that the schemas and concepts decide about."""
        names = self._names(path)
        return [change for change in facts if not change.acts and _rest(names, change.key) is not None]

    def _reason(self, path: Path, until: str) -> Change:
        """Why a key has another name, or none."""
        told = self._told(path, [change for change in _facts()[0] if change.date <= until])
        change = max(told, key=lambda change: (len(change.key), change.date), default=Change())
        if change.why:
            return change
        starts = (_dotted(path[:depth]) for depth in range(len(path), 0, -1))
        texts = (
            configs.OVERLAY.gone.get(name) for start in starts for name in (f"{self._space}{start}", start)
        )
        why = next(filter(None, texts), "prime-rl removed it")
        return replace(change, why=why.removeprefix("removed: "))

    # --- what is set besides ------------------------------------------------------------------------------

    def _add(self, path: Path, value: TomlValue, because: Change | Default) -> None:
        if all(key.new != path for key in self.keys):
            reason = Change(date=because.date, why=because.why, commit=because.commit)
            self.keys.append(_Key(None, path, value, None, [reason]))

    def _defaults(self, before: str, day: str) -> None:
        data = self.data
        for default in () if self._is_overlay else _facts()[1]:
            key = default.key.removeprefix(self._space)
            is_here = default.key.startswith("sft.") == bool(self._space)
            if not (before < default.date <= day and is_here) or value_at(data, key) is not None:
                continue
            if self._part and not key.startswith(f"{self._part}."):
                continue
            if default.below and value_at(data, default.below) is None:
                continue
            model = value_at(data, f"{self._part or 'orchestrator'}.model.name") or value_at(
                data, "model.name"
            )
            if default.of_unknown_models and (model is None or model in known_renderers()["models"]):
                continue
            if default.write:
                self._add(_path(key), default.was, default)
            else:
                self._notes.append(
                    KeyChange(kind="default", to=key, why=default.why, date=default.date,
                              commit=default.commit)
                )  # fmt: skip

    def _keep_tables(self, schema: ConfigSchema) -> None:
        """A table that has lost its keys stays if it means something by itself."""
        data, values = self.data, None
        for path in sorted(self._tables.values(), key=len):
            name = _dotted(path)
            if any(isinstance(key, int) for key in path) or value_at(data, name) is not None:
                continue
            if values is None:  # it takes long
                values = schema.read(data, role=self._role, hints=SchemaHints(configs.FREE)).values
            if values.get(name, "") is None:
                self.keys.append(_Key(None, path, {}, None))
                data, values = self.data, None

    def _change(self, key: _Key) -> KeyChange | None:
        """What has become of a key, in the words of the report; `None`: nothing."""
        if key.old == key.new and same_value(key.value, key.was):
            return None
        if key.old is None and (key.new is None or not key.changes):
            return None
        reasons = [change for change in key.changes if change.why]
        if key.new is None:  # whatever it was called before
            reasons = reasons[-1:]
        told = {
            "why": "; ".join(dict.fromkeys(change.why for change in reasons)),
            "todo": "; ".join(dict.fromkeys(change.todo for change in reasons if change.todo)),
            "date": reasons[-1].date if reasons else "",
            "commit": reasons[-1].commit if reasons else "",
        }
        if key.old is None:
            assert key.new is not None
            return KeyChange(kind="set", to=_dotted(key.new), value=display(key.value), **told)
        old = _dotted(key.old)
        if key.new is None and key.merged_with is not None:
            return KeyChange(kind="merged", key=old, to=_dotted(key.merged_with), **told)
        if key.new is None:
            if (table := self._gone_table(key)) is not None:
                return KeyChange(kind="dropped", key=_dotted(table), **told)
            return KeyChange(kind="dropped", key=old, value=display(key.was, key=old), **told)
        if not same_value(key.value, key.was):
            value = f"{display(key.was, key=old)} → {display(key.value, key=old)}"
            return KeyChange(kind="changed", key=old, to=_dotted(key.new), value=value, **told)
        table = min(
            (
                path
                for path, new in self._tables.items()
                if path != new and path == key.old[: len(path)] and key.new == (*new, *key.old[len(path) :])
            ),
            key=len,
            default=None,
        )
        if table is not None:
            return KeyChange(kind="moved", key=_dotted(table), to=_dotted(self._tables[table]), **told)
        return KeyChange(kind="moved", key=old, to=_dotted(key.new), **told)

    def _gone_table(self, key: _Key) -> Path | None:
        """The outermost table with this key of which nothing is left, for the same reason."""
        assert key.old is not None
        for depth in range(1, len(key.old)):
            table = key.old[:depth]
            inside = [other for other in self.keys if other.old is not None and other.old[:depth] == table]
            if len(inside) > 1 and all(
                other.new is None and other.changes == key.changes for other in inside
            ):
                return table
        return None


# --- paths --------------------------------------------------------------------------------------------------


def _leaves(value: TomlValue, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _tables(value: TomlValue, path: Path = ()) -> Iterator[Path]:
    """Every table, and every array of them."""
    if isinstance(value, Mapping):
        if path:
            yield path
        for key, inner in value.items():
            yield from _tables(inner, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        yield path
        for index, item in enumerate(value):
            yield from _tables(item, (*path, index))


def _tree(items: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    root: dict[Any, Any] = {}
    for path, value in items:
        table = root
        for key in path[:-1]:
            table = table.setdefault(key, {})
        if not (value == {} and path[-1] in table):
            table[path[-1]] = dict(value) if isinstance(value, Mapping) else value
    result = _with_lists(root)
    assert isinstance(result, dict)
    return result


def _with_lists(value: TomlValue) -> TomlValue:
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[index]) for index in sorted(value)]
    return {key: _with_lists(item) for key, item in value.items()}


def _strings(path: Path) -> tuple[str, ...]:
    return tuple(map(str, path))


def _dotted(path: Path) -> str:
    return format_key(_strings(path))


def _path(name: str) -> Path:
    """A dotted key; `[]` and numbers pick elements."""
    return tuple(
        -1 if key == "[]" else int(key) if key.isdecimal() else key
        for key in split_key(name.replace("[]", ".[]"))
    )


def _with_indices(path: Path, of: Path) -> Path:
    """The path with the elements that another one picks, in their order."""
    indices = iter([key for key in of if isinstance(key, int)])
    return tuple(next(indices, 0) if key == -1 else key for key in path)


def _pattern(path: Path) -> str:
    """The name of a key in a schema, or in the facts."""
    return ".".join("[]" if isinstance(key, int) else format_key((key,)) for key in path).replace(".[]", "[]")


def _rest(names: Iterable[str], start: str) -> int | None:
    """Number of keys below `start` in one of these names; `None` if it does not begin so."""
    for name in names:
        if name == start:
            return 0
        if name.startswith((f"{start}.", f"{start}[")):
            return len(_path(name)) - len(_path(start))
    return None


def _knows(schema: ConfigSchema, path: Path) -> bool:
    return schema.has(_dotted(path)) or any(
        _pattern(path[:depth]) in configs.FREE for depth in range(1, len(path))
    )


def _named_in(schema: ConfigSchema, name: str) -> list[str]:
    """The names that a schema has for a key."""
    return [name for name in configs.OVERLAY.names_of(name) or (name,) if schema.has(name)]


def _converted(change: Change, value: TomlValue) -> TomlValue:
    text = format_value(value)
    if text in change.values:
        return change.values[text]
    match change.takes:
        case "count":
            return len(value) if isinstance(value, list) else value
        case "first":
            return value[0] if isinstance(value, list) and value else value
        case "name":
            return value.rpartition("/")[2] if isinstance(value, str) else value
    return value


# --- values, and where they are expected --------------------------------------------------------------------


def moved(
    values: Mapping[str, Any], role: str, source: ConfigRelease, target: ConfigRelease
) -> Iterator[Moved]:
    """Every value of a file as its release reads it, with its place in a later one. One that is not set goes
    the way of a table.
    """
    absent = {key for key, value in deep_leaves(values).items() if value is None}
    work = _Work(role, _with_tables(values))
    work.advance(source.day, target.day)
    for key in work.keys:
        if key.old is not None:
            old, new = _dotted(key.old), None if key.new is None else _dotted(key.new)
            yield Moved(old, new, *((None, None) if old in absent else (key.was, key.value)))


def tree_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of dotted keys. A value that stands for a table which has keys, too, is left out: a switch that
    turns it on.
    """
    paths = {key: _path(key) for key in values}
    above = {path[:depth] for path in paths.values() for depth in range(1, len(path))}
    return _tree((path, values[key]) for key, path in paths.items() if path not in above)


def is_free(key: str) -> bool:
    """Whether the package of the environment reads it."""
    path = _path(key)
    return any(_pattern(path[:depth]) in configs.FREE for depth in range(1, len(path) + 1))


def _with_tables(value: TomlValue) -> TomlValue:
    if isinstance(value, Mapping):
        return {key: _with_tables(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_tables(inner) for inner in value]
    return {} if value is None else value
