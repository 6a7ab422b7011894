"""A converted config in words: what has become of its keys, what to do, who found it valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rltui.base.text import count_text
from rltui.core.config.report import ForeignConfig, KeyChange

_ORDER = ("moved", "merged", "changed", "set", "dropped", "default")


def conversion_lines(report: ForeignConfig) -> Iterator[str]:
    """One per key, then the summary."""
    if report.source and report.source != report.target:
        yield f"from {report.source} to {report.target}"
    for change in sorted(report.changes, key=lambda change: _ORDER.index(change.kind)):
        yield _line(change)
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"{problem.severity}: {problem.text}" for problem in report.problems)
    counts = Counter[str](change.kind for change in report.changes)
    parts = [f"{count_text(counts[kind], 'key')} {kind}" for kind in _ORDER[:-1] if counts[kind]]
    if counts["default"]:
        parts.append(f"{count_text(counts['default'], 'default')} changed")
    verdict = "valid" if report.valid else "not valid"
    if report.validator:
        parts.append(f"{verdict} by {report.validator}")
    if report.compared:
        parts.append(report.compared)
    if parts:
        yield "; ".join(parts)


def _line(change: KeyChange) -> str:
    """`dropped: a.b = 1: why; what to do (2026-08-19, 0630b7bff)`."""
    value = f" = {change.value}" if change.value and change.kind in ("set", "dropped") else ""
    names = " → ".join(name for name in (change.key, change.to) if name is not None)
    if change.kind == "changed":
        value = f": {change.value}"
    reasons = "; ".join(filter(None, (change.why, change.todo)))
    origin = ", ".join(filter(None, (change.date, change.commit)))
    return f"{change.kind}: {names}{value}: {reasons}{f' ({origin})' if origin else ''}"
