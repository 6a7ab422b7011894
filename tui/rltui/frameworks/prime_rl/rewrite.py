"""The keys of one config file on their way through the releases of prime-rl, and its text afterwards."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from rltui.base.toml import edit
from rltui.base.toml.rearrange import empty_headers, rearranged, with_inline_tables, without_header
from rltui.base.toml.values import TomlValue, format_key, format_value, same_value
from rltui.core.config.data import changed_keys, deep_leaves, value_at
from rltui.core.config.knobs import display
from rltui.core.config.report import KeyChange
from rltui.core.config.schema import ConfigSchema, SchemaHints
from rltui.errors import ConfigError
from rltui.frameworks.prime_rl import configs
from rltui.frameworks.prime_rl.changes import Change, Default, facts
from rltui.frameworks.prime_rl.key_fates import KeyFate, reported
from rltui.frameworks.prime_rl.key_path import (
    Path,
    depth_below,
    dotted,
    leaves,
    path_of,
    pattern,
    strings,
    tables,
    tree,
    with_indices,
)
from rltui.frameworks.prime_rl.values import known_renderers


@dataclass(frozen=True, slots=True)
class _Step:
    """From one release to the next."""

    day: str
    was: ConfigSchema
    schema: ConfigSchema
    changes: tuple[Change, ...]


class FileRewrite:
    """The content of one file, as far as it has come."""

    def __init__(self, role: str, data: Mapping[str, Any], *, is_overlay: bool = False) -> None:
        """`data` of the file of one program: below its role."""
        self._part = role if role in configs.PARTS else ""
        self._role, self._space = "rl" if self._part else role, "sft." if role == "sft" else ""
        self._original, self._is_overlay = data, is_overlay
        self.keys = [KeyFate(path, path, value, value) for path, value in leaves(data)]
        """All that it began with, and what was added."""
        self._tables: dict[Path, Path] = {path: path for path in tables(leaves(data))}
        self._notes: list[KeyChange] = []

    @property
    def data(self) -> dict[str, Any]:
        return tree((key.new, key.value) for key in self.keys if key.new is not None)

    @property
    def is_changed(self) -> bool:
        return bool(changed_keys(deep_leaves(self._original), deep_leaves(self.data)))

    def advance(self, after: str, until: str) -> None:
        """Through all releases after one day until another."""
        days = [day for day in sorted(configs.DAYS) if after <= day <= until]
        for before, day in pairwise(days):
            self._step(before, day)

    def share(self, roles: Collection[str], day: str) -> None:
        """Set what all parts have alike once for all, and how many devices they have."""
        schema = configs.snapshot(day, "rl")
        shared = Change(why="one key at the top of rl.toml sets it for all parts", commit="34ac60439")
        for shared_key, others in configs.OVERLAY.shared.items():
            key, *_ = (*_named_in(schema, shared_key), shared_key)
            names = [
                name
                for other in others
                if other.partition(".")[0] in roles
                for name in _named_in(schema, other)
            ]
            keys = [k for k in self.keys if k.new is not None and dotted(k.new) in names]
            if keys and len(keys) == len(names) and all(same_value(k.value, keys[0].value) for k in keys):
                for key_ in keys:
                    key_.changes.append(shared)
                    key_.new, key_.merged_with = None, path_of(key)
                keys[0].new, keys[0].merged_with = path_of(key), None
        counts = [value_at(self.data, f"inference.parallel.{name}") for name in ("tp", "dp")]
        devices = math.prod(count for count in counts if isinstance(count, int))
        if devices > 1:
            why = Change(why="the number follows from inference.parallel", commit="1826b1892")
            self._add(path_of("deployment.num_infer_gpus"), devices, why)
        self._keep_tables(schema)

    def keep_within(self) -> None:
        """Drop what the file of one program cannot have any more."""
        for key in self.keys:
            if key.new is not None and key.new[0] != self._part:
                key.changes.append(
                    Change(
                        why=f"it is {dotted(key.new)} of rl.toml now",
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
            strings(old): strings(new) for old, new in self._tables.items() if old != new
        }
        moves |= {
            strings(key.old): None if key.new is None or key.value == {} else strings(key.new)
            for key in self.keys
            if key.old is not None and key.old != key.new
        }
        data, newline = self.data, edit.newline_of(text)
        text = rearranged(text, moves)
        while empty := [table for table in empty_headers(text) if value_at(data, format_key(table)) is None]:
            text = without_header(text, empty[0])
        text = with_inline_tables(text, lambda table: value_at(data, format_key(table)))
        leaves, wanted = deep_leaves(edit.parse(text, path)), deep_leaves(data)
        for key, (_, value) in changed_keys(leaves, wanted).items():
            if value == {}:
                text = f"{text.rstrip()}{newline}{newline}[{key}]{newline}"
            elif leaves.get(key) != {}:
                text = edit.edit(text, {key: value})
        if changed_keys(deep_leaves(edit.parse(text, path)), wanted):
            raise ConfigError(f"{path} cannot be rewritten with its comments", hint="convert it by hand")
        return text

    def report(self) -> tuple[KeyChange, ...]:
        """Tell what has become of the keys, and which defaults are others now."""
        return (*reported(self.keys, self._tables), *self._notes)

    # --- from one release to the next ---------------------------------------------------------------------

    def _step(self, before: str, day: str) -> None:
        changes = tuple(change for change in facts()[0] if before < change.date <= day)
        was, schema = configs.snapshot(before, self._role), configs.snapshot(day, self._role)
        step = _Step(day, was, schema, changes)
        self._drop_hyphenated(step)
        data = self.data
        self._tables = {old: self._table(new, data, step) for old, new in self._tables.items()}
        for key in self.keys:
            key.used = frozenset()
        for _ in range(2):  # another type of a table has other keys
            data = self.data
            unknown = {path_of(name) for name in schema.unknown_keys(data, configs.FREE)}
            for key in [key for key in self.keys if key.new is not None]:
                self._advance_key(key, data, step, unknown)
        self._merge(day)
        self._keep_tables(schema)
        self._defaults(before, day)

    def _drop_hyphenated(self, step: _Step) -> None:
        """Drop what is spelled as on a command line, which one release ignores and the next one refuses."""
        spelled = [
            (key, path)
            for key in self.keys
            if key.new is not None and (path := _underscored(key.new)) != key.new and _knows(step.was, path)
        ]
        if not spelled:
            return
        data = self.data
        refused = {*step.schema.unknown_keys(data, configs.FREE)}
        refused.difference_update(step.was.unknown_keys(data, configs.FREE))
        for key, path in spelled:
            if dotted(key.place) in refused:
                why = "it has been ignored because of its hyphens, and is refused from now on"
                key.changes.append(Change(why=why, todo=f"{dotted(path)} would set it"))
                key.new = None

    def _merge(self, day: str) -> None:
        """Two keys with one name since: the first one stays."""
        present: dict[Path, KeyFate] = {}
        for key in [key for key in self.keys if key.new is not None]:
            other = present.setdefault(key.place, key)
            if other is not key:
                key.merged_with, key.new = key.new, None
                if not same_value(other.value, key.value):
                    why = f"{dotted(other.place)} is set by another key"
                    todo = f"the values differ: {display(other.value)} is kept"
                    key.changes.append(Change(date=day, why=why, todo=todo))

    def _advance_key(
        self, key: KeyFate, data: Mapping[str, Any], step: _Step, unknown: Collection[Path]
    ) -> None:
        path = key.place
        is_unknown = any(path[:depth] in unknown for depth in range(1, len(path) + 1))
        while change := self._applies(path, data, step, key.used, is_unknown=is_unknown or bool(key.used)):
            key.used |= {change.key}
            self._apply(change, key, path)
            if key.new is None:
                return
            path = key.place
        if not (is_unknown or key.used) or _knows(step.schema, path):
            return
        renamed = self._renamed(path, step.schema)
        if renamed is not None and (_knows(step.schema, renamed) or not _knows(step.was, path)):
            key.new = renamed
        elif not key.used and (self._is_known_before(path, step.schema) or self._told(path, step.changes)):
            key.new = None
        else:
            return
        if (reason := self._reason(path, step.day)) not in key.changes:
            key.changes.append(reason)

    def _applies(
        self, path: Path, data: Mapping[str, Any], step: _Step, used: Collection[str], *, is_unknown: bool
    ) -> Change | None:
        """The change that says most about a key."""
        names = self._names(path)
        found = [
            change
            for change in step.changes
            if change.acts
            and (is_unknown or change.always or not change.to)
            and change.key not in used
            and depth_below(names, change.key) is not None
            and all(value_at(data, name) == value for name, value in change.when.items())
        ]
        return max(found, key=lambda change: (len(change.key), bool(change.when)), default=None)

    def _apply(self, change: Change, key: KeyFate, path: Path) -> None:
        key.changes.append(change)
        if change.gone or any(same_value(key.value, value) for value in change.drops):
            key.new = None
            return
        if change.takes == "each" and isinstance(key.value, list):
            key.new = None
            for index, item in enumerate(key.value):
                target = with_indices(path_of(change.to), (index,))
                if target[:-1] in self._tables.values():
                    key.merged_with = path_of(change.to)
                    self._add(target, item, change)
            return
        if change.to:
            key.new = self._placed(change, path)
        key.value = _converted(change, key.value)
        if any(same_value(key.value, value) for value in change.empties):
            key.new, key.value = key.place[:-1], {}
        for name, value in change.adds.items():
            self._add(with_indices(path_of(name), path), value, change)

    def _placed(self, change: Change, path: Path) -> Path:
        """Find where a change puts a key."""
        names = self._names(path)
        rest = depth_below(names, change.key) or 0
        beyond = names[-1].removesuffix(pattern(path))
        to = change.to.removeprefix(self._space).removeprefix(beyond)
        return (*with_indices(path_of(to), path), *path[len(path) - rest :])

    def _names(self, path: Path) -> tuple[str, ...]:
        """The names that a key goes by in the facts: a key of SFT is described as one of RL."""
        name = f"{self._space}{pattern(path)}"
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
            start = f"{self._space}{dotted(path[:depth])}"
            for name in configs.OVERLAY.names_of(start):
                new = path_of(name.removeprefix(self._space))
                if name == start:
                    break
                if _knows(schema, new):
                    return (*new, *path[depth:])
        return None

    def _table(self, path: Path, data: Mapping[str, Any], step: _Step) -> Path:
        """Find where a table is after a step."""
        change = self._applies(path, data, step, (), is_unknown=not _knows(step.schema, path))
        if change is not None and change.to:
            path = self._placed(change, path)
        return path if _knows(step.schema, path) else self._renamed(path, step.schema) or path

    def _is_known_before(self, path: Path, schema: ConfigSchema) -> bool:
        earlier = (configs.snapshot(day, self._role) for day in configs.DAYS)
        return any(_knows(other, path) for other in earlier if other is not schema)

    def _told(self, path: Path, changes: Iterable[Change]) -> list[Change]:
        """Find what is known of a key that the schemas and concepts decide about."""
        names = self._names(path)
        return [
            change for change in changes if not change.acts and depth_below(names, change.key) is not None
        ]

    def _reason(self, path: Path, until: str) -> Change:
        """Find why a key has another name, or none."""
        told = self._told(path, [change for change in facts()[0] if change.date <= until])
        change = max(told, key=lambda change: (len(change.key), change.date), default=Change())
        if change.why:
            return change
        starts = (dotted(path[:depth]) for depth in range(len(path), 0, -1))
        texts = (
            configs.OVERLAY.gone.get(name) for start in starts for name in (f"{self._space}{start}", start)
        )
        why = next(filter(None, texts), "prime-rl removed it")
        return replace(change, why=why.removeprefix("removed: "))

    # --- what is set besides ------------------------------------------------------------------------------

    def _add(self, path: Path, value: TomlValue, because: Change | Default) -> None:
        if all(key.new != path for key in self.keys):
            reason = Change(date=because.date, why=because.why, commit=because.commit)
            self.keys.append(KeyFate(None, path, value, None, [reason]))

    def _defaults(self, before: str, day: str) -> None:
        data = self.data
        for default in () if self._is_overlay else facts()[1]:
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
                self._add(path_of(key), default.was, default)
            else:
                self._notes.append(
                    KeyChange(kind="default", to=key, why=default.why, date=default.date,
                              commit=default.commit)
                )  # fmt: skip

    def _keep_tables(self, schema: ConfigSchema) -> None:
        """A table that has lost its keys stays if it means something by itself."""
        for path in sorted(self._tables.values(), key=len):
            name = dotted(path)
            if any(isinstance(key, int) for key in path) or not schema.has(name):
                continue
            if value_at(data := self.data, name) is not None:
                continue
            values = schema.read(data, role=self._role, hints=SchemaHints(configs.FREE)).values
            if values.get(name, "") is None:
                self.keys.append(KeyFate(None, path, {}, None))


def _underscored(path: Path) -> Path:
    return tuple(key.replace("-", "_") if isinstance(key, str) else key for key in path)


def _knows(schema: ConfigSchema, path: Path) -> bool:
    return schema.has(dotted(path)) or any(
        pattern(path[:depth]) in configs.FREE for depth in range(1, len(path))
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
