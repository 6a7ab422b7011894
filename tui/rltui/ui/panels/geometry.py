"""An arrangement and a size give rectangles, stacked, folded, scrolled away or without a frame, and the
borders between them. Pure: the style sheet only draws the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rltui.ui.panels.arrangement import Arrangement

EMPTY = "-empty"
"""Class of a panel that has nothing to show yet."""
_NARROW = 100
"""Below so many cells there is one column."""
_SHORT = 31
"""A narrow body with fewer rows folds the panels that do not have the focus."""
_LOW = 14
"""A body with fewer rows opens one pane of a column."""
_MIN_ROWS = 4
_MIN_FLAT_ROWS = 3
"""Least heights of an open panel, with a frame and without."""
_MIN_CELLS = 24
"""Least width of a column, where there is room for it."""
_MIN_DRAGGED_CELLS = 12
_OPEN_AMONG_MANY = 5
_NOTHING = 1e-6
"""Rounding error of arithmetic on rows."""


@dataclass(frozen=True, slots=True)
class PanelState:
    rows: Callable[[int], int] | None = None
    """Rows that show all of it in a frame, at a width in cells; `None`: it has a use for any number."""
    is_idle: bool = False
    """True if nothing happens in it: one row is enough, unless it is selected."""
    is_side: bool = False
    """It stands beside the panes that are read, and gives way to them on small screens."""


@dataclass(frozen=True, slots=True)
class Attention:
    focused: str | None = None
    """The panel that has the keys."""
    selected: str | None = None
    """The pane that was read last."""

    def first_of(self, names: Sequence[str]) -> str | None:
        return next((name for name in (self.focused, self.selected) if name in names), None)


_NO_ATTENTION = Attention()


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Cells from the upper left corner of the body."""

    x: int
    y: int
    width: int
    height: int
    is_folded: bool = False
    is_full: bool = False
    """It shows all it has, and would have more room otherwise."""

    @property
    def right(self) -> int:
        """The first cell behind it."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Caption:
    x: int
    y: int
    width: int
    text: str


@dataclass(frozen=True, slots=True)
class Border:
    """It runs between two open panels of one column, or between two columns."""

    first: str
    """The panel above it, or at its left."""
    second: str
    between_columns: bool


@dataclass(frozen=True, slots=True)
class Geometry:
    rectangles: Mapping[str, Rectangle] = field(default_factory=dict)
    """Hidden panels are left out."""
    is_flat: bool = False
    """A line above each instead of a frame around it."""
    captions: tuple[Caption, ...] = ()

    def column_at(self, x: int) -> list[str]:
        """The panels that stand in the cell `x`, from the top."""
        names = [name for name, rectangle in self.rectangles.items() if rectangle.x <= x < rectangle.right]
        return sorted(names, key=lambda name: self.rectangles[name].y)

    def border_at(self, x: int, y: int) -> Border | None:
        """The one that a person points at: frames of both panels belong to it, and titles without a frame."""
        column = self.column_at(x)
        for index, name in enumerate(column):
            rectangle = self.rectangles[name]
            if not rectangle.y <= y < rectangle.bottom:
                continue
            if x == rectangle.right - 1 and (right := self.column_at(rectangle.right)):
                return Border(name, right[0], between_columns=True)
            if x == rectangle.x and (left_column := self.column_at(rectangle.x - 1)):
                return Border(left_column[0], name, between_columns=True)
            if y == rectangle.y:
                return self._border_above(column, index)
            if y == rectangle.bottom - 1 and not self.is_flat:
                return self._border_above(column, index + 1)
        return None

    def _border_above(self, column: list[str], index: int) -> Border | None:
        """The border between the nearest two open panels around the top of the panel at `index`."""
        above = [name for name in column[:index] if not self.rectangles[name].is_folded]
        below = [name for name in column[index:] if not self.rectangles[name].is_folded]
        return Border(above[-1], below[0], between_columns=False) if above and below else None

    def border_of(self, name: str, *, between_columns: bool) -> tuple[Border, int] | None:
        """The one behind a panel, else before it, and the direction (1, -1) in which that makes it larger."""
        if (rectangle := self.rectangles.get(name)) is None:
            return None
        if between_columns:
            right_column, left_column = self.column_at(rectangle.right), self.column_at(rectangle.x - 1)
            if right_column:
                return Border(name, right_column[0], between_columns=True), 1
            return (Border(left_column[0], name, between_columns=True), -1) if left_column else None
        column = [other for other in self.column_at(rectangle.x) if not self.rectangles[other].is_folded]
        if name not in column or len(column) == 1:
            return None
        index = column.index(name)
        if index + 1 < len(column):
            return Border(name, column[index + 1], between_columns=False), 1
        return Border(column[index - 1], name, between_columns=False), -1

    def drag(self, arrangement: Arrangement, border: Border, distance: int) -> Arrangement:
        """Moves the border by so many rows or cells; both sides keep a little."""
        first, second = self.rectangles[border.first], self.rectangles[border.second]
        if border.between_columns:
            cells = {
                index: rectangle.width
                for name, rectangle in self.rectangles.items()
                if (index := arrangement.column_of(name)) is not None
            }
            sides = (arrangement.column_of(border.first), arrangement.column_of(border.second))
            sizes = _dragged(first.width, second.width, distance, _MIN_DRAGGED_CELLS)
            cells |= {index: size for index, size in zip(sides, sizes, strict=True) if index is not None}
            return arrangement.with_cells(cells)
        rows = {
            name: self.rectangles[name].height
            for name in self.column_at(first.x)
            if not (self.rectangles[name].is_folded or self.rectangles[name].is_full)
        }
        sizes = _dragged(first.height, second.height, distance, _MIN_ROWS)
        rows |= dict(zip((border.first, border.second), sizes, strict=True))
        return arrangement.with_rows(rows)


def _dragged(first: int, second: int, distance: int, least: int) -> tuple[int, int]:
    least = min(least, first, second)
    distance = max(least - first, min(distance, second - least))
    return first + distance, second - distance


def fit(
    arrangement: Arrangement,
    size: tuple[int, int],
    states: Mapping[str, PanelState],
    attention: Attention = _NO_ATTENTION,
    *,
    zoomed: str | None = None,
) -> Geometry:
    """Lays out the panels in `states` on a body of `size` (cells, rows); hidden ones are left out.

    `zoomed` is shown alone.
    """
    width, height = size
    if width <= 0 or height <= 0:
        return Geometry()
    if zoomed is not None and zoomed in states:
        return Geometry({zoomed: Rectangle(0, 0, width, height)}, is_flat=height < _LOW)
    columns = [
        (names, share)
        for column, share in zip(arrangement.columns, arrangement.widths, strict=True)
        if (names := [name for name in column if name in states and name not in arrangement.hidden])
    ]
    if not columns:
        text = "All panels are hidden: :all panels shows them"
        return Geometry(captions=(Caption(0, height // 2, width, text),))
    is_narrow = width < _NARROW
    if is_narrow:
        columns = [([name for names, _ in columns for name in names], 1.0)]
    least = _MIN_CELLS if _MIN_CELLS * len(columns) <= width else 0
    widths = _distribute(width, [_Demand(share, least, width) for _, share in columns])
    stacks, x = [], 0
    for (names, _), cells in zip(columns, widths, strict=True):
        stacks.append(
            _Stack(names, states, arrangement.heights, attention, x, cells, height, is_narrow=is_narrow)
        )
        x += cells
    is_flat = any(stack.is_flat for stack in stacks)
    rectangles: dict[str, Rectangle] = {}
    captions: list[Caption] = []
    for stack in stacks:
        placed, hints = stack.fill()
        rectangles |= placed
        captions += hints
    return Geometry(rectangles, is_flat, tuple(captions))


class _Stack:
    def __init__(
        self,
        names: list[str],
        states: Mapping[str, PanelState],
        shares: Mapping[str, float],
        attention: Attention,
        x: int,
        cells: int,
        height: int,
        *,
        is_narrow: bool,
    ) -> None:
        self._names, self._states, self._shares, self._attention = names, states, shares, attention
        self._x, self._cells, self._height = x, cells, height
        self._is_tight = is_narrow and height < _SHORT
        self.is_flat = self._is_tight or height < _LOW
        self._open_panels = self._open_names()
        needed = (
            sum(self._demand(name).least for name in self._open_panels) + len(names) - len(self._open_panels)
        )
        readers = sum(not states[name].is_side for name in self._open_panels)
        if len(self._open_panels) > 1 and (needed > height or (height < _LOW and readers > 1)):
            self.is_flat = True
            self._open_panels = [attention.first_of(names) or self._open_panels[0]]

    def _open_names(self) -> list[str]:
        """Panels that would show more than their title, were there room for all."""
        attended = (self._attention.focused, self._attention.selected)
        names = [
            name
            for name in self._names
            if not (self._states[name].is_idle and name not in attended)
            and not (self._is_tight and self._states[name].is_side and name != self._attention.focused)
        ]
        return names or [self._attention.first_of(self._names) or self._names[0]]

    def _demand(self, name: str) -> _Demand:
        state = self._states[name]
        maximum = self._height if state.rows is None else max(1, state.rows(self._cells) - self.is_flat)
        least = min(maximum, _MIN_FLAT_ROWS if self.is_flat else _MIN_ROWS)
        if self._is_tight and state.is_side:
            least = maximum = min(maximum, max(least, self._height // 2))
        return _Demand(self._shares.get(name, 1.0), least, maximum)

    def fill(self) -> tuple[dict[str, Rectangle], list[Caption]]:
        """Rectangles by name, and captions for panels that have no room for a title."""
        if len(self._open_panels) == 1:
            return self._fill_around(self._open_panels[0])
        demands = {name: self._demand(name) for name in self._open_panels}
        rows = self._height - (len(self._names) - len(self._open_panels))
        heights = dict(zip(demands, _distribute(rows, [*demands.values()]), strict=True))
        rectangles, y = {}, 0
        for name in self._names:
            height, is_folded = heights.get(name, 1), name not in heights
            is_full = not is_folded and height == demands[name].maximum < self._height
            rectangles[name] = Rectangle(self._x, y, self._cells, height, is_folded, is_full)
            y += height
        return rectangles, []

    def _fill_around(self, open_name: str) -> tuple[dict[str, Rectangle], list[Caption]]:
        """One is open; of the titles as many as there is room for, around it."""
        other_count, index = len(self._names) - 1, self._names.index(open_name)
        titles = min(other_count, self._height - min(self._height, max(_OPEN_AMONG_MANY, self._height // 2)))
        if other_count <= self._height - _OPEN_AMONG_MANY:
            titles = other_count
        above = min(max(0, index - titles // 2), other_count - titles)
        below = other_count - titles - above
        names, captions, y = self._names[above : above + titles + 1], [], 0
        if above and names[0] != open_name:
            captions.append(Caption(self._x, 0, self._cells, f" ↑ {above + 1} more"))
            names, y = names[1:], 1
        if below and names[-1] != open_name:
            captions.append(Caption(self._x, self._height - 1, self._cells, f" ↓ {below + 1} more"))
            names = names[:-1]
        rectangles = {}
        for name in names:
            height = self._height - titles if name == open_name else 1
            rectangles[name] = Rectangle(self._x, y, self._cells, height, is_folded=name != open_name)
            y += height
        return rectangles, captions


@dataclass(frozen=True, slots=True)
class _Demand:
    """The unit is rows or cells."""

    share: float
    least: int
    maximum: int


def _distribute(total: int, demands: Sequence[_Demand]) -> list[int]:
    """`total` by the shares, none below its least or above its most; the last one has what remains.

    As flexible boxes of CSS do it. The least of all must fit.
    """
    fixed: dict[int, int] = {}
    while len(fixed) < len(demands):
        free = [index for index in range(len(demands)) if index not in fixed]
        room = total - sum(fixed.values())
        shares = sum(demands[index].share for index in free)
        fair = {index: room * demands[index].share / shares for index in free}
        clamped = {
            index: min(max(fair[index], demands[index].least), demands[index].maximum) for index in free
        }
        excess = sum(clamped.values()) - room
        if abs(excess) < _NOTHING:
            return _rounded(total, fixed, clamped)
        fixed |= {
            index: round(clamped[index]) for index in free if (clamped[index] - fair[index]) * excess > 0
        }
    sizes = [fixed[index] for index in range(len(demands))]
    sizes[-1] += total - sum(sizes)
    return sizes


def _rounded(total: int, fixed: Mapping[int, int], sizes: Mapping[int, float]) -> list[int]:
    """Whole numbers with the sum `total`: those that lose most by it are rounded up."""
    rounded = {**fixed, **{index: int(size) for index, size in sizes.items()}}
    spare = total - sum(rounded.values())
    for index in sorted(sizes, key=lambda index: int(sizes[index]) - sizes[index])[:spare]:
        rounded[index] += 1
    return [rounded[index] for index in range(len(rounded))]
