"""The edit that a run went bad with, by its journal: the one to undo on the way to a good checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rltui.base.secrets import MASK
from rltui.base.values import InvalidValueError
from rltui.core.config.edit_log import EditLog, EditRecord
from rltui.services.experiment.journal import read_entries

_SUSPECT_STEPS = 100
"""An edit that took effect longer before the trouble is hardly to blame."""
_HARMLESS = "max_steps"
"""An edit of the run's length alone ruins nothing, and undoing it may end the run."""


@dataclass(frozen=True, slots=True)
class Suspect:
    record: EditRecord
    effect: int
    """The step from which the run first went on with it."""
    is_newest: bool
    """True if the next undo takes it back."""

    @property
    def opposite(self) -> dict[str, str | None] | None:
        """Values that set its keys back, as TOML; `None` where the journal does not have them: secrets, or
        several files, in which a key may mean another knob.
        """
        if len(self.record.files) != 1:
            return None
        previous_values = {key: old for key, (old, _) in self.record.files[0].keys.items()}
        return None if any(MASK in (old or "") for old in previous_values.values()) else previous_values


class Suspects:
    """Reads the journal again only where it has grown."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._size = -1
        self._edits_in_force: list[Suspect] = []

    def of(self, since: float) -> Suspect | None:
        """The last edit that took effect not long before step `since`; `None`: no edit is to blame."""
        size = self._journal.stat().st_size if self._journal.exists() else 0
        if size != self._size:
            self._size, self._edits_in_force = size, _edits_in_force(self._journal)
        recent = [
            suspect for suspect in self._edits_in_force if 0 <= since - suspect.effect <= _SUSPECT_STEPS
        ]
        return max(recent, key=lambda suspect: (suspect.effect, suspect.record.number), default=None)


def _edits_in_force(journal: Path) -> list[Suspect]:
    """Edits that nothing took back and that the run has gone on with."""
    log, effects, waiting = EditLog(), dict[int, int](), list[int]()
    for entry in read_entries(journal):
        data = entry.get("data")
        if entry["kind"] == "edit":
            try:
                record = EditRecord.from_plain(data)
            except InvalidValueError:  # another version wrote it
                continue
            log.add(record)
            waiting.append(record.number)
        elif entry["kind"] == "resume" and isinstance(data, dict):
            step = data.get("step")
            start = step if isinstance(step, int) else 0
            effects = {number: min(effect, start) for number, effect in effects.items()}
            effects |= dict.fromkeys(waiting, start)
            waiting.clear()
    newest = log.undoable
    return [
        Suspect(record, effects[record.number], record == newest)
        for record in log.in_force
        if record.number in effects and not _is_harmless(record)
    ]


def _is_harmless(record: EditRecord) -> bool:
    keys = [key for file in record.files for key in file.keys]
    return bool(keys) and all(key.rpartition(".")[2] == _HARMLESS for key in keys)
