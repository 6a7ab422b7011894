"""A resource as a table: its columns, and how its rows are sorted and narrowed. Plain text with roles.

A resource is described once, as a `View` with all columns that there are; the command line and a screen each
list the names of those they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from rltui.core.states import Role

Row = TypeVar("Row")


class Cell(NamedTuple):
    text: str
    role: Role | None = None
    length: int | None = None
    """Characters at its beginning that have the role; `None`: all."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """What of a row stands in a column, and how it gives way where there is no room."""

    name: str
    """By which a face lists it; also what stands above it, unless there is a heading."""
    content: Callable[[Row, float], str | Cell]
    """Of a row, at a moment in seconds since the epoch. Empty: not known, or does not apply."""
    _: KW_ONLY
    heading: str | None = None
    is_right: bool = False
    """Aligned at the right where the face does that: numbers."""
    least: int | None = None
    """Characters that a text may be cut to; `None`: it is never cut."""
    cut: Literal["end", "middle", "start"] = "end"
    """What gives way of a long text: in the middle, for names, what they have in common."""
    goes: int = 0
    """Columns go from the highest on; 0: never."""

    @property
    def title(self) -> str:
        return self.name if self.heading is None else self.heading

    def cell(self, row: Row, now: float) -> Cell:
        content = self.content(row, now)
        return Cell(content) if isinstance(content, str) else content


class Order(NamedTuple, Generic[Row]):
    title: str
    """As a title says it: `newest first`."""
    key: Callable[[Row], Any]


class Filter(NamedTuple, Generic[Row]):
    title: str
    """As a title says it: `only complete ones`; empty where all are shown."""
    admits: Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class View(Generic[Row]):
    """A resource as a table."""

    key: Callable[[Row], str]
    """Of a row, by which a cursor stays on it."""
    columns: tuple[Column[Row], ...]
    orders: Mapping[str, Order[Row]] = field(default_factory=dict)
    """By name; the first is the usual one."""
    filters: Mapping[str, Filter[Row]] = field(default_factory=dict)
    """By name; the first admits all."""

    def named(self, names: Iterable[str], *, first_to_go: Sequence[str] = ()) -> tuple[Column[Row], ...]:
        """The columns of these names, in that order. With `first_to_go` only these go, in its order.

        Raises:
            KeyError: for a name of none.
        """
        by_name = {column.name: column for column in self.columns}
        if first_to_go:
            ranks = {name: rank for rank, name in enumerate(reversed(first_to_go), start=1)}
            by_name = {name: replace(column, goes=ranks.get(name, 0)) for name, column in by_name.items()}
        return tuple(by_name[name] for name in names)


class Arranged(Generic[Row]):
    """A view as a person has it at the moment: in one of its orders, narrowed by one of its filters."""

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
        """By the next order, or one before."""
        self.order = _after(list(self._view.orders), self.order, step)

    def narrow(self) -> None:
        """To what the next filter admits, and at last to all again."""
        self.only = _after(list(self._view.filters), self.only, 1)

    def listed(self, rows: Iterable[Row]) -> list[Row]:
        """Those that the filter admits, in the order; rows that are equal in it stay as they are."""
        admitted = filter(self._view.filters[self.only].admits, rows) if self.only else rows
        return sorted(admitted, key=self._view.orders[self.order].key)


def _after(names: Sequence[str], name: str, step: int) -> str:
    return names[(names.index(name) + step) % len(names)]
