"""How runs are told, in columns and one by one."""

from __future__ import annotations

import math

import pytest
from tests.fakes.runs import run_row, selected

from rltui.core.metrics.levels import MetricLevel
from rltui.core.runs.row import RunRow
from rltui.errors import UsageError
from rltui.views.run import (
    DEFAULT_COLUMNS,
    changed_text,
    column_of,
    columns_of,
    known_columns,
    run_details,
    run_summary,
    sweep_texts,
)
from rltui.views.run_filter import run_query

NOW = 1_000_000.0


def row(name: str, **values: object) -> RunRow:
    fields: dict[str, object] = {
        "id": f"id-{name}",
        "name": name,
        "folder": f"/{name}",
        "created_at": NOW - 90,
    }
    return RunRow(**{**fields, **values})  # type: ignore[arg-type]


FULL = row(
    "a", state="failed", step=40, max_steps=100, started_at=NOW - 7200, seconds=3700.0, gpu_seconds=5400.0,
    metrics={"reward": (0.25, 0.5), "truncation": (0.125, 0.0)}, sparkline=(0.0, 0.5, 1.0), tags=("x", "y"),
    gpus=("H200", "H200", "A100"), commit="0123456789abcdef", is_dirty=True, disk_bytes=3 << 30, is_best=True,
    changed={"trainer.optim.lr": (1e-6, 3e-6), "critic.optim.lr": (1e-6, 1e-5), "env.api_key": ("a", "b")},
    parent="id-b", versions={"torch": "2.9"}, checkpoints=(10, 20),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("state", "failed"),
        ("step", "40/100"),
        ("reward", "0.25"),
        ("reward.best", "0.5"),
        ("truncation", "12.5"),
        ("trend", "▁▅█"),
        ("age", "2h00m"),
        ("duration", "1h01m"),
        ("gpu_hours", "1.5"),
        ("tags", "x y"),
        ("gpus", "2× H200, A100"),
        ("commit", "012345678*"),
        ("disk", "3.0 GiB"),
        ("best", "★"),
        ("parent", "b"),
        ("torch", "2.9"),
        ("checkpoints", "2"),
        ("note", ""),
        ("ended", ""),
        ("loss", ""),
        ("lr", "3e-6"),
        ("optim.lr", "3e-6"),
        ("bf16", "true"),
        ("names", '["a", "b"]'),
        ("env.api_key", "(hidden)"),
        ("none", ""),
        ("changed", "trainer.optim.lr=3e-6 critic.optim.lr=1e-5 api_key=(hidden)"),
    ],
)
def test_texts(name: str, text: str) -> None:
    config = {"trainer.optim.lr": 3e-6, "bf16": True, "names": ["a", "b"], "env.api_key": "sk-123"}
    assert column_of(name).text(FULL, config, now=NOW, names={"id-b": "b"}) == text


def test_what_differs_has_the_shortest_names() -> None:
    assert changed_text(row("a", changed={"trainer.optim.lr": (1, 2), "seed": (0, None)})) == "lr=2 seed=none"


def test_columns_have_one_id_each() -> None:
    assert [column.id for column in columns_of(["tag", "tags", "reward.level", "reward"])] == [
        "tags",
        "reward",
    ]
    ids = [column.id for column in known_columns()]
    assert len(set(ids)) == len(ids)
    assert all(column_of(id_).id == id_ for id_ in ids)
    assert {*DEFAULT_COLUMNS} <= {*ids}
    with pytest.raises(UsageError, match="unknown column: a b"):
        column_of("a b")


def test_living_ones_come_first_and_those_without_a_value_last() -> None:
    rows = [
        row("old", ended_at=10.0, metrics={"reward": (0.1, 0.1), "loss": (3.0, 3.0)}),
        row("new", ended_at=20.0, metrics={"reward": (math.nan, 0.1), "loss": (1.0, 1.0)}),
        row(
            "live",
            state="running",
            is_alive=True,
            started_at=5.0,
            metrics={"reward": (0.9, 0.9), "loss": (2.0, 2.0)},
        ),
        row("young", state="running", is_alive=True, started_at=6.0),
    ]

    def names(column: str, *, is_reversed: bool = False) -> list[str]:
        query = run_query(sort=column_of(column), is_reversed=is_reversed)
        return [row.name for row in selected(query, rows)]

    assert [row.name for row in selected(run_query(), rows)] == ["young", "live", "new", "old"]
    assert [row.name for row in selected(run_query(is_reversed=True), rows)] == [
        "old",
        "new",
        "live",
        "young",
    ]
    assert names("reward") == ["live", "old", "young", "new"]
    assert names("reward", is_reversed=True) == ["old", "live", "young", "new"]
    assert names("loss") == ["new", "live", "old", "young"]
    assert names("name") == ["live", "new", "old", "young"]
    mixed: dict[str, dict[str, object]] = {
        "id-old": {"k": "text"},
        "id-new": {"k": 1},
        "id-live": {"k": True},
        "id-young": {"k": [1, 2]},
    }
    by_config = run_query(sort=column_of("k"))
    assert [row.name for row in selected(by_config, rows, mixed)] == ["live", "new", "young", "old"]


def test_a_run_at_a_glance() -> None:
    run = run_row("x", state="done", step=200, max_steps=200, tags=("baseline",), archived_at=1.0)
    assert run_summary(run).startswith("✓ done · step 200/200")
    assert run_summary(run).endswith("baseline · archived")


def test_a_run_without_a_reward_to_learn_from_shows_what_it_learns_by() -> None:
    def shown(**values: float) -> tuple[str, str]:
        run = row("x", metrics={name: (value, value) for name, value in values.items()})
        return run_summary(run).rpartition(" · ")[2], column_of("reward").text(run, now=0.0)

    teacher = {"teacher_kl": -0.03, "reward": 0.4}
    assert shown(**teacher) == ("teacher KL 0.03", "teacher KL 0.03")
    assert shown(loss=0.7) == ("loss 0.7", "loss 0.7"), "SFT"
    assert shown(reward=0.4, loss=0.7) == ("reward 0.40", "0.4")
    levels = {"trainable": MetricLevel(0.5, None, 1)}
    run = row("x", metrics={name: (value, value) for name, value in teacher.items()}, levels=levels)
    assert run_summary(run).endswith("reward 0.40"), "some of its rollouts have advantages"


def test_all_that_is_known_of_one_by_labels() -> None:
    run = run_row("x", parent="p", parent_step=100, changed={"seed": (0, 1)}, note="")
    details = dict(run_details(run, {"p": "parent"}))
    assert details["from"] == ["forked from parent at step 100"]
    assert details["changed"] == ["seed 0 → 1"]
    assert details["note"] == [""]


def test_a_sweep_counts_its_runs_by_state() -> None:
    runs = [run_row("a", state="done"), run_row("b", state="failed"), run_row("c", state="done")]
    assert sweep_texts(runs)[:3] == ["3 runs", "2 done", "1 failed"]
