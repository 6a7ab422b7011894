"""What was measured, beside what, and whether that is within the budget."""

from __future__ import annotations

from dataclasses import dataclass

HEADER = ("what", "figure", "beside", "peer", "ratio", "budget", "within")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. Figure, peer and budget share the unit."""

    what: str
    figure: float
    unit: str
    beside: str = ""
    peer: float | None = None
    budget: float | None = None
    """At most this."""

    @property
    def ratio(self) -> float | None:
        return self.figure / self.peer if self.peer else None

    def cells(self) -> tuple[str, ...]:
        within = "" if self.budget is None else "yes" if self.figure <= self.budget else "NO"
        return (
            self.what,
            f"{number(self.figure)} {self.unit}",
            self.beside,
            "" if self.peer is None else f"{number(self.peer)} {self.unit}",
            "" if self.ratio is None else f"{self.ratio:.2f}",
            "" if self.budget is None else f"≤ {number(self.budget)} {self.unit}",
            within,
        )


def number(value: float) -> str:
    """Three digits that count, no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def as_text(rows: list[Row]) -> str:
    """An aligned table."""
    lines = [HEADER, *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
