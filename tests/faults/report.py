"""The table at the end of a fault run: how often each event met each program, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

COUNTS = "fault_counts"
"""Name of the property a test records its counts under: `total|what` or `event|program`, to a number."""
NONE = "·"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what all tests, on all workers, have recorded."""
    total: Counter[str] = Counter()
    for kind in ("passed", "failed"):
        for report in terminalreporter.stats.get(kind, ()):
            for name, counts in getattr(report, "user_properties", ()):
                if name == COUNTS:
                    total.update(counts)
    if total:
        terminalreporter.section("random fault sequences")
        for line in table(total):
            terminalreporter.write_line(line)


def table(counts: Mapping[str, int]) -> list[str]:
    """Totals, then a matrix: a row per event, a column per program that it met, with their sums."""
    pairs = {tuple(name.split("|")): number for name, number in counts.items()}
    lines = [f"{number:7d} {what}" for (kind, what), number in sorted(pairs.items()) if kind == "total"]
    cells = {pair: number for pair, number in pairs.items() if pair[0] != "total"}
    events = sorted({event for event, _ in cells})
    programs = sorted({program for _, program in cells})
    lines += [f"{'':7}{'    │' * place}    ┌ {program}" for place, program in enumerate(programs)]
    for event in events:
        row = [cells.get((event, program), 0) for program in programs]
        shown = "".join(f"{number or NONE:>5}" for number in row)
        lines.append(f"{'':7}{shown}{sum(row):7d}  {event}")
    sums = [sum(cells.get((event, program), 0) for event in events) for program in programs]
    lines.append(f"{'':7}{''.join(f'{number:5d}' for number in sums)}{sum(sums):7d}  all")
    return lines
