"""A resource as a table: its columns, and how its rows are sorted and narrowed. Plain text with roles.

A resource is described once, as a `View` with all columns that there are; the command line and a screen each
list the names of those they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from rltui.core.experiment.states import Role

Row = TypeVar("Row")
Cut = Literal["end", "middle", "start"]
"""The part of a long text that gives way; of names the middle, which they have in common."""


class Cell(NamedTuple):
    text: str
    role: Role | None = None
    length: int | None = None
    """Number of characters at the beginning that have the role; `None`: all."""


class Column(NamedTuple, Generic[Row]):
    """A cell of every row, and the way it gives way where there is no room."""

    name: str
    """A face lists the column by it; also its heading, unless there is another."""
    content: Callable[[Row, float], str | Cell]
    """A function of a row and of a moment in seconds since the epoch. Empty: unknown, or does not apply."""
    heading: str | None = None
    is_right: bool = False
    """True for numbers: aligned at the right where the face does that."""
    least: int | None = None
    """Number of characters that a text may be cut to; `None`: it is never cut."""
    cut: Cut = "end"
    goes: int = 0
    """Columns leave a narrow screen from the highest number on; 0 stays."""
    brief: Callable[[Row, float], str | Cell] | None = None
    """The content for a face with less room; `None`: the same."""

    @property
    def title(self) -> str:
        return self.name if self.heading is None else self.heading

    def cell(self, row: Row, now: float) -> Cell:
        content = self.content(row, now)
        return Cell(content) if isinstance(content, str) else content


class Order(NamedTuple, Generic[Row]):
    title: str
    """The words of a title: `newest first`."""
    key: Callable[[Row], Any]


class Filter(NamedTuple, Generic[Row]):
    title: str
    """The words of a title: `only complete ones`; empty where all are listed."""
    admits: Callable[[Row], bool]


class View(NamedTuple, Generic[Row]):
    key: Callable[[Row], str]
    """The cursor stays on the row with this key."""
    columns: tuple[Column[Row], ...]
    orders: Mapping[str, Order[Row]] = {}
    """Orders by name; the first is the default."""
    filters: Mapping[str, Filter[Row]] = {}
    """Filters by name; the first admits all."""

    def named(
        self, names: Iterable[str], *, first_to_go: Sequence[str] = (), is_brief: bool = False
    ) -> tuple[Column[Row], ...]:
        """Return the columns of these names, in that order. With `first_to_go` only these go, in its order.

        `is_brief`: with their brief content, where they have one.

        Raises:
            KeyError: if no column has one of the names.
        """
        by_name = {column.name: column for column in self.columns}
        if is_brief:
            by_name = {
                name: column if column.brief is None else column._replace(content=column.brief)
                for name, column in by_name.items()
            }
        if first_to_go:
            ranks = {name: rank for rank, name in enumerate(reversed(first_to_go), start=1)}
            by_name = {name: column._replace(goes=ranks.get(name, 0)) for name, column in by_name.items()}
        return tuple(by_name[name] for name in names)


class Arranged(Generic[Row]):
    """A view as a person has arranged it: in one of its orders, narrowed by one of its filters."""

    def __init__(self, view: View[Row]) -> None:
        self._view = view
        self.order = next(iter(view.orders))
        self.only = next(iter(view.filters), "")

    @property
    def order_title(self) -> str:
        return self._view.orders[self.order].title

    @property
    def filter_title(self) -> str:
        return self._view.filters[self.only].title

    def sort(self, step: int) -> None:
        """Takes the next order, or the one before."""
        self.order = _neighbour(list(self._view.orders), self.order, step)

    def narrow(self) -> None:
        """Takes the next filter; after the last one all rows are listed again."""
        self.only = _neighbour(list(self._view.filters), self.only, 1)

    def listed(self, rows: Iterable[Row]) -> list[Row]:
        """Rows that the filter admits, in the order; equal rows stay as they are."""
        admitted = filter(self._view.filters[self.only].admits, rows) if self.only else rows
        return sorted(admitted, key=self._view.orders[self.order].key)


def _neighbour(names: Sequence[str], name: str, step: int) -> str:
    return names[(names.index(name) + step) % len(names)]
