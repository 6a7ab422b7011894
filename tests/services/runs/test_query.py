"""Rows at hand are asked as the index is: as they are now, with each config read once."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fakes.runs import run_row

from rltui.services.runs.query import Configs, QueryableRuns, RunQuery

BY_NAME = RunQuery(order="name")


def test_rows_are_asked_as_they_are_now() -> None:
    runs = QueryableRuns()
    assert runs.select(BY_NAME, [run_row("b"), run_row("a")]) == ["id-a", "id-b"]
    assert runs.select(BY_NAME, [run_row("c", id="id-a"), run_row("b")]) == ["id-b", "id-a"]
    assert runs.select(BY_NAME, [run_row("b")]) == ["id-b"]
    assert runs.select(RunQuery("name = :name", values={"name": "c"}), [run_row("b")]) == []


def test_a_config_is_read_once_for_a_row_and_only_where_it_counts() -> None:
    runs, first, second, read = QueryableRuns(), run_row("a"), run_row("b"), []

    def read_configs(ids: Sequence[str]) -> Configs:
        read.append(sorted(ids))
        return {id_: {"trainer.lr": 1e-5 if id_ == "id-a" else 1e-3} for id_ in ids}

    careful = RunQuery("CAST(config AS TEXT) LIKE '%0.001%'", needs_config=True)
    assert runs.select(BY_NAME, [first, second], read_configs) == ["id-a", "id-b"]
    assert read == []
    assert runs.select(careful, [first, second], read_configs) == ["id-b"]
    assert runs.select(careful, [first, second], read_configs) == ["id-b"]
    assert read == [["id-a", "id-b"]]
    assert runs.select(careful, [first, run_row("b")], read_configs) == ["id-b"]
    assert read[1:] == [["id-b"]], "its row is another one"
    assert runs.select(careful, [first], read_configs) == []
    returned = run_row("b")
    for rows in ([first, returned], [first], [first, returned]):
        assert runs.select(careful, rows, read_configs) == [row.id for row in rows if row is returned]
    assert read[2:] == [["id-b"], ["id-b"]], "its config is gone with a row, and read again with the same one"


def test_what_runs_are_sorted_by_is_computed_once_for_each() -> None:
    computed: list[str] = []

    def length(name: str) -> int:
        computed.append(name)
        return len(name)

    query = RunQuery(
        "name <> 'x'", "sort_value IS NULL, sort_value DESC", {}, "length_of(name)", {"length_of": length}
    )
    rows = [run_row("b"), run_row("ccc"), run_row("aa"), run_row("x")]
    assert QueryableRuns().select(query, rows) == ["id-ccc", "id-aa", "id-b"]
    assert sorted(computed) == ["aa", "b", "ccc"]
