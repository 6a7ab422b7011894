"""What charts show of the series of runs."""

from __future__ import annotations

import math

import pytest
from tests.fakes.series import STARTED, STEP_S, FakeSeries, by_step, by_time, example_run

from rltui.core.logs.source import LogChange
from rltui.core.metrics.annotations import Annotation, AnnotationKind
from rltui.core.metrics.series import Rewind, SeriesKey
from rltui.ui.charts.captions import line_below
from rltui.ui.charts.catalog import Chart, charts
from rltui.ui.charts.model import ChartModel, Run
from rltui.ui.charts.view import ChartView

REWARD, LOSS, KV = SeriesKey("orch", "reward/mean"), SeriesKey("trainer", "loss/mean"), SeriesKey("e", "kv")
BY_STEP, BY_TIME = ChartView(), ChartView(by_time=True)


def chart(*keys: SeriesKey) -> Chart:
    return Chart("c", "C", keys, tuple(key.name for key in keys) if len(keys) > 1 else ())


def loaded(source: FakeSeries, *shown: Chart) -> ChartModel:
    model = ChartModel([Run("", source)])
    model.poll()
    model.load(shown)
    return model


def test_curated_charts_come_in_their_order_pins_first() -> None:
    keys = example_run().keys()
    ids = [chart.id for chart in charts(keys)]
    assert ids[:3] == ["reward", "env_reward", "loss"]
    assert "reward_std" not in ids
    pinned = charts(keys, pins=("trainer:optim/lr", "reward_std", "gone:away", "loss"))
    assert [each.id for each in pinned][:4] == ["trainer:optim/lr", "reward_std", "loss", "reward"]
    environments = next(each for each in charts(keys) if each.id == "env_reward")
    assert environments.labels == ("code", "math")


def test_words_choose_among_all_series() -> None:
    keys = (*example_run().keys(), SeriesKey("trainer", "expert_load/7"))
    assert [chart.id for chart in charts(keys, pattern="EXPERT")] == ["trainer:expert_load/7"]
    assert [chart.id for chart in charts(keys, pattern="^Entropy$")] == ["entropy"]
    assert charts(keys, pattern="nothing like it") == ()


def test_a_resume_leaves_the_abandoned_branch_as_a_faint_line() -> None:
    series = by_step([0.1] * 10)
    series.extend(by_step([0.9] * 3, first=6, started=STARTED + 100))
    model = loaded(FakeSeries({REWARD: series}, Rewind(5, STARTED + 99)), chart(REWARD))
    frame = model.frame(chart(REWARD), BY_STEP)
    faint, line = frame.polylines
    assert (faint.style, faint.x.tolist()) == ("faint", [6, 7, 8, 9, 10])
    assert (line.x.tolist(), line.y.tolist()) == (list(range(1, 9)), [0.1] * 5 + [0.9] * 3)
    assert frame.readings[0].value == 0.9
    assert frame.span == (1, 10)


def test_what_comes_is_added_and_a_rewind_works_all_out_again() -> None:
    source = FakeSeries({REWARD: by_step([0.1, 0.2, 0.3])})
    model = loaded(source, chart(REWARD))
    source.series[REWARD].add(4, STARTED + 20, 0.4)
    model.load([chart(REWARD)])
    assert model.frame(chart(REWARD), BY_STEP).polylines[0].x.tolist() == [1, 2, 3, 4]
    source.rewound = (Rewind(1, STARTED + 30),)
    source.series[REWARD].add(2, STARTED + 31, 0.7)
    model.load([chart(REWARD)])
    faint, line = model.frame(chart(REWARD), BY_STEP).polylines
    assert faint.x.tolist() == [2, 3, 4]
    assert line.y.tolist() == [0.1, 0.7]


def test_another_run_in_the_folder_is_read_anew() -> None:
    source = FakeSeries({REWARD: by_step([0.1] * 5)})
    model = loaded(source, chart(REWARD))
    source.series, source.change = {REWARD: by_step([0.9])}, LogChange.RESET
    assert model.poll()
    model.load([chart(REWARD)])
    assert model.frame(chart(REWARD), BY_STEP).polylines[0].y.tolist() == [0.9]


def test_what_has_only_times_finds_its_steps_by_the_clock_of_the_run() -> None:
    source = FakeSeries({REWARD: by_step([0.1] * 11), KV: by_time([0.5] * 5, STEP_S * 2.5)})
    model = loaded(source, chart(KV))
    assert model.frame(chart(KV), BY_STEP).polylines[0].x.tolist() == pytest.approx([1, 3.5, 6, 8.5, 11])
    assert model.frame(chart(KV), BY_TIME).polylines[0].x[-1] == pytest.approx(STEP_S * 10)
    alone = loaded(FakeSeries({KV: by_time([0.5] * 5, 1.0)}), chart(KV))
    assert "by time" in alone.frame(chart(KV), BY_STEP).note
    assert alone.frame(chart(KV), BY_TIME).note == ""


