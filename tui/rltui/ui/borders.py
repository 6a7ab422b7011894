"""Borders between panels: which one is where, and what it does to an arrangement to move one. No widgets."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.ui.arrangement import Arrangement
from rltui.ui.geometry import Geometry

_LEAST_ROWS = 4
_LEAST_CELLS = 12


@dataclass(frozen=True, slots=True)
class Border:
    """Between two panels that are open in one column, or between two columns."""

    before: str
    """Above it, or at its left."""
    behind: str
    between_columns: bool


def border_at(placing: Geometry, x: int, y: int) -> Border | None:
    """The one that a person points at: frames of both panels belong to it, and titles without a frame."""
    places = placing.places
    name = next((each for each, at in places.items() if at.x <= x < at.right and at.y <= y < at.bottom), None)
    if name is None:
        return None
    at = places[name]
    if x == at.right - 1 and (beside := placing.column_at(at.right)):
        return Border(name, beside[0], between_columns=True)
    if x == at.x and (beside := placing.column_at(at.x - 1)):
        return Border(beside[0], name, between_columns=True)
    column = placing.column_at(x)
    if y == at.y:
        return _around(placing, column, column.index(name))
    if y == at.bottom - 1 and not placing.is_flat:
        return _around(placing, column, column.index(name) + 1)
    return None


def _around(placing: Geometry, column: list[str], place: int) -> Border | None:
    """Between the nearest two that are open."""
    above = [name for name in column[:place] if not placing.places[name].is_folded]
    below = [name for name in column[place:] if not placing.places[name].is_folded]
    return Border(above[-1], below[0], between_columns=False) if above and below else None


def border_of(placing: Geometry, name: str, *, between_columns: bool) -> tuple[Border, int] | None:
    """The one behind a panel, else before it, and the direction (1, -1) in which that makes it larger."""
    if (at := placing.places.get(name)) is None:
        return None
    if between_columns:
        right, left = placing.column_at(at.right), placing.column_at(at.x - 1)
        if right:
            return Border(name, right[0], between_columns=True), 1
        return (Border(left[0], name, between_columns=True), -1) if left else None
    column = [each for each in placing.column_at(at.x) if not placing.places[each].is_folded]
    if name not in column or len(column) == 1:
        return None
    place = column.index(name)
    if place + 1 < len(column):
        return Border(name, column[place + 1], between_columns=False), 1
    return Border(column[place - 1], name, between_columns=False), -1


def dragged(arrangement: Arrangement, placing: Geometry, border: Border, by: int) -> Arrangement:
    """With the border so many rows or cells further on than in `placing`; both sides keep a little."""
    before, behind = placing.places[border.before], placing.places[border.behind]
    if border.between_columns:
        cells = {arrangement.column_of(name): at.width for name, at in placing.places.items()}
        sides = arrangement.column_of(border.before), arrangement.column_of(border.behind)
        cells |= dict(zip(sides, _moved(before.width, behind.width, by, _LEAST_CELLS), strict=True))
        return arrangement.with_cells({at: each for at, each in cells.items() if at is not None})
    rows = {
        name: placing.places[name].height
        for name in placing.column_at(before.x)
        if not (placing.places[name].is_folded or placing.places[name].is_full)
    }
    moved = _moved(before.height, behind.height, by, _LEAST_ROWS)
    rows |= dict(zip((border.before, border.behind), moved, strict=True))
    return arrangement.with_rows(rows)


def _moved(before: int, behind: int, by: int, least: int) -> tuple[int, int]:
    least = min(least, before, behind)
    by = max(least - before, min(by, behind - least))
    return before + by, behind - by
