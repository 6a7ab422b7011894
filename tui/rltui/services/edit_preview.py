"""What an edit of the config files would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rltui.core.config_data import changed_keys, deep_leaves
from rltui.core.config_report import DerivedValue, FileConflict, Problem
from rltui.core.secrets import masked
from rltui.core.toml.values import TomlValue
from rltui.services.config_files import LoadedFiles
from rltui.services.file_diff import unified_diff

Changes = Mapping[str, tuple[TomlValue, TomlValue]]
"""Dotted key → value before and after; `None` where it is absent."""


@dataclass(frozen=True)
class EditPreview:
    """Nothing has been written."""

    before: LoadedFiles
    after: LoadedFiles
    readers: Mapping[str, tuple[str, ...]]
    """Name of each changed knob → components that read it."""
    problems: tuple[Problem, ...]
    """What is wrong with the files after the edit."""
    derived: tuple[DerivedValue, ...] = ()
    """Figures that get another value."""
    wanted: Mapping[str, Mapping[str, TomlValue]] | None = None
    """Role → dotted key → value, whatever the file holds now; `None`: the whole text is wanted."""
    conflicts: tuple[FileConflict, ...] = ()
    """Why it must not be written, though no rule is broken."""
    takes_back: int | None = None
    """For an undo or redo: number of the record whose opposite it is."""
    words: str | None = None
    """For an undo or redo: the edit that it is about."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the knobs that get another value."""
        return tuple(self.readers)

    @property
    def blocked(self) -> bool:
        """An error forbids it."""
        return any(problem.severity == "error" for problem in self.problems)

    @property
    def roles(self) -> tuple[str, ...]:
        """Of the files whose bytes change."""
        return tuple(
            role
            for role, source in self.after.sources.items()
            if source.content != self.before.sources[role].content
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        """The same files, on the disk."""
        return tuple(self.after.sources[role].path for role in self.roles)

    @cached_property
    def diff(self) -> str:
        """Unified diff of all files, empty where nothing changes."""
        return unified_diff(self.before, self.after)

    @cached_property
    def changes(self) -> Mapping[str, Changes]:
        """By role, of each file that changes, with secrets masked."""
        return {
            role: {
                key: (masked(key, old), masked(key, new))
                for key, (old, new) in changed_keys(
                    deep_leaves(self.before.sources[role].data), deep_leaves(self.after.sources[role].data)
                ).items()
            }
            for role in self.roles
        }
