"""The knobs of a config, and the knob table: their values in the files next to those that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rltui.base.toml.values import TomlValue
from rltui.core.config.data import value_at
from rltui.core.config.knobs import Knob
from rltui.core.config.report import KnobInfo, PendingKnob
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles, as_passed
from rltui.frameworks.plain_knobs import ANY_COMPONENT, above, other_knobs
from rltui.services.config.change import FileChange

Running = Mapping[str, ConfigFiles]
"""Living component → the files it was started with."""

_Values = dict[str, Mapping[str, TomlValue]]

_CACHED_LISTS = 4
"""Number of readings of the files whose knobs are cached: the current one, and planned ones."""


@dataclass(frozen=True, slots=True)
class KnobLists:
    files: ConfigFiles
    knobs: tuple[Knob, ...]
    others: tuple[Knob, ...]
    """Keys that the files set and the framework does not list."""


class KnobCatalog:
    """Lists knobs with their values in the files and in what runs. Caches the knobs of the newest few
    readings by identity.
    """

    def __init__(
        self, framework: Framework, *, components: Sequence[str], launched: Mapping[str, str]
    ) -> None:
        """`components` and `launched` as for `ConfigDocument`."""
        self._framework = framework
        self._components = tuple(components)
        self._launched = launched
        self._lists: dict[tuple[tuple[str, str, int], ...], KnobLists] = {}

    def of(self, files: ConfigFiles) -> KnobLists:
        key = tuple((role, file.path, id(file.data)) for role, file in files.items())
        if key not in self._lists:  # what is kept holds the data, so that no other can come to have its id
            self._lists[key] = self._list(files)
            while len(self._lists) > _CACHED_LISTS:
                del self._lists[next(iter(self._lists))]
        return self._lists[key]

    def others(self, files: ConfigFiles, running: Running) -> tuple[Knob, ...]:
        """Keys of the files that are not knobs, then those that only a running component was started with."""
        current = self.of(files)
        names = {knob.name for knob in current.knobs}
        others = {knob.name: knob for knob in current.others}
        for started_with in running.values():
            started_files = {role: file for role, file in started_with.items() if role in files}
            if all(file.data == files[role].data for role, file in started_files.items()):
                continue
            lists = self._list(started_files)
            for knob in (*lists.knobs, *lists.others):
                if knob.name not in names:
                    others.setdefault(knob.name, knob)
        return tuple(others.values())

    def rows(
        self, knobs: Sequence[Knob], files: ConfigFiles, running: Running, *, known: bool = True
    ) -> tuple[KnobInfo, ...]:
        """A row per knob, in the order given. `known`: the framework's knob table has them."""
        defaults = self._framework.config.defaults(files)
        values = self._framework.config.values_of(knobs, files)
        in_copies, got = self._values_of_running(knobs, running)
        rows = []
        for knob in knobs:
            value = values[knob.name]
            running_values = [got[reader][knob.name] for reader in knob.readers if reader in got]
            copied_values = [in_copies[reader][knob.name] for reader in knob.readers if reader in in_copies]
            rows.append(
                KnobInfo(
                    key=knob.name,
                    file=files[knob.file].path,
                    value=value,
                    default=defaults.get(knob.name, knob.default),
                    # what the first living reader holds, but rather one that differs from the file
                    running=next(
                        (running_value for running_value in running_values if running_value != value),
                        running_values[0] if running_values else None,
                    ),
                    is_set=value_at(files[knob.file].data, knob.key) is not None,
                    overridden=any(running_value != value for running_value in running_values)
                    and all(running_value == value for running_value in copied_values),
                    is_running=bool(running_values),
                    kind=knob.kind,
                    control=knob.control,
                    main=knob.main,
                    known=known,
                    nullable=knob.nullable,
                    choices=knob.choices,
                    bounds=knob.bounds,
                    unit=knob.unit,
                    readers=knob.readers,
                    help=knob.help,
                )
            )
        return tuple(rows)

    def pending(self, files: ConfigFiles, running: Running) -> tuple[PendingKnob, ...]:
        """Keys whose value in `files` differs from the copy that a running reader was started with."""
        knobs = (*self.of(files).knobs, *self.others(files, running))
        values = self._framework.config.values_of(knobs, files)
        in_copies, got = self._values_of_running(knobs, running)
        pending = []
        for knob in knobs:
            name, value = knob.name, values[knob.name]
            readers = tuple(
                reader for reader in knob.readers if reader in got and in_copies[reader][name] != value
            )
            if readers:
                running_value = got[readers[0]][name]
                pending.append(PendingKnob(key=name, running=running_value, value=value, readers=readers))
        return tuple(pending)

    def changed(
        self, changes: Mapping[str, FileChange], running: Running, requested: Sequence[Knob] = ()
    ) -> list[Knob]:
        """The knobs and other keys that get another value, or lie above or below one that does.

        `requested` knobs also count as changed if only a running reader has another value. A step to resume
        from may be requested again: the one that the reader was passed counts.
        """
        before = {role: change.before for role, change in changes.items()}
        after = {role: change.after for role, change in changes.items()}
        locations = {
            (role, table) for role, change in changes.items() for key in change.values for table in above(key)
        }
        touched = {knob.name: self._with_known_readers(knob) for knob in requested}
        for lists in (self.of(before), self.of(after)):
            touched |= {
                knob.name: knob
                for knob in (*lists.knobs, *lists.others)
                if (knob.file, knob.key) in locations
            }
        knobs = list(touched.values())
        new, old = (self._framework.config.values_of(knobs, files) for files in (after, before))
        living, got = self._values_of_running(knobs, running)
        resumed = [knob.name for knob in knobs if knob.key in self._framework.run.resume_keys]
        for reader, values in living.items():
            living[reader] = {**values, **{name: got[reader][name] for name in resumed}}
        return [
            knob
            for knob in knobs
            if any(
                values[knob.name] != new[knob.name]
                for values in (old, *(living[reader] for reader in knob.readers if reader in living))
            )
        ]

    def _values_of_running(self, knobs: Sequence[Knob], running: Running) -> tuple[_Values, _Values]:
        """Running component → knob → value: in its copy of the files, and as it was passed."""
        in_copies: _Values = {}
        got: _Values = {}
        for name, files in running.items():
            in_copies[name] = self._framework.config.values_of(knobs, files)
            got[name] = self._framework.config.values_of(knobs, as_passed(files))
        return in_copies, got

    def _with_known_readers(self, knob: Knob) -> Knob:
        if ANY_COMPONENT in knob.readers:
            return replace(knob, readers=self._components)
        readers = tuple(dict.fromkeys(self._launched.get(r, r) for r in knob.readers))
        present = tuple(reader for reader in readers if reader in self._components) or readers
        return knob if present == knob.readers else replace(knob, readers=present)

    def _list(self, files: ConfigFiles) -> KnobLists:
        knobs = tuple(self._with_known_readers(knob) for knob in self._framework.config.knobs(files))
        others = tuple(self._with_known_readers(knob) for knob in other_knobs(files, knobs))
        return KnobLists(files, knobs, others)
