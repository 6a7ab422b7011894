"""Trees of runs: forks, sweeps, and what damaged sheets say."""

from __future__ import annotations

import random
import time

from rltui.core.runs.row import RunId, RunRow
from rltui.core.runs.tree import run_tree


def row(id_: str, parent: str = "", group: str = "") -> RunRow:
    return RunRow(id=RunId(id_), created_at=0.0, name=id_, folder=f"/{id_}", parent=parent, group=group)


def drawn(rows: list[RunRow], *folded: str) -> list[str]:
    return [f"{line.branch}{line.key}" for line in run_tree(rows, folded)]


def test_forks_stand_below_their_parents_and_a_tree_where_its_first_run_does() -> None:
    rows = [row("c", "a"), row("x"), row("s1", group="lr"), row("d", "c"), row("a"), row("b", "a")]
    rows += [row("s2", group="lr"), row("f", "s2", group="lr"), row("g", "gone")]
    assert drawn(rows) == ["a", "├ c", "│ └ d", "└ b", "x", ":lr", "├ s1", "└ s2", "  └ f", "g"]
    assert drawn(rows, "a", ":lr") == ["a", "x", ":lr", "g"]
    heading = next(line for line in run_tree(rows, {":lr"}) if line.row is None)
    assert (heading.group, {item.id for item in heading.members}) == ("lr", {"s1", "s2", "f"})


def test_a_circle_of_parents_is_listed() -> None:
    assert drawn([row("a", "b"), row("b", "a"), row("c", "c")]) == ["c", "a", "└ b"]


def test_every_run_is_listed_once_whatever_the_sheets_say() -> None:
    rng = random.Random(16)
    for _ in range(200):
        ids = [f"r{at}" for at in range(rng.randrange(12))]
        rows = [row(id_, rng.choice(["", "gone", *ids]), rng.choice(["", "g", "h"])) for id_ in ids]
        lines = run_tree(rows)
        assert sorted(line.row.id for line in lines if line.row is not None) == sorted(ids)
        folded = {line.key for line in lines if rng.random() < 0.3}
        hidden = {item.id for line in run_tree(rows, folded) if line.key in folded for item in line.members}
        row_ids = [line.row.id for line in run_tree(rows, folded) if line.row is not None]
        assert len(row_ids) == len(set(row_ids))
        assert hidden | set(row_ids) == set(ids)


def test_a_long_line_of_forks_takes_no_time() -> None:
    rows = [row(f"r{at}", f"r{at - 1}" if at else "") for at in range(3000)]
    begun = time.perf_counter()
    assert len(run_tree(rows[::-1])) == 3000
    assert time.perf_counter() - begun < 10
