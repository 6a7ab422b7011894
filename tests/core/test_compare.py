from __future__ import annotations

import math

import pytest
from tests.fakes.series import FakeSeries, by_step

from rltui.core.compare import compared_metrics, comparison
from rltui.core.markdown import plain
from rltui.core.runs import RunRow
from rltui.core.series import SeriesKey
from rltui.errors import UsageError

REWARD, LOSS = SeriesKey("orch", "reward/mean"), SeriesKey("trainer", "loss/mean")


def run(name: str, **more: object) -> RunRow:
    values = {
        "id": f"id-{name}",
        "created_at": 1.0,
        "name": name,
        "folder": f"/runs/{name}",
        "state": "done",
    } | more
    return RunRow(**values)  # type: ignore[arg-type]


def test_only_keys_that_differ_are_told() -> None:
    runs = (run("a"), run("b"), run("c"))
    configs = {
        "id-a": {"lr": 1e-6, "seed": 0, "warmup": 1, "use_kl": True, "dir": "/runs/a/ckpt", "only_a": [1, 2]},
        "id-b": {"lr": 3e-6, "seed": 0, "warmup": 1.0, "use_kl": 1, "dir": "/runs/b/ckpt"},
        "id-c": {"lr": 1e-6, "seed": 0, "warmup": 1, "use_kl": True, "dir": "/runs/c/ckpt"},
    }
    found = comparison(runs, configs)
    assert {each.key: each.values for each in found.differing} == {
        "lr": (1e-6, 3e-6, 1e-6),
        "only_a": ([1, 2], None, None),
        "use_kl": (True, 1, True),  # a number is no truth value; but 1.0 trains as 1 does
    }, "a run's own folder is no difference"
    assert [each.key for each in found.keys] == ["dir", "lr", "only_a", "seed", "use_kl", "warmup"]
    cells = {row.label: row.cells for row in found.rows() if row.part == "config"}
    assert cells == {
        "lr": ("1e-6", "3e-6", "1e-6"),
        "only_a": ("[1, 2]", "—", "—"),
        "use_kl": ("true", "1", "true"),
    }


def test_what_one_run_leaves_to_its_default_is_told_as_far_as_it_is_known() -> None:
    first = run("a", framework="tinyrl", changed={"lr": (1e-5, 1e-6)})
    fork = run("b", framework="tinyrl", parent="id-a", changed={"beta": (0.9, 0.5)})
    other = run("c", framework="prime-rl")
    configs: dict[str, dict[str, object]] = {
        "id-a": {"lr": 1e-6, "seed": 0, "ckpt.output_dir": "x"},
        "id-b": {"beta": 0.5},
        "id-c": {},
    }
    found = comparison((first, fork, other), configs)
    assert {each.key: each.values for each in found.differing} == {
        "lr": (1e-6, 1e-5, None),
        "seed": (0, 0, None),  # it has set the default, as another framework has none
        "beta": (None, 0.5, None),  # known against the parent alone
    }


def test_secrets_are_masked_and_still_differ() -> None:
    found = comparison(
        (run("a"), run("b")), {"id-a": {"wandb.api_key": "s3cret"}, "id-b": {"wandb.api_key": "0ther"}}
    )
    assert [each.key for each in found.differing] == ["wandb.api_key"]
    assert len(set(found.differing[0].values)) == 2
    assert "s3cret" not in str(found)
    assert "0ther" not in str(found)


def test_metrics_are_compared_at_the_last_step_that_all_have() -> None:
    runs = (run("a"), run("b"), run("c", metrics={"reward": (0.7, 0.8)}))
    long = FakeSeries({REWARD: by_step([0.1, 0.9, 0.5, math.nan]), LOSS: by_step([3.0, 2.0, 2.5, 1.0])})
    short = FakeSeries({REWARD: by_step([0.2, 0.3])})
    reward, loss = compared_metrics(runs, (long, short, None))
    assert (reward.id, reward.common_step) == ("reward", 2)
    assert [(each.last, each.best, each.common) for each in reward.figures] == [
        (0.5, 0.9, 0.9),
        (0.3, 0.3, 0.3),
        (0.7, 0.8, None),  # its series are gone: the index still knows
    ]
    assert (loss.id, loss.common_step) == ("loss", None)
    assert loss.figures[0].best == 1.0, "of a loss, less is better"
    rows = {row.label: (row.cells, row.best) for row in comparison(runs, {}, (reward,)).rows()}
    assert rows["reward last"] == (("0.5", "0.3", "0.7"), frozenset({2}))
    assert rows["reward at step 2"] == (("0.9", "0.3", "—"), frozenset({0}))


def test_a_metric_that_no_run_has_is_told_with_those_there_are() -> None:
    source = FakeSeries({REWARD: by_step([0.1])})
    with pytest.raises(UsageError, match="called 'rewadr'") as told:
        compared_metrics((run("a"), run("b")), (source, source), ["rewadr"])
    assert "did you mean reward?" in told.value.hint
    (named,) = compared_metrics((run("a"), run("b")), (source, source), ["reward/mean"])
    assert [each.last for each in named.figures] == [0.1, 0.1]


def test_a_table_for_github_takes_nothing_as_markup() -> None:
    runs = (run("a|b"), run("<b>*c*"))
    text = comparison(runs, {"id-a|b": {"x": "`rm`"}}).markdown()
    head, rule, *rows = text.splitlines()
    assert head == r"|  | a\|b | \<b\>\*c\* |"
    assert rule == "| --- | ---: | ---: |"
    assert r"| x | \`rm\` | — |" in rows
    cells = ("-0.5", "1.5", "- item", "1. item", "---", "12) x", "a_b")
    shown = ("-0.5", "1.5", "&#45; item", "&#49;. item", "&#45;--", "&#49;2) x", r"a\_b")
    assert tuple(map(plain, cells)) == shown
    many = comparison([run(f"r{at}", step=at) for at in range(9)], {}).markdown().splitlines()
    assert many[0].startswith("|  | state | step |")
    assert len(many) == 2 + 9
