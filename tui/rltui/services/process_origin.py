"""Which attempt of which experiment started a process: of any experiment on this box."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui.services import processes
from rltui.services.runs.experiment_files import ControlFolder

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


@dataclass(frozen=True, slots=True)
class Trace:
    """What one process, or an ancestor of it, tells of its attempt."""

    tags: Mapping[str, str]
    """Of its environment; empty where it has none."""
    shim_folder: Path | None
    """It is a shim, and this is its attempt's."""


def read_trace(pid: int) -> Trace:
    """An empty one where the process is gone or tells nothing. Another user's environment is not told."""
    tags = processes.attempt_tags(pid)
    folder = processes.command_line(pid).partition(f"{_SHIM} ")[2]
    return Trace(tags if _TAG in tags else {}, Path(folder) if folder else None)


def origin(traces: Iterable[Trace]) -> Origin | None:
    """`None` where no experiment started the process.

    Told by its shim, the ancestor that wrote the attempt's record, or by the tags in its environment or that
    of an ancestor: vLLM and prime-rl overwrite their own. An attempt without a shim and without a record, as
    after its folder was deleted, counts as dead.

    Args:
        traces: of the process itself, its parent and so on. No more are taken than are needed.
    """
    tags: Mapping[str, str] = {}
    for trace in traces:
        tags = tags or trace.tags
        if trace.shim_folder is not None:
            record = processes.read_attempt(trace.shim_folder)
            lives = record is None or record.ended_at is None
            return _of_record(record, lives=lives) if record else _of_tags(tags, lives=lives)
    record = _record(tags)
    lives = record is not None and record.living_main is not None
    return _of_tags(tags, lives=lives)


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