def test_the_cursor_reads_the_nearest_point_of_each_line() -> None:
    values = [math.nan if step == 5 else step / 10 for step in range(1, 11)]
    model = loaded(FakeSeries({REWARD: by_step(values), LOSS: by_step([9.0, 8.0])}), chart(REWARD, LOSS))
    readings = model.frame(chart(REWARD, LOSS), ChartView(cursor=3.4)).readings
    assert [(each.label, each.value) for each in readings] == [("reward/mean", 0.3), ("loss/mean", 8.0)]
    assert math.isnan(model.frame(chart(REWARD), ChartView(cursor=5)).readings[0].value)
    assert model.moment(3.0, BY_STEP) == pytest.approx((3.0, STARTED + 2 * STEP_S))


def test_marks_have_a_place_by_their_step_or_else_by_their_time() -> None:
    model = loaded(FakeSeries({REWARD: by_step([0.1] * 11)}), chart(REWARD))
    model.annotations = (
        Annotation(STARTED + 4 * STEP_S, None, AnnotationKind.NOTE, "here"),
        Annotation(STARTED + 9 * STEP_S, 2, AnnotationKind.EDIT, "lr"),
    )
    assert [(each.x, each.annotation.text) for each in model.placed_annotations(BY_STEP)] == [
        (2, "lr"),
        (pytest.approx(5), "here"),
    ]
    assert [each.x for each in model.placed_annotations(BY_TIME)] == pytest.approx([4 * STEP_S, 9 * STEP_S])
    assert model.placed_annotations(ChartView(annotations=False)) == ()
    model.annotations = (
        Annotation(STARTED + 4 * STEP_S, 9, AnnotationKind.ALERT, "fell", is_abandoned=True),
        Annotation(STARTED + 9 * STEP_S, 9, AnnotationKind.EDIT, "lr", line_step=2),
    )
    assert [(each.x, each.annotation.text) for each in model.placed_annotations(BY_STEP)] == [(2, "lr")]
    assert len(model.placed_annotations(BY_TIME)) == 2, "by time the abandoned line is drawn as it was"


def test_runs_of_different_days_lie_over_each_other_by_time() -> None:
    today, before = by_step([0.1] * 5), by_step([0.2] * 5, started=STARTED - 1e6)
    model = ChartModel([Run("a", FakeSeries({REWARD: today})), Run("b", FakeSeries({REWARD: before}))])
    model.load([chart(REWARD)])
    first, second = model.frame(chart(REWARD), BY_TIME).polylines
    assert first.x.tolist() == second.x.tolist()
    assert {first.style, second.style} == {"line-0", "line-1"}


def test_a_chart_of_a_series_that_is_not_there_says_so() -> None:
    model = loaded(FakeSeries(), chart(REWARD))
    assert model.frame(chart(REWARD), BY_STEP).note == "no values yet"
    assert model.full_span(BY_STEP) == (0, 1)


@pytest.mark.parametrize(
    ("view", "window"),
    [
        (ChartView().scale(0.5, (0, 100)), (50, 100)),
        (ChartView(cursor=20).scale(0.5, (0, 100)), (10, 60)),
        (ChartView(window=(50, 100)).pan(-0.5, (0, 100)), (25, 75)),
        (ChartView(window=(50, 100)).pan(5, (0, 100)), (50, 100)),
        (ChartView(window=(50, 100)).scale(2, (0, 100)), None),
        (ChartView(window=(1, 3)).scale(0.5, (0, 100)), (1, 3)),
        (ChartView(window=(50, 60)).read_at(20, (0, 100)), (15, 25)),
        (ChartView(window=(50, 60)).read_at(1000, (0, 100)), (90, 100)),
        (ChartView().pan(1, (0, 100)), None),
    ],
)
def test_what_is_seen_stays_within_the_run(view: ChartView, window: tuple[float, float] | None) -> None:
    assert view.window == window


def test_the_cursor_moves_by_cells_each_a_step_at_least_and_goes_to_marks() -> None:
    view, span = ChartView(), (0.0, 100.0)
    assert view.move_cursor(-1, 50, span).cursor == 100, "it begins at the end"
    assert ChartView(cursor=50).move_cursor(1, 500, span).cursor == 51
    assert ChartView(cursor=50, by_time=True).move_cursor(1, 500, span).cursor == 50.2
    marks = (-5.0, 10.0, 40.0, 90.0)
    assert view.read_adjacent(-1, marks, span).cursor == 90
    assert view.read_adjacent(1, marks, span) == view, "there is none after the end"
    assert ChartView(cursor=40).read_adjacent(1, marks, span).cursor == 90
    assert ChartView(cursor=10).read_adjacent(-1, marks, span).cursor == 10, "the other one is before the run"


def test_what_happened_is_counted_below_where_alarms_stand_out() -> None:
    model = loaded(FakeSeries({REWARD: by_step([0.1] * 11)}), chart(REWARD))
    kinds = {2: AnnotationKind.CRASH, 3: AnnotationKind.CRASH, 5: AnnotationKind.EDIT}
    model.annotations = tuple(Annotation(STARTED, step, kind, "") for step, kind in kinds.items())
    line = line_below(model, BY_STEP, 80, STARTED)
    assert line.plain == "✗ 2 crashes · e 1 edit"
    signs = {line.plain[span.start]: span.style for span in line.spans if line.plain[span.start] in "✗e"}
    assert signs == {"✗": "bold $text-error", "e": "bold $text-warning"}
