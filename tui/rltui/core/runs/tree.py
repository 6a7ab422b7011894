"""Trees of runs: forks below their parents, the runs of a sweep below its name. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.runs.row import RunRow

_TOP = ""
_BETWEEN, _LAST = "├ ", "└ "
_PASSING = {"": "", _BETWEEN: "│ ", _LAST: "  "}
"""Prefix of the lines further down, by the prefix of the line above them."""


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A run, or the heading of a group of runs that were queued together."""

    key: str
    """The id of the run; of a heading, its name after a colon, which no id has."""
    row: RunRow | None
    """`None` for a heading."""
    members: tuple[RunRow, ...]
    """All runs below a heading, or below a run whose tree is folded, unordered."""
    is_parent: bool
    """Others stand below it, or would if it were not folded."""
    branch: str = ""
    """Drawing before its name: `│ ├ `; empty at the top."""

    @property
    def group(self) -> str:
        """Name of a heading."""
        return self.key[1:] if self.row is None else ""


def run_tree(rows: Sequence[RunRow], folded: Collection[str] = ()) -> list[TreeLine]:
    """Lines in the order of `rows`: a tree stands at the position of its first run. Below the keys in
    `folded` nothing is listed.

    A run whose parent is not among them stands below its sweep; a run with neither stands at the top. Runs
    that name each other as parents are listed all the same.
    """
    by_id: dict[str, RunRow] = {row.id: row for row in rows}
    above: dict[str, str] = {row.id: _parent_key(row, by_id) for row in rows}
    below: dict[str, list[str]] = {}
    placed_keys: set[str] = set()
    for row in rows:
        key: str = row.id
        while key not in placed_keys and key != _TOP:  # all above one that is placed are placed
            placed_keys.add(key)
            below.setdefault(above.get(key, _TOP), []).append(key)
            key = above.get(key, _TOP)
    lines: list[TreeLine] = []
    listed_keys: set[str] = set()
    for top in [*below.get(_TOP, ()), *by_id]:  # of the latter, only those in circles are left
        if top not in listed_keys:
            _list_tree(top, by_id, below, folded, lines, listed_keys)
    return lines


def _parent_key(row: RunRow, by_id: Mapping[str, RunRow]) -> str:
    if row.parent in by_id and row.parent != row.id:
        return row.parent
    return f":{row.group}" if row.group else _TOP


def _list_tree(
    top: str,
    by_id: Mapping[str, RunRow],
    below: Mapping[str, Sequence[str]],
    folded: Collection[str],
    lines: list[TreeLine],
    listed_keys: set[str],
) -> None:
    pending = [(top, "", "")]
    while pending:
        key, prefix, sign = pending.pop()
        listed_keys.add(key)
        children = [child for child in below.get(key, ()) if child not in listed_keys]
        is_folded = key in folded
        members = _members(key, by_id, below, listed_keys) if is_folded or key not in by_id else ()
        lines.append(TreeLine(key, by_id.get(key), members, bool(children), prefix + sign))
        if is_folded:
            listed_keys.update(row.id for row in members)
        else:
            signs = [_BETWEEN] * (len(children) - 1) + [_LAST] * bool(children)
            further = prefix + _PASSING[sign]
            pending += [
                (child, further, branch_sign) for child, branch_sign in zip(children, signs, strict=True)
            ][::-1]


def _members(
    key: str, by_id: Mapping[str, RunRow], below: Mapping[str, Sequence[str]], listed_keys: Collection[str]
) -> tuple[RunRow, ...]:
    members: dict[str, RunRow] = {}
    pending = [*below.get(key, ())]
    while pending:
        key_ = pending.pop()
        if key_ not in members and key_ not in listed_keys and key_ != key:
            members[key_] = by_id[key_]
            pending += below.get(key_, ())
    return tuple(members.values())
