"""An edit of config files that is not written yet, and its conflicts with what others have written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from rltui.base.toml import edit
from rltui.base.toml.values import TomlValue
from rltui.core.config.data import Leaves, changed_keys, deep_leaves, key_conflicts
from rltui.core.config.edit_log import EditRecord, describe
from rltui.core.config.report import DerivedValue, FileConflict, Problem
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.config.change import FileChange, all_keys, text_diff, unified_diff
from rltui.services.config.config_file import parse_file


@dataclass(frozen=True)
class Proposal:
    """The files of a document before and after an edit, with all that a person should know of it."""

    action: Literal["set", "write", "undo", "redo"]
    files: Mapping[str, FileChange]
    """Role → the file before and after, also of files that do not change."""
    readers: Mapping[str, tuple[str, ...]]
    """Name of each changed knob → components that read it."""
    problems: tuple[Problem, ...]
    derived: tuple[DerivedValue, ...] = ()
    old_values: Mapping[str, Mapping[str, TomlValue]] = field(default_factory=dict)
    """Role → key of each changed knob → its value before, set or not."""
    requested: Mapping[str, Mapping[str, TomlValue]] | None = None
    """Role → dotted key → requested value, whatever the file holds now; `None`: the complete text is
    requested.
    """
    conflicts: tuple[FileConflict, ...] = ()
    """Reasons not to write it although no rule is broken."""
    takes_back: EditRecord | None = None
    """The edit that an undo or redo reverses."""
    reasons: tuple[str, ...] = ()
    """Further lines for a plan: whose edit is reversed."""

    @property
    def blocked(self) -> bool:
        return any(problem.is_error for problem in self.problems)

    @cached_property
    def before(self) -> ConfigFiles:
        return {role: change.before for role, change in self.files.items()}

    @cached_property
    def after(self) -> ConfigFiles:
        return {role: change.after for role, change in self.files.items()}

    @cached_property
    def changes(self) -> Mapping[str, FileChange]:
        """Role → the change of each file whose bytes change."""
        return {role: change for role, change in self.files.items() if not change.is_empty}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files whose bytes change."""
        return tuple(change.path for change in self.changes.values())

    @cached_property
    def diff(self) -> str:
        """Empty if nothing changes."""
        folder = next((Path(file.path).parent for file in self.before.values()), None)
        return unified_diff(self.changes.values(), folder)

    @property
    def written(self) -> tuple[str, ...]:
        """One line like `rl.toml: batch_size 128 → 64` per file that changes."""
        return tuple(
            f"{change.path.name}: {describe(change.keys, self.old_values.get(role, {}))}"
            for role, change in self.changes.items()
        )

    def record(self, number: int, *, is_birth: bool) -> EditRecord:
        """The edit as the journal has it. `is_birth`: it belongs to a run that is being created."""
        reversed_edit = self.takes_back
        return EditRecord(
            number=number,
            action=self.action,
            words=reversed_edit.words if reversed_edit else describe(all_keys(self.changes.values())),
            files=tuple(change.record() for change in self.changes.values()),
            takes_back=reversed_edit.number if reversed_edit else None,
            is_birth=is_birth,
        )

    def conflict(self, role: str, content: bytes | None) -> FileConflict:
        """The three sides of a file that has changed since the person saw `content`; `None`: nobody has that
        any more.
        """
        theirs, base = self.before[role], None
        if content is not None:
            try:
                base = parse_file(theirs.path, content, role)
            except ConfigError:  # what was looked at then could not be read either
                base = None
        if base is None:
            yours = self._requested_values(role, None)
            return FileConflict(file=theirs.path, keys=key_conflicts(None, deep_leaves(theirs.data), yours))
        base_leaves = deep_leaves(base.data)
        yours = self._requested_values(role, base_leaves)
        return FileConflict(
            file=theirs.path,
            theirs=FileChange(base, theirs).diff(),
            yours=text_diff(base.text, self._requested_text(role, base), Path(theirs.path).name),
            keys=key_conflicts(base_leaves, deep_leaves(theirs.data), yours),
        )

    def _requested_values(self, role: str, base: Leaves | None) -> Leaves:
        """The keys that the edit sets in a file. A complete text also reverts what others changed."""
        if self.requested is not None:
            return self.requested.get(role, {})
        yours, theirs = deep_leaves(self.after[role].data), deep_leaves(self.before[role].data)
        changes = changed_keys(theirs if base is None else base, yours if base is None else theirs)
        return {key: yours.get(key) for key in changes}

    def _requested_text(self, role: str, base: ConfigFile) -> str:
        if self.requested is None:
            return self.after[role].text
        try:
            return edit.edit(base.text, self.requested.get(role, {}))
        except ConfigError:  # the edit fits only what is there now
            return base.text
