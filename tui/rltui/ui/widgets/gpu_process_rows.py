"""The processes on a device, as rows and in words. Pure functions."""

from __future__ import annotations

from textual.content import Content

from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuShare
from rltui.core.text import short_command
from rltui.ui.text import clean_line, shortened
from rltui.ui.widgets.gpu_marks import FAINT, Marks, share_label
from rltui.ui.widgets.gpu_words import can_be_freed, size_text
from rltui.ui.widgets.row_list import Row

_PID, _USER, _KIND, _MEMORY, _PART = 9, 9, 4, 10, 6
_FIXED = _PID + _USER + _KIND + _MEMORY + _PART
_WIDE = 90
"""From here on there is room for more words on what a process is."""


def _what_width(width: int) -> int:
    return 32 if width >= _WIDE else 22


def what_it_is(process: GpuProcess) -> str:
    """`trainer attempt 2`, `leftover of inference 1`, `unknown`."""
    attempt = "" if process.attempt is None else f" {process.attempt}"
    component = clean_line(process.component or "")
    match process.owner:
        case "component":
            return f"{component} attempt{attempt}" if attempt else component
        case "orphan":
            return f"leftover {component}{attempt}"
        case "experiment":
            return clean_line(f"{process.experiment or 'experiment'}/{process.component or '?'}")
        case "mine":
            return "unknown, yours"
        case "other":
            return "somebody else's"
        case "unknown" | "hidden":
            return "cannot be told"


def why_left_alone(process: GpuProcess, host: str) -> str | None:
    """Whose it is, where it is not for us to end; `None` where it may be ended."""
    pid = f"pid {process.pid}"
    if host:
        return f"{pid} runs on {clean_line(host)}: it can only be ended there"
    if can_be_freed(process):
        return None
    match process.owner:
        case "component":
            component = clean_line(process.component or "a component")
            return f"{pid} belongs to {component} of this experiment: x stops that"
        case "experiment":
            return (
                f"{pid} belongs to the experiment {clean_line(process.experiment or '?')}: it is left alone"
            )
        case "other":
            return f"{pid} belongs to {clean_line(process.user or 'another user')}: it is left alone"
        case _:
            return f"{pid}: cannot be told whose it is, so it is left alone"


def process_heading(width: int) -> Content:
    """Above the columns of `process_rows`."""
    texts = [
        "  pid".ljust(_PID),
        "user".ljust(_USER),
        "what".ljust(_what_width(width)),
        "kind",
        "memory".rjust(_MEMORY),
    ]
    line = "".join([*texts, "%".rjust(_PART), "  command"])
    return Content.styled(shortened(line, width), FAINT)


def process_rows(device: GpuDevice | None, width: int, selected: str | None, marks: Marks) -> tuple[Row, ...]:
    """A row per process, keyed by its pid, largest first."""
    if device is None:
        return ()
    if not device.processes:
        text = "" if device.problem else "no process is listed"
        return (Row(None, (Content.styled(f"  {text}", FAINT),)),)
    largest = sorted(device.processes, key=lambda process: -(process.used_bytes or 0))
    return tuple(
        Row(
            str(process.pid),
            (_line(process, device, width, marks, is_selected=str(process.pid) == selected),),
        )
        for process in largest
    )


def _line(process: GpuProcess, device: GpuDevice, width: int, marks: Marks, *, is_selected: bool) -> Content:
    what_width = _what_width(width)
    mark = marks[share_label(_share(process))]
    part = ""
    if process.used_bytes is not None and device.total_bytes:
        part = f"{100 * process.used_bytes / device.total_bytes:.0f} %"
    memory = (
        size_text(process.used_bytes, estimated=process.estimated) if process.used_bytes is not None else "?"
    )
    command = short_command(
        clean_line(process.command or process.name), max(0, width - _FIXED - what_width - 2)
    )
    style = "$text-warning" if can_be_freed(process) else ""
    what = f"{'⚠ ' if style else ''}{what_it_is(process)}"
    return Content.assemble(
        f"{'▸' if is_selected else ' '} {process.pid}".ljust(_PID),
        shortened(clean_line(process.user or "?"), _USER - 1).ljust(_USER),
        (f"{mark.glyph} ", mark.style),
        (shortened(what, what_width - 3).ljust(what_width - 2), style),
        process.kind.ljust(_KIND),
        memory.rjust(_MEMORY),
        part.rjust(_PART),
        (f"  {command}", FAINT),
    )


def _share(process: GpuProcess) -> GpuShare:
    """The share that it is part of, as far as its label goes."""
    return GpuShare(
        owner=process.owner, experiment=process.experiment, component=process.component, user=process.user
    )
