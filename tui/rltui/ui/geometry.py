"""From an arrangement and a size to rectangles: what is stacked, folded, scrolled away, or has no frame.

A pure function. The style sheet only draws what is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rltui.ui.arrangement import Arrangement

_NARROW = 100
"""Below so many cells there is one column."""
_SHORT = 31
"""A narrow body with fewer rows folds the panels that do not have the focus."""
_LOW = 14
"""A body with fewer rows opens one pane of a column."""
_LEAST_ROWS = 4
_LEAST_FLAT_ROWS = 3
"""Of an open panel, with a frame and without."""
_LEAST_CELLS = 24
"""Of a column, where there is room for it."""
_OPEN_AMONG_MANY = 5
_NOTHING = 1e-6
"""Of a row: no more than what arithmetic loses."""


@dataclass(frozen=True, slots=True)
class PanelState:
    rows: Callable[[int], int] | None = None
    """Rows that show all of it in a frame, at a width in cells; `None`: it has a use for any number."""
    is_idle: bool = False
    """Nothing happens in it: a line tells enough, unless it is selected."""
    is_side: bool = False
    """It stands beside the panes that are read, and gives way to them on small screens."""


@dataclass(frozen=True, slots=True)
class PanelPlace:
    """A rectangle in cells, from the upper left corner of the body."""

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
        """The first row below it."""
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Note:
    """What stands where there is no panel."""

    x: int
    y: int
    width: int
    text: str


@dataclass(frozen=True, slots=True)
class Geometry:
    places: Mapping[str, PanelPlace] = field(default_factory=dict)
    """Of the panels that are seen."""
    is_flat: bool = False
    """A line above each instead of a frame around it."""
    notes: tuple[Note, ...] = ()

    def column_at(self, x: int) -> list[str]:
        """Those that stand in the cell `x`, from the top."""
        found = [name for name, place in self.places.items() if place.x <= x < place.right]
        return sorted(found, key=lambda name: self.places[name].y)


@dataclass(frozen=True, slots=True)
class _Wish:
    share: float
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class _Looked:
    focused: str | None
    selected: str | None

    def first_of(self, names: Sequence[str]) -> str | None:
        return next((name for name in (self.focused, self.selected) if name in names), None)


def place(
    arrangement: Arrangement,
    size: tuple[int, int],
    states: Mapping[str, PanelState],
    *,
    focused: str | None = None,
    selected: str | None = None,
    zoomed: str | None = None,
) -> Geometry:
    """Where the panels in `states` stand on a body of `size` (cells, rows), as far as they are not hidden.

    `focused` has the keys, `selected` is the pane that was read last, `zoomed` is shown alone.
    """
    width, height = size
    if width <= 0 or height <= 0:
        return Geometry()
    if zoomed is not None and zoomed in states:
        return Geometry({zoomed: PanelPlace(0, 0, width, height)}, is_flat=height < _LOW)
    shown = [
        ([name for name in column if name in states and name not in arrangement.hidden], share)
        for column, share in zip(arrangement.columns, arrangement.widths, strict=True)
    ]
    columns = [(names, share) for names, share in shown if names]
    if not columns:
        return Geometry(
            notes=(Note(0, height // 2, width, "All panels are hidden: ctrl+w, then 0 shows them"),)
        )
    is_narrow = width < _NARROW
    if is_narrow:
        columns = [([name for names, _ in columns for name in names], 1.0)]
    least = _LEAST_CELLS if _LEAST_CELLS * len(columns) <= width else 0
    widths = _shared(width, [_Wish(share, least, width) for _, share in columns])
    attention = _Looked(focused, selected)
    stacks, x = [], 0
    for (names, _), cells in zip(columns, widths, strict=True):
        stacks.append(_Stack(names, states, arrangement.heights, attention, (x, cells, height), is_narrow))
        x += cells
    is_flat = any(stack.is_flat for stack in stacks)
    found: dict[str, PanelPlace] = {}
    notes: list[Note] = []
    for stack in stacks:
        stack.fill(found, notes)
    return Geometry(found, is_flat, tuple(notes))


class _Stack:
    def __init__(
        self,
        names: list[str],
        states: Mapping[str, PanelState],
        shares: Mapping[str, float],
        attention: _Looked,
        room: tuple[int, int, int],
        is_narrow: bool,
    ) -> None:
        self._names, self._states, self._shares, self._attention = names, states, shares, attention
        self._x, self._cells, self._height = room
        self._is_tight = is_narrow and self._height < _SHORT
        self.is_flat = self._is_tight or self._height < _LOW
        self._open = self._opened()
        wishes = [self._wish(name) for name in self._open]
        needed = sum(wish.least for wish in wishes) + len(names) - len(self._open)
        readers = sum(not states[name].is_side for name in self._open)
        if len(self._open) > 1 and (needed > self._height or (self._height < _LOW and readers > 1)):
            self.is_flat = True
            self._open = [attention.first_of(names) or self._open[0]]

    def _opened(self) -> list[str]:
        """Those that show more than their title, were there room for all."""
        seen = (self._attention.focused, self._attention.selected)
        found = [
            name
            for name in self._names
            if not (self._states[name].is_idle and name not in seen)
            and not (self._is_tight and self._states[name].is_side and name != self._attention.focused)
        ]
        return found or [self._attention.first_of(self._names) or self._names[0]]

    def _wish(self, name: str) -> _Wish:
        state = self._states[name]
        most = self._height if state.rows is None else max(1, state.rows(self._cells) - self.is_flat)
        least = min(most, _LEAST_FLAT_ROWS if self.is_flat else _LEAST_ROWS)
        if self._is_tight and state.is_side:
            least = most = min(most, max(least, self._height // 2))
        return _Wish(self._shares.get(name, 1.0), least, most)

    def fill(self, places: dict[str, PanelPlace], notes: list[Note]) -> None:
        if len(self._open) == 1:
            self._fill_around(self._open[0], places, notes)
            return
        rest = self._height - (len(self._names) - len(self._open))
        wishes = {name: self._wish(name) for name in self._open}
        heights = dict(zip(wishes, _shared(rest, [*wishes.values()]), strict=True))
        y = 0
        for name in self._names:
            is_folded = name not in heights
            rows = 1 if is_folded else heights[name]
            is_full = not is_folded and rows == wishes[name].most < self._height
            places[name] = PanelPlace(self._x, y, self._cells, rows, is_folded, is_full)
            y += rows

    def _fill_around(self, opened: str, places: dict[str, PanelPlace], notes: list[Note]) -> None:
        """One is open; of the titles as many as there is room for, around it."""
        count, at = len(self._names), self._names.index(opened)
        titles = min(count - 1, self._height - min(self._height, max(_OPEN_AMONG_MANY, self._height // 2)))
        if count - 1 <= self._height - _OPEN_AMONG_MANY:
            titles = count - 1
        first = min(max(0, at - titles // 2), count - 1 - titles)
        above, below = first, count - 1 - titles - first
        shown = self._names[first : first + titles + 1]
        y = 0
        if above and shown[0] != opened:
            notes.append(Note(self._x, 0, self._cells, f" ↑ {above + 1} more"))
            shown, y = shown[1:], 1
        if below and shown[-1] != opened:
            notes.append(Note(self._x, self._height - 1, self._cells, f" ↓ {below + 1} more"))
            shown = shown[:-1]
        for name in shown:
            rows = self._height - titles if name == opened else 1
            places[name] = PanelPlace(self._x, y, self._cells, rows, is_folded=name != opened)
            y += rows


def _shared(total: int, wishes: Sequence[_Wish]) -> list[int]:
    """`total` by the shares, none less than its least or more than its most; what is left has the last one.

    As flexible boxes of CSS do it. The least of all must fit.
    """
    fixed: dict[int, int] = {}
    while len(fixed) < len(wishes):
        free = [at for at in range(len(wishes)) if at not in fixed]
        room = total - sum(fixed.values())
        shares = sum(wishes[at].share for at in free)
        given = {at: room * wishes[at].share / shares for at in free}
        clamped = {at: min(max(given[at], wishes[at].least), wishes[at].most) for at in free}
        excess = sum(clamped.values()) - room
        if abs(excess) < _NOTHING:
            return _rounded(total, wishes, fixed, clamped)
        frozen = {at: round(clamped[at]) for at in free if (clamped[at] - given[at]) * excess > 0}
        fixed |= frozen
    sizes = [fixed[at] for at in range(len(wishes))]
    sizes[-1] += total - sum(sizes)
    return sizes


def _rounded(
    total: int, wishes: Sequence[_Wish], fixed: Mapping[int, int], given: Mapping[int, float]
) -> list[int]:
    """Whole numbers with the same sum: those that lose most by it are rounded up."""
    sizes = {**fixed, **{at: int(size) for at, size in given.items()}}
    spare = total - sum(sizes.values())
    for at in sorted(given, key=lambda at: int(given[at]) - given[at])[:spare]:
        sizes[at] += 1
    return [sizes[at] for at in range(len(wishes))]
