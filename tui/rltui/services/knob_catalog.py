"""Which knobs a config has: the framework's, and whatever else its files set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.frameworks.generic import ANY_COMPONENT, other_knobs
from rltui.services.knob_rows import Running

_REMEMBERED = 4
"""Readings of the files whose knobs are kept: what is there, what was planned."""


@dataclass(frozen=True, slots=True)
class KnobLists:
    """The knobs of one reading."""

    files: ConfigFiles
    knobs: tuple[Knob, ...]
    others: tuple[Knob, ...]
    """Keys that the files set and the framework does not list."""


class KnobCatalog:
    """Lists knobs. Remembers the newest few readings by their identity."""

    def __init__(
        self, framework: Framework, *, components: Sequence[str], launched: Mapping[str, str]
    ) -> None:
        """As for `ConfigStore`."""
        self._framework = framework
        self._components = tuple(components)
        self._launched = launched
        self._lists: dict[tuple[tuple[str, str, int], ...], KnobLists] = {}

    def of(self, files: ConfigFiles) -> KnobLists:
        """The knobs of `files`, and their other keys."""
        key = tuple((role, file.path, id(file.data)) for role, file in files.items())
        if key not in self._lists:  # what is kept holds the data, so that no other can come to have its id
            self._lists[key] = self._list(files)
            while len(self._lists) > _REMEMBERED:
                del self._lists[next(iter(self._lists))]
        return self._lists[key]

    def others(self, files: ConfigFiles, running: Running) -> tuple[Knob, ...]:
        """Keys of the files that are no knobs, then those that only a living component was started with."""
        here = self.of(files)
        known = {knob.name for knob in here.knobs}
        others = {knob.name: knob for knob in here.others}
        for started_with in running.values():
            there = {role: file for role, file in started_with.items() if role in files}
            if all(file.data == files[role].data for role, file in there.items()):
                continue
            lists = self._list(there)
            for knob in (*lists.knobs, *lists.others):
                if knob.name not in known:
                    others.setdefault(knob.name, knob)
        return tuple(others.values())

    def with_known_readers(self, knob: Knob) -> Knob:
        """The knob with readers that are components."""
        if ANY_COMPONENT in knob.readers:
            return replace(knob, readers=self._components)
        if self._launched.keys().isdisjoint(knob.readers):
            return knob
        return replace(knob, readers=tuple(dict.fromkeys(self._launched.get(r, r) for r in knob.readers)))

    def _list(self, files: ConfigFiles) -> KnobLists:
        knobs = tuple(self.with_known_readers(knob) for knob in self._framework.knobs(files))
        others = tuple(self.with_known_readers(knob) for knob in other_knobs(files, knobs))
        return KnobLists(files, knobs, others)
