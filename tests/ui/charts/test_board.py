"""What charts show of the series of runs."""

from __future__ import annotations

import math

import pytest
from tests.fakes.series import STARTED, STEP_S, FakeSeries, by_step, by_time, usual_run

from rltui.core.lines import LogChange
from rltui.core.marks import Annotation, AnnotationKind
from rltui.core.series import Rewind, SeriesKey
from rltui.ui.charts.board import ChartModel, Run
from rltui.ui.charts.catalog import Chart, charts
from rltui.ui.charts.view import View

REWARD, LOSS, KV = SeriesKey("orch", "reward/mean"), SeriesKey("trainer", "loss/mean"), SeriesKey("e", "kv")
BY_STEP, BY_TIME = View(), View(by_time=True)


def chart(*keys: SeriesKey) -> Chart:
    return Chart("c", "C", keys, tuple(key.name for key in keys) if len(keys) > 1 else ())


def loaded(source: FakeSeries, *shown: Chart) -> ChartModel:
    board = ChartModel([Run("", source)])
    board.look()
    board.load(shown)
    return board


def test_curated_charts_come_in_their_order_pins_first() -> None:
    keys = usual_run().keys()
    ids = [each.id for each in charts(keys)]
    assert ids[:3] == ["reward", "env_reward", "loss"]
    assert "reward_std" not in ids
    pinned = charts(keys, pins=("trainer:optim/lr", "reward_std", "gone:away", "loss"))
    assert [each.id for each in pinned][:4] == ["trainer:optim/lr", "reward_std", "loss", "reward"]
    environments = next(each for each in charts(keys) if each.id == "env_reward")
    assert environments.labels == ("code", "math")


def test_words_choose_among_all_series() -> None:
    keys = (*usual_run().keys(), SeriesKey("trainer", "expert_load/7"))
    assert [each.id for each in charts(keys, words="EXPERT")] == ["trainer:expert_load/7"]
    assert [each.id for each in charts(keys, words="^Entropy$")] == ["entropy"]
    assert charts(keys, words="nothing like it") == ()


def test_a_resume_leaves_the_abandoned_branch_as_a_faint_line() -> None:
    series = by_step([0.1] * 10)
    series.extend(by_step([0.9] * 3, first=6, started=STARTED + 100))
    board = loaded(FakeSeries({REWARD: series}, Rewind(5, STARTED + 99)), chart(REWARD))
    picture = board.picture(chart(REWARD), BY_STEP)
    faint, line = picture.strokes
    assert (faint.style, faint.x.tolist()) == ("faint", [6, 7, 8, 9, 10])
    assert (line.x.tolist(), line.y.tolist()) == (list(range(1, 9)), [0.1] * 5 + [0.9] * 3)
    assert picture.readings[0].value == 0.9
    assert picture.span == (1, 10)


def test_what_comes_is_added_and_a_rewind_works_all_out_again() -> None:
    source = FakeSeries({REWARD: by_step([0.1, 0.2, 0.3])})
    board = loaded(source, chart(REWARD))
    source.series[REWARD].add(4, STARTED + 20, 0.4)
    board.load([chart(REWARD)])
    assert board.picture(chart(REWARD), BY_STEP).strokes[0].x.tolist() == [1, 2, 3, 4]
    source.rewound = (Rewind(1, STARTED + 30),)
    source.series[REWARD].add(2, STARTED + 31, 0.7)
    board.load([chart(REWARD)])
    faint, line = board.picture(chart(REWARD), BY_STEP).strokes
    assert faint.x.tolist() == [2, 3, 4]
    assert line.y.tolist() == [0.1, 0.7]


def test_another_run_in_the_folder_is_read_anew() -> None:
    source = FakeSeries({REWARD: by_step([0.1] * 5)})
    board = loaded(source, chart(REWARD))
    source.series, source.change = {REWARD: by_step([0.9])}, LogChange.RESET
    assert board.look()
    board.load([chart(REWARD)])
    assert board.picture(chart(REWARD), BY_STEP).strokes[0].y.tolist() == [0.9]


