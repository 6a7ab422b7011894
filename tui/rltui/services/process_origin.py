"""Which attempt of which experiment started a process: of any experiment on this box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui.services import processes
from rltui.services.experiment_files import ControlFolder

_TAG = "RLTUI_EXPERIMENT"
_SHIM = "/daemon/shim/__main__.py"
"""End of the program's path in a shim's command line, which the attempt's folder follows (`Terminal`)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An attempt."""

    experiment: str
    """Its name."""
    component: str
    attempt: int | None
    lives: bool
    """Its main process has not ended."""


def origin(pid: int) -> Origin | None:
    """`None` where no experiment started it. Only for processes of this user: others' tell too little.

    Told by its shim, the ancestor that wrote the attempt's record, or by the tags in its environment or that
    of an ancestor: vLLM and prime-rl overwrite their own. An attempt without a shim and without a record, as
    after its folder was deleted, counts as dead.
    """
    tags: dict[str, str] = {}
    for ancestor in processes.ancestors(pid):
        tags = tags if _TAG in tags else processes.attempt_tags(ancestor)
        folder = _shim_folder(ancestor)
        if folder is not None:
            record = processes.read_attempt(folder)
            lives = record is None or record.ended_at is None
            return _of_record(record, lives=lives) if record else _of_tags(tags, lives=lives)
    record = _record(tags)
    lives = record is not None and record.living_main is not None
    return _of_tags(tags, lives=lives)


def _shim_folder(pid: int) -> Path | None:
    folder = processes.command_line(pid).partition(f"{_SHIM} ")[2]
    return Path(folder) if folder else None


def _record(tags: Mapping[str, str]) -> processes.AttemptRecord | None:
    output_dir = tags.get(_TAG, "").partition("@")[2]
    attempt = tags.get("RLTUI_ATTEMPT", "")
    if not output_dir or not attempt.isdecimal():
        return None
    control = ControlFolder(Path(output_dir))
    return processes.read_attempt(control.attempt_dir(tags.get("RLTUI_COMPONENT", ""), int(attempt)))


def _of_record(record: processes.AttemptRecord, *, lives: bool) -> Origin:
    return Origin(_name(record.experiment), record.component, record.attempt, lives)


def _of_tags(tags: Mapping[str, str], *, lives: bool) -> Origin | None:
    if _TAG not in tags or "RLTUI_COMPONENT" not in tags:
        return None
    attempt = tags.get("RLTUI_ATTEMPT", "")
    number = int(attempt) if attempt.isdecimal() else None
    return Origin(_name(tags[_TAG]), tags["RLTUI_COMPONENT"], number, lives)


def _name(tag: str) -> str:
    """See `ExperimentRecord.tag`."""
    return tag.partition("@")[0]
