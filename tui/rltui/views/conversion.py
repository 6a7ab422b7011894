"""A converted config in words: what has become of its keys, what to do, who found it valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rltui.base.text import count_text
from rltui.core.config.report import ForeignConfig, KeyChange
from rltui.views.equivalence import equivalence_lines

_ORDER = ("moved", "merged", "changed", "set", "dropped", "default")


def conversion_lines(report: ForeignConfig) -> Iterator[str]:
    """What was done to the keys, with reasons and advice below them, then the summary."""
    if report.source and report.source != report.target:
        yield f"from {report.source} to {report.target}"
    changes = sorted(report.changes, key=lambda change: _ORDER.index(change.kind))
    groups: dict[tuple[str, ...], list[str]] = {}
    for change in changes:
        reason = (change.kind, change.why, change.todo, ", ".join(filter(None, (change.date, change.commit))))
        file = f" in {Path(change.file).name}" if len(report.files) > 1 else ""
        groups.setdefault(reason, []).append(f"{change.kind}: {_names(change)}{file}")
    for (_, why, todo, origin), lines in groups.items():
        yield from lines
        yield f"  {why}{f' ({origin})' if origin else ''}"
        if todo:
            yield f"  → {todo}"
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"{problem.severity}: {problem.text}" for problem in report.problems)
    counts = Counter[str](change.kind for change in report.changes)
    parts = [f"{count_text(counts[kind], 'key')} {kind}" for kind in _ORDER[:-1] if counts[kind]]
    if counts["default"]:
        parts.append(f"{count_text(counts['default'], 'default')} changed")
    if advice := {change.todo for change in report.changes if change.todo}:
        parts.append(f"{len(advice)} to do (→)")
    verdict = "valid" if report.valid else "not valid"
    if report.validator:
        parts.append(f"{verdict} by {report.validator}")
    if report.compared is not None:
        defaults = [change.to for change in report.changes if change.kind == "default" and change.to]
        yield from equivalence_lines(report.compared, defaults)
    if parts:
        yield "; ".join(parts)


def _names(change: KeyChange) -> str:
    """`a.b → c.d`, with the value that was set, changed or dropped."""
    names = " → ".join(dict.fromkeys(name for name in (change.key, change.to) if name is not None))
    sign = ": " if change.kind == "changed" else " = "
    return f"{names}{sign}{change.value}" if change.value else names
