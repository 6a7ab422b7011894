from __future__ import annotations

import math
import random
import re
import statistics

import pytest
from tests.fakes.series import FakeSeries, by_step

from rltui.base.markdown import plain
from rltui.core.metrics.levels import MetricLevel, level_of
from rltui.core.metrics.series import SeriesKey
from rltui.core.runs.compare import compared_evals, compared_metrics, comparison
from rltui.core.runs.evals import Evaluation
from rltui.core.runs.row import RunRow
from rltui.errors import UsageError
from rltui.views.comparison import compared_rows, markdown_table, remark_text

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
    result = comparison(runs, configs)
    assert {item.key: item.values for item in result.differing} == {
        "lr": (1e-6, 3e-6, 1e-6),
        "only_a": ([1, 2], None, None),
        "use_kl": (True, 1, True),  # a number is no truth value; but 1.0 trains as 1 does
    }, "a run's own folder is no difference"
    assert [item.key for item in result.keys] == ["dir", "lr", "only_a", "seed", "use_kl", "warmup"]
    cells = {row.label: row.cells for row in compared_rows(result) if row.part == "config"}
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
    result = comparison((first, fork, other), configs)
    assert {item.key: item.values for item in result.differing} == {
        "lr": (1e-6, 1e-5, None),
        "seed": (0, 0, None),  # it has set the default, as another framework has none
        "beta": (None, 0.5, None),  # known against the parent alone
    }


def test_secrets_are_masked_and_still_differ() -> None:
    result = comparison(
        (run("a"), run("b")), {"id-a": {"wandb.api_key": "s3cret"}, "id-b": {"wandb.api_key": "0ther"}}
    )
    assert [item.key for item in result.differing] == ["wandb.api_key"]
    assert len(set(result.differing[0].values)) == 2
    assert "s3cret" not in str(result)
    assert "0ther" not in str(result)


def test_metrics_are_compared_at_the_last_step_that_all_have() -> None:
    runs = (run("a"), run("b"), run("c", metrics={"reward": (0.7, 0.8)}))
    long = FakeSeries({REWARD: by_step([0.1, 0.9, 0.5, math.nan]), LOSS: by_step([3.0, 2.0, 2.5, 1.0])})
    short = FakeSeries({REWARD: by_step([0.2, 0.3])})
    reward, loss = compared_metrics(runs, (long, short, None))
    assert (reward.id, reward.common_step) == ("reward", 2)
    assert [(item.last, item.best, item.common) for item in reward.summaries] == [
        (0.5, 0.5, 0.9),  # the best is a level, and there are not ten steps: no single batch is one
        (0.3, 0.25, 0.3),
        (0.7, 0.8, None),  # its series are gone: the index still knows
    ]
    assert (loss.id, loss.common_step) == ("loss", None)
    assert loss.summaries[0].best == 2.125
    rows = {row.label: (row.cells, row.best) for row in compared_rows(comparison(runs, {}, (reward,)))}
    none = frozenset[int]()
    assert rows["reward last"] == (("0.5", "0.3", "0.7"), none)
    assert rows["reward last 10"] == (("0.5 ± 0.4", "0.25 ± 0.0707", "—"), none)
    assert rows["reward to step 2"] == (("0.5 ± 0.566", "0.25 ± 0.0707", "—"), none)


def test_the_best_level_is_that_of_ten_steps() -> None:
    values = [0.0] * 10 + [1.0] * 10 + [0.0] * 9 + [9.0]
    (loss,) = compared_metrics((run("a"),), (FakeSeries({LOSS: by_step(values)}),), ["loss"])
    assert loss.summaries[0].best == 0.0, "of a loss, less is better"
    (reward,) = compared_metrics((run("a"),), (FakeSeries({REWARD: by_step(values)}),), ["reward"])
    assert reward.summaries[0].best == 1.0, "one batch of 9.0 is none"
    level = reward.summaries[0].level
    assert level is not None
    assert (level.text(), level.steps) == ("0.9 ± 2.85", 10)
    huge = level_of([1.7e308, -1.7e308, math.inf])
    assert huge == MetricLevel(0.0, None, 2), "what no float holds is not there"


