"""The layout of the overview as a person wants it: columns of panels, shares, hidden panels. Values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeVar

from rltui.core.experiment.description import ScreenLayout

GPUS, KNOBS, CHARTS = "gpus", "knobs", "charts"
PANELS = (GPUS, KNOBS, CHARTS)
"""The panels besides the panes of components and logs."""
_Key = TypeVar("_Key", str, int)
Direction = Literal["left", "right", "up", "down"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A screen may have room for less of it. A name may have no panel now, and one later."""

    columns: tuple[tuple[str, ...], ...]
    """Names of components, logs and `PANELS`, top to bottom, left to right."""
    widths: tuple[float, ...]
    """The columns' shares of the whole width."""
    heights: Mapping[str, float] = field(default_factory=dict)
    """Share of a panel in its column, where it is not 1."""
    hidden: frozenset[str] = frozenset()

    @classmethod
    def of_layout(cls, layout: ScreenLayout, reader_ids: Sequence[str], *, has_charts: bool = False) -> Self:
        """Panels that the layout does not name are hidden; of the charts `has_charts` decides."""
        if layout.columns:
            columns, widths = layout.columns, [_share(text) for text in layout.widths]
        else:
            columns, widths = (tuple(reader_ids), (GPUS, KNOBS)), []
        placed_ids = {name for column in columns for name in column}
        unplaced = tuple(name for name in reader_ids if name not in placed_ids)
        panels = tuple(name for name in PANELS if name not in placed_ids)
        columns = ((*columns[0], *unplaced), *columns[1:-1], *((*column, *panels) for column in columns[-1:]))
        if len(columns) > len(layout.columns or columns):  # the only column is the first and the last one
            columns = ((*columns[0], *panels),)
        return cls(
            columns,
            tuple(widths) or (2.0, *(1.0,) * (len(columns) - 1)),
            hidden=frozenset((*unplaced, *panels)) - ({CHARTS} if has_charts else set()),
        )

    # as it is saved

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": [list(column) for column in self.columns],
            "widths": list(self.widths),
            "heights": dict(self.heights),
            "hidden": sorted(self.hidden),
        }

    @staticmethod
    def from_json(saved: object, default: Arrangement) -> Arrangement:
        """New panels are added to the saved arrangement; `default` where that cannot be understood."""
        match saved:
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
                    restored = Arrangement(
                        tuple(map(tuple, columns)), tuple(widths), shares, frozenset(hidden)
                    )
                    return restored.with_new(default)
        return default

    def with_new(self, default: Arrangement) -> Arrangement:
        """Adds panels that only `default` has, in the same column, hidden where they are hidden there."""
        arrangement = self
        for index, column in enumerate(default.columns):
            for name in column:
                if self.column_of(name) is None:
                    arrangement = arrangement.with_panel(name, index)
                    if name in default.hidden:
                        arrangement = arrangement.hide(name)
        return arrangement

    # changes

    def column_of(self, name: str) -> int | None:
        return next((index for index, column in enumerate(self.columns) if name in column), None)

    def with_panel(self, name: str, column: int = 0) -> Arrangement:
        """Adds a panel at the end of a column, or of the last one."""
        if not self.columns:
            return replace(self, columns=((name,),), widths=(1.0,))
        index = min(column, len(self.columns) - 1)
        return self._with_columns({index: (*self.columns[index], name)})

    def hide(self, name: str) -> Arrangement:
        """A hidden panel keeps its position in its column."""
        return replace(self, hidden=self.hidden | {name})

    def show(self, *names: str) -> Arrangement:
        return replace(self, hidden=self.hidden - set(names))

    def move(self, name: str, direction: Direction, visible: Collection[str]) -> Arrangement:
        """One step, among those that are visible: in its column, or to the end of the next one."""
        index = self.column_of(name)
        if index is None:
            return self
        step = -1 if direction in ("left", "up") else 1
        if direction in ("up", "down"):
            return self._swap(name, index, step, visible)
        rest = tuple(other for other in self.columns[index] if other != name)
        targets = range(index + step, len(self.columns) if step > 0 else -1, step)
        target = next((column for column in targets if set(self.columns[column]) & set(visible)), None)
        if target is not None:
            return self._with_columns({index: rest, target: (*self.columns[target], name)})
        if not set(rest) & set(visible):
            return self
        columns, widths = list(self.columns), list(self.widths)
        columns[index] = rest
        edge = len(columns) if step > 0 else 0
        columns.insert(edge, (name,))
        widths.insert(edge, 1.0)
        return replace(self, columns=tuple(columns), widths=tuple(widths))

    def _swap(self, name: str, column: int, step: int, visible: Collection[str]) -> Arrangement:
        names = [other for other in self.columns[column] if other in visible or other == name]
        target = names.index(name) + step
        if not 0 <= target < len(names):
            return self
        swap = {name: names[target], names[target]: name}
        return self._with_columns({column: tuple(swap.get(other, other) for other in self.columns[column])})

    def with_rows(self, rows: Mapping[str, int]) -> Arrangement:
        """Sets the heights of panels in one column; their shares keep the same sum."""
        shares = _to_shares(rows, {name: self.heights.get(name, 1.0) for name in rows})
        return replace(self, heights={**self.heights, **shares})

    def with_cells(self, cells: Mapping[int, int]) -> Arrangement:
        """Sets the widths of columns, by their indexes; their shares keep the same sum."""
        shares = _to_shares(cells, dict(enumerate(self.widths)))
        widths = (shares.get(index, share) for index, share in enumerate(self.widths))
        return replace(self, widths=tuple(widths))

    def _with_columns(self, replacements: Mapping[int, tuple[str, ...]]) -> Arrangement:
        """Replaces columns by their indexes; an empty one goes."""
        pairs = [
            (column, share)
            for index, share in enumerate(self.widths)
            if (column := replacements.get(index, self.columns[index]))
        ]
        columns = tuple(column for column, _ in pairs)
        return replace(self, columns=columns, widths=tuple(share for _, share in pairs))


def _to_shares(sizes: Mapping[_Key, int], old_shares: Mapping[_Key, float]) -> dict[_Key, float]:
    """Shares in proportion to `sizes`, with the sum of `old_shares`."""
    unit = sum(old_shares[key] for key in sizes) / sum(sizes.values())
    return {key: size * unit for key, size in sizes.items()}


def _share(text: str) -> float:
    number = re.match(r"\d+(\.\d+)?", text)
    return (float(number[0]) if number else 0.0) or 1.0
