"""Runs below what they come from: forks below their parents, the runs of a sweep below its name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.runs import RunRow

_TOP = ""
_BETWEEN, _LAST = "├ ", "└ "
_PASSING = {"": "", _BETWEEN: "│ ", _LAST: "  "}
"""What stands before the lines further down, by what stands before the line above them."""


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A run, or the heading of those that were queued together."""

    key: str
    """The id of the run; of a heading, its name behind a colon, which no id has."""
    row: RunRow | None
    """`None`: it is a heading."""
    members: tuple[RunRow, ...]
    """Of a heading, and of a run whose tree is folded: all runs below it, in no order."""
    is_parent: bool
    """Others stand below it, or would if it were not folded."""
    branch: str = ""
    """What is drawn before its name: `│ ├ `; empty at the top."""

    @property
    def group(self) -> str:
        """Of a heading: its name."""
        return self.key[1:] if self.row is None else ""


def run_tree(rows: Sequence[RunRow], folded: Collection[str] = ()) -> list[TreeLine]:
    """In the order of `rows`: a tree stands where the first of its runs does. Below the keys in `folded`
    nothing is listed.

    A run whose parent is not among them stands below its sweep; whoever has neither stands at the top. Sheets
    that name each other as parents are listed all the same.
    """
    by_id: dict[str, RunRow] = {row.id: row for row in rows}
    above: dict[str, str] = {row.id: _above(row, by_id) for row in rows}
    below: dict[str, list[str]] = {}
    placed: set[str] = set()
    for row in rows:
        key: str = row.id
        while key not in placed and key != _TOP:  # all above one that is placed are placed
            placed.add(key)
            below.setdefault(above.get(key, _TOP), []).append(key)
            key = above.get(key, _TOP)
    lines: list[TreeLine] = []
    seen: set[str] = set()
    for top in [*below.get(_TOP, ()), *by_id]:  # of the latter, only those in circles are left
        if top not in seen:
            _list_tree(top, by_id, below, folded, lines, seen)
    return lines


def _above(row: RunRow, by_id: Mapping[str, RunRow]) -> str:
    if row.parent in by_id and row.parent != row.id:
        return row.parent
    return f":{row.group}" if row.group else _TOP


def _list_tree(
    top: str,
    by_id: Mapping[str, RunRow],
    below: Mapping[str, Sequence[str]],
    folded: Collection[str],
    lines: list[TreeLine],
    seen: set[str],
) -> None:
    waiting = [(top, "", "")]
    while waiting:
        key, before, sign = waiting.pop()
        seen.add(key)
        children = [child for child in below.get(key, ()) if child not in seen]
        is_folded = key in folded
        members = _members(key, by_id, below, seen) if is_folded or key not in by_id else ()
        lines.append(TreeLine(key, by_id.get(key), members, bool(children), before + sign))
        if is_folded:
            seen.update(row.id for row in members)
        else:
            signs = [_BETWEEN] * (len(children) - 1) + [_LAST] * bool(children)
            further = before + _PASSING[sign]
            waiting += [(child, further, each) for child, each in zip(children, signs, strict=True)][::-1]


def _members(
    key: str, by_id: Mapping[str, RunRow], below: Mapping[str, Sequence[str]], seen: Collection[str]
) -> tuple[RunRow, ...]:
    found: dict[str, RunRow] = {}
    waiting = [*below.get(key, ())]
    while waiting:
        each = waiting.pop()
        if each not in found and each not in seen and each != key:
            found[each] = by_id[each]
            waiting += below.get(each, ())
    return tuple(found.values())