def test_what_has_only_times_finds_its_steps_by_the_clock_of_the_run() -> None:
    source = FakeSeries({REWARD: by_step([0.1] * 11), KV: by_time([0.5] * 5, STEP_S * 2.5)})
    board = loaded(source, chart(KV))
    assert board.picture(chart(KV), BY_STEP).strokes[0].x.tolist() == pytest.approx([1, 3.5, 6, 8.5, 11])
    assert board.picture(chart(KV), BY_TIME).strokes[0].x[-1] == pytest.approx(STEP_S * 10)
    alone = loaded(FakeSeries({KV: by_time([0.5] * 5, 1.0)}), chart(KV))
    assert "by time" in alone.picture(chart(KV), BY_STEP).note
    assert alone.picture(chart(KV), BY_TIME).note == ""


def test_the_cursor_reads_the_nearest_point_of_each_line() -> None:
    values = [math.nan if step == 5 else step / 10 for step in range(1, 11)]
    board = loaded(FakeSeries({REWARD: by_step(values), LOSS: by_step([9.0, 8.0])}), chart(REWARD, LOSS))
    readings = board.picture(chart(REWARD, LOSS), View(cursor=3.4)).readings
    assert [(each.label, each.value) for each in readings] == [("reward/mean", 0.3), ("loss/mean", 8.0)]
    assert math.isnan(board.picture(chart(REWARD), View(cursor=5)).readings[0].value)
    assert board.moment(3.0, BY_STEP) == pytest.approx((3.0, STARTED + 2 * STEP_S))


def test_marks_have_a_place_by_their_step_or_else_by_their_time() -> None:
    board = loaded(FakeSeries({REWARD: by_step([0.1] * 11)}), chart(REWARD))
    board.marks = (
        Annotation(STARTED + 4 * STEP_S, None, AnnotationKind.NOTE, "here"),
        Annotation(STARTED + 9 * STEP_S, 2, AnnotationKind.EDIT, "lr"),
    )
    assert [(each.x, each.mark.text) for each in board.placed_marks(BY_STEP)] == [
        (2, "lr"),
        (pytest.approx(5), "here"),
    ]
    assert [each.x for each in board.placed_marks(BY_TIME)] == pytest.approx([4 * STEP_S, 9 * STEP_S])
    assert board.placed_marks(View(marks=False)) == ()
    board.marks = (
        Annotation(STARTED + 4 * STEP_S, 9, AnnotationKind.ALERT, "fell", is_abandoned=True),
        Annotation(STARTED + 9 * STEP_S, 9, AnnotationKind.EDIT, "lr", line_step=2),
    )
    assert [(each.x, each.mark.text) for each in board.placed_marks(BY_STEP)] == [(2, "lr")]
    assert len(board.placed_marks(BY_TIME)) == 2, "by time the abandoned line is drawn as it was"


def test_runs_of_different_days_lie_over_each_other_by_time() -> None:
    today, before = by_step([0.1] * 5), by_step([0.2] * 5, started=STARTED - 1e6)
    board = ChartModel([Run("a", FakeSeries({REWARD: today})), Run("b", FakeSeries({REWARD: before}))])
    board.load([chart(REWARD)])
    first, second = board.picture(chart(REWARD), BY_TIME).strokes
    assert first.x.tolist() == second.x.tolist()
    assert {first.style, second.style} == {"line-0", "line-1"}


def test_a_chart_of_a_series_that_is_not_there_says_so() -> None:
    board = loaded(FakeSeries(), chart(REWARD))
    assert board.picture(chart(REWARD), BY_STEP).note == "no value yet"
    assert board.whole(BY_STEP) == (0, 1)


@pytest.mark.parametrize(
    ("view", "window"),
    [
        (View().scaled(0.5, (0, 100)), (50, 100)),
        (View(cursor=20).scaled(0.5, (0, 100)), (10, 60)),
        (View(window=(50, 100)).panned(-0.5, (0, 100)), (25, 75)),
        (View(window=(50, 100)).panned(5, (0, 100)), (50, 100)),
        (View(window=(50, 100)).scaled(2, (0, 100)), None),
        (View(window=(1, 3)).scaled(0.5, (0, 100)), (1, 3)),
        (View(window=(50, 60)).reading(20, (0, 100)), (15, 25)),
        (View(window=(50, 60)).reading(1000, (0, 100)), (90, 100)),
        (View().panned(1, (0, 100)), None),
    ],
)
def test_what_is_seen_stays_within_the_run(view: View, window: tuple[float, float] | None) -> None:
    assert view.window == window