def evaluated(name: str, shift: float = 0.0, *, seed: int = 0, examples: int = 50) -> Evaluation:
    """Prompts of all kinds, each twice as hard as the next; a run moves each a little."""
    dice = random.Random(f"{name}{seed}")
    rewards = {f"{seed}-{at}": at / examples + shift + dice.gauss(0, 0.02) for at in range(examples)}
    return Evaluation(
        id="1", at=1.0, experiment=name, kind="checkpoint", label="checkpoint 20", env="reverse-text",
        num_examples=examples, rollouts=examples, rollouts_per_example=1,
        mean=statistics.fmean(rewards.values()), stderr=0.04, verdict="ok", rewards=rewards,
    )  # fmt: skip


def standing(*of_runs: Evaluation) -> list[str]:
    (result,) = compared_evals([[item] for item in of_runs])
    return ["" if gap is None else gap.standing for gap in result.differences]


def test_a_run_is_better_only_by_the_same_examples() -> None:
    same, better, worse = evaluated("a"), evaluated("b", 0.02), evaluated("c", -0.02)
    assert standing(same, better, worse) == ["", "better", "worse"]
    assert abs((better.mean or 0) - (same.mean or 0)) < (better.stderr or 0), "the means do not say so"
    assert standing(same, evaluated("b", 0.5, seed=1)) == ["", "other examples"]
    assert standing(evaluated("a", examples=4), evaluated("b", 0.5, examples=4)) == ["", "undistinguishable"]
    wrong = sum(standing(evaluated("a", seed=at), evaluated("b", seed=at))[1] != "undistinguishable"
                for at in range(400))  # fmt: skip
    assert 5 <= wrong <= 40, "one in twenty, as an interval of 95 % has it"

    runs = (run("a"), run("b"))
    result = comparison(runs, {}, (), compared_evals([[same], [better]]))
    label, row = {item.label: item for item in compared_rows(result)}.popitem()
    assert label == "reverse-text, against a"
    assert (row.cells[0], set(row.best)) == ("—", {1})
    assert re.fullmatch(r"\+0\.0\d\d ± 0\.00\d", row.cells[1])
    assert remark_text(result) == ""


def test_what_does_not_say_which_run_is_better_says_so() -> None:
    runs = (run("a"), run("b"))
    assert "evaluate them on the same examples" in remark_text(comparison(runs, {}))
    configs = {"id-a": {"seed": 0}, "id-b": {"seed": 1}}
    result = comparison(runs, configs, (), compared_evals([[evaluated("a")], [evaluated("b", seed=1)]]))
    assert "used different examples, because their seeds differ" in remark_text(result)
    assert remark_text(comparison(runs[:1], {})) == "", "a report of one run compares nothing"
    assert compared_evals([[], [evaluated("b").replace(kind="base")]]) == ()


def test_a_metric_that_no_run_has_is_told_with_those_there_are() -> None:
    source = FakeSeries({REWARD: by_step([0.1])})
    with pytest.raises(UsageError, match="unknown metric: rewadr") as error:
        compared_metrics((run("a"), run("b")), (source, source), ["rewadr"])
    assert "did you mean reward?" in error.value.hint
    (metric,) = compared_metrics((run("a"), run("b")), (source, source), ["reward/mean"])
    assert [item.last for item in metric.summaries] == [0.1, 0.1]


def test_a_table_for_github_takes_nothing_as_markup() -> None:
    runs = (run("a|b"), run("<b>*c*"))
    text = markdown_table(comparison(runs, {"id-a|b": {"x": "`rm`"}}))
    head, rule, *rows = text.splitlines()
    assert head == r"|  | a\|b | \<b\>\*c\* |"
    assert rule == "| --- | ---: | ---: |"
    assert r"| x | \`rm\` | — |" in rows
    cells = ("-0.5", "1.5", "- item", "1. item", "---", "12) x", "a_b")
    texts = ("-0.5", "1.5", "&#45; item", "&#49;. item", "&#45;--", "&#49;2) x", r"a\_b")
    assert tuple(map(plain, cells)) == texts
    many = markdown_table(comparison([run(f"r{at}", step=at) for at in range(9)], {})).splitlines()
    assert many[0].startswith("|  | state | step |")
    assert len(many) == 2 + 9
