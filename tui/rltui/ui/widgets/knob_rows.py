"""A knob table as lines of text, for a given width. Pure functions."""

from __future__ import annotations

from textual.content import Content

from rltui.core.api import KnobInfo, KnobTable, Problem
from rltui.ui.text import clean_line, listed, shortened, value_text

_SHORT_NAMES = {"inference": "infer", "orchestrator": "orch", "trainer": "train"}
_SEVERITY_MARKS = {
    "error": ("✗", "$text-error"),
    "warning": ("!", "$text-warning"),
    "hint": ("·", "$foreground 60%"),
}
_READERS_WIDTH = 11
_MIN_VALUE_WIDTH = 9


def readers_text(readers: tuple[str, ...], width: int = _READERS_WIDTH) -> str:
    """`orch`, `orch train`, or `3 read it` where the names would not fit."""
    text = " ".join(_SHORT_NAMES.get(name, name[:5]) for name in readers)
    return text if len(text) <= width else f"{len(readers)} readers"


def change_text(knob: KnobInfo) -> str:
    """`128`, or `128 → 64` where the file differs from what runs."""
    if knob.changed:
        return f"{value_text(knob.running)} → {value_text(knob.value)}"
    return value_text(knob.value)


def worst_problem(knob: KnobInfo, problems: tuple[Problem, ...]) -> Problem | None:
    """The most severe problem of this knob."""
    own = [problem for problem in problems if problem.key == knob.key]
    return min(own, key=lambda problem: list(_SEVERITY_MARKS).index(problem.severity), default=None)


def value_width(table: KnobTable, width: int) -> int:
    """Cells for the value column, the same for all rows."""
    longest = max((len(change_text(knob)) for knob in table.knobs), default=0)
    return max(_MIN_VALUE_WIDTH, min(longest, width // 3))


def _key(key: str, width: int) -> Content:
    section, dot, name = key.rpartition(".")
    prefix = clean_line(section) + dot
    name = clean_line(name)
    if len(prefix) + len(name) > width:
        room = width - len(name) - 1
        prefix = f"{prefix[: max(0, room - 2)]}…." if room > 4 else ""
    return Content.assemble((prefix, "$foreground 60%"), (shortened(name, width), ""))


def knob_line(knob: KnobInfo, *, width: int, values: int, problem: Problem | None) -> Content:
    """One row: mark, key, value, readers."""
    mark, mark_style = _SEVERITY_MARKS[problem.severity] if problem else (" ", "")
    plain_style = "" if knob.is_set else "$foreground 60%"
    value_style = "bold $text-warning" if knob.changed else plain_style
    readers = _READERS_WIDTH if width >= 44 else 0
    key_width = max(6, width - 2 - values - 1 - (readers + 1 if readers else 0))
    key = _key(knob.key, key_width)
    line = Content.assemble(
        (mark, mark_style),
        " ",
        key.pad_right(max(0, key_width - key.cell_length)),
        " ",
        (shortened(change_text(knob), values).rjust(values), value_style),
    )
    if readers:
        line += Content.styled(f" {readers_text(knob.readers)}", "$foreground 60%")
    return line


def bounds_text(knob: KnobInfo) -> str:
    """`1 to 4096 rollouts`, `1 or more`, `one of a, b`; empty where anything goes."""
    low, high = knob.bounds
    unit = f" {clean_line(knob.unit)}" if knob.unit else ""
    if knob.choices:
        return f"one of {', '.join(clean_line(choice) for choice in knob.choices)}"
    if low is not None and high is not None:
        return f"{value_text(low)} to {value_text(high)}{unit}"
    if low is not None:
        return f"{value_text(low)} or more{unit}"
    if high is not None:
        return f"up to {value_text(high)}{unit}"
    return clean_line(knob.unit)


def origin_text(knob: KnobInfo) -> str:
    """Where the value comes from and what else it may be."""
    parts = [] if knob.is_set else ["not in the file"]
    if knob.default is not None:
        parts.append(f"default {value_text(knob.default)}")
    if bounds := bounds_text(knob):
        parts.append(bounds)
    if knob.readers:
        parts.append(f"read by {listed(knob.readers)}")
    return " · ".join(parts)


def knob_detail(knob: KnobInfo | None, problem: Problem | None) -> Content:
    """The lines under the table: what is wrong with the knob, what it is, what it may be."""
    if knob is None:
        return Content("")
    spans: list[tuple[str, str]] = []
    if problem is not None:
        mark, style = _SEVERITY_MARKS[problem.severity]
        spans.append((f"{mark} {clean_line(problem.message)}\n", style))
    if knob.help:
        spans.append((f"{clean_line(knob.help)}\n", ""))
    spans.append((origin_text(knob), "$foreground 60%"))
    return Content.assemble(*spans)


def table_note(table: KnobTable) -> Content:
    """For the panel's border: what is wrong, what does not count yet."""
    spans: list[tuple[str, str]] = []
    errors = sum(problem.severity == "error" for problem in table.problems)
    if errors:
        spans.append((f"✗ {errors} error{'s' if errors > 1 else ''}", "$text-error"))
    if changed := sum(knob.changed for knob in table.knobs):
        text = "1 change waits" if changed == 1 else f"{changed} changes wait"
        spans.append((" · " if spans else "", ""))
        spans.append((f"{text} for a restart: A", "$text-warning"))
    return Content.assemble(*spans)
