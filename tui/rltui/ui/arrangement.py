"""What is where on the overview: columns of panels, their shares of the room, which are hidden. Values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeVar

from rltui.core.layout import Screen as ScreenLayout

GPUS, KNOBS, CHARTS = "gpus", "knobs", "charts"
PANELS = (GPUS, KNOBS, CHARTS)
"""What there is besides the panes of components and logs."""
_Key = TypeVar("_Key", str, int)
Direction = Literal["left", "right", "up", "down"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How a person wants it; a screen may have room for less. A name may have no pane now, and one later."""

    columns: tuple[tuple[str, ...], ...]
    """Names of components, logs and `PANELS`, top to bottom, left to right."""
    widths: tuple[float, ...]
    """Share of each column."""
    heights: Mapping[str, float] = field(default_factory=dict)
    """Share of a panel in its column, where it is not 1."""
    hidden: frozenset[str] = frozenset()

    @classmethod
    def usual(cls, layout: ScreenLayout, reader_ids: Sequence[str]) -> Self:
        """As the layout says. What it does not name is hidden, and the charts are."""
        if layout.columns:
            columns, widths = layout.columns, [_share(text) for text in layout.widths]
        else:
            columns, widths = (tuple(reader_ids), (GPUS, KNOBS)), []
        named = {name for column in columns for name in column}
        others = tuple(name for name in reader_ids if name not in named)
        panels = tuple(name for name in PANELS if name not in named)
        columns = ((*columns[0], *others), *columns[1:-1], *((*column, *panels) for column in columns[-1:]))
        if len(columns) > len(layout.columns or columns):  # the only column is the first and the last one
            columns = ((*columns[0], *panels),)
        return cls(
            columns,
            tuple(widths) or (2.0, *(1.0,) * (len(columns) - 1)),
            hidden=frozenset((*others, *panels)),
        )

    # as it is kept

    def kept(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "columns": [list(column) for column in self.columns],
            "widths": list(self.widths),
            "heights": dict(self.heights),
            "hidden": sorted(self.hidden),
        }

    @staticmethod
    def restored(kept: object, usual: Arrangement) -> Arrangement:
        """As it was kept, with what is new since; `usual` where that cannot be understood."""
        match kept:
            case {"columns": [*columns], "widths": [*widths], "heights": {**heights}, "hidden": [*hidden]}:
                names = [name for column in columns if isinstance(column, list) for name in column]
                shares: dict[str, Any] = {str(name): share for name, share in heights.items()}
                if (
                    len(columns) == len(widths)
                    and all(isinstance(column, list) for column in columns)
                    and len(set(map(str, names))) == len(names)
                    and all(isinstance(name, str) for name in (*names, *heights, *hidden))
                    and all(
                        isinstance(share, int | float) and 0 < share < math.inf
                        for share in (*widths, *shares.values())
                    )
                ):
                    known = Arrangement(tuple(map(tuple, columns)), tuple(widths), shares, frozenset(hidden))
                    return known.with_new(usual)
        return usual

    def with_new(self, usual: Arrangement) -> Arrangement:
        """With what only `usual` has, in the same column, hidden where it is hidden there."""
        found = self
        for at, column in enumerate(usual.columns):
            for name in column:
                if self.column_of(name) is None:
                    found = found.with_panel(name, at)
                    if name in usual.hidden:
                        found = found.hiding(name)
        return found

    # operations

    def column_of(self, name: str) -> int | None:
        return next((at for at, column in enumerate(self.columns) if name in column), None)

    def with_panel(self, name: str, column: int = 0) -> Arrangement:
        """With one more at the end of a column, or of the last one."""
        if not self.columns:
            return replace(self, columns=((name,),), widths=(1.0,))
        at = min(column, len(self.columns) - 1)
        return self._with_columns({at: (*self.columns[at], name)})

    def hiding(self, name: str) -> Arrangement:
        """Without it; it keeps its place."""
        return replace(self, hidden=self.hidden | {name})

    def showing(self, *names: str) -> Arrangement:
        return replace(self, hidden=self.hidden - set(names))

    def moved(self, name: str, direction: Direction, seen: Collection[str]) -> Arrangement:
        """One place on, among those that are `seen`: in its column, or to the end of the next one."""
        at = self.column_of(name)
        if at is None:
            return self
        column, step = self.columns[at], -1 if direction in ("left", "up") else 1
        if direction in ("up", "down"):
            beside = [other for other in column if other in seen or other == name]
            to = beside.index(name) + step
            if not 0 <= to < len(beside):
                return self
            swap = {name: beside[to], beside[to]: name}
            return self._with_columns({at: tuple(swap.get(each, each) for each in column)})
        rest = tuple(other for other in column if other != name)
        targets = range(at + step, len(self.columns) if step > 0 else -1, step)
        to_column = next((to for to in targets if set(self.columns[to]) & set(seen)), None)
        if to_column is not None:
            return self._with_columns({at: rest, to_column: (*self.columns[to_column], name)})
        if not set(rest) & set(seen):
            return self
        columns, widths = list(self.columns), list(self.widths)
        columns[at] = rest
        edge = len(columns) if step > 0 else 0
        columns.insert(edge, (name,))
        widths.insert(edge, 1.0)
        return replace(self, columns=tuple(columns), widths=tuple(widths))

    def with_rows(self, rows: Mapping[str, int]) -> Arrangement:
        """With these heights beside each other; together they have the share they had."""
        shares = _shared_out(rows, {name: self.heights.get(name, 1.0) for name in rows})
        return replace(self, heights={**self.heights, **shares})

    def with_cells(self, cells: Mapping[int, int]) -> Arrangement:
        """With these widths of columns beside each other, by their place."""
        shares = _shared_out(cells, dict(enumerate(self.widths)))
        return replace(self, widths=tuple(shares.get(at, share) for at, share in enumerate(self.widths)))

    def _with_columns(self, changed: Mapping[int, tuple[str, ...]]) -> Arrangement:
        """Those instead; a column that nothing is left of goes."""
        pairs = [
            (changed.get(at, column), share)
            for at, (column, share) in enumerate(zip(self.columns, self.widths, strict=True))
        ]
        left = [pair for pair in pairs if pair[0]]
        return replace(
            self, columns=tuple(column for column, _ in left), widths=tuple(share for _, share in left)
        )


def _shared_out(sizes: Mapping[_Key, int], before: Mapping[_Key, float]) -> dict[_Key, float]:
    """The shares of what has these sizes now, with the sum that they had."""
    each = sum(before[key] for key in sizes) / sum(sizes.values())
    return {key: size * each for key, size in sizes.items()}


def _share(text: str) -> float:
    """`2fr`."""
    number = re.match(r"\d+(\.\d+)?", text)
    return (float(number[0]) if number else 0.0) or 1.0
