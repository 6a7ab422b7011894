from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.series import series_from_points

from rltui.core.experiment.api import Progress
from rltui.core.metrics.progress import MetricNames, MetricSeries
from rltui.core.metrics.series import NO_STEP, DownsampledSeries, Rewind, Series, downsample, writer_of


def line(*points: tuple[int, float], rewinds: tuple[Rewind, ...] = ()) -> tuple[list[int], list[list[int]]]:
    """Steps of the line and of the branches; `points` are (step, time)."""
    series = series_from_points((step, at, float(index)) for index, (step, at) in enumerate(points))
    current, branches = series.lines(rewinds)
    return list(current.steps), [list(branch.steps) for branch in branches]


def test_a_run_without_rewinds_is_its_line() -> None:
    series = series_from_points((step, 10.0 + step, 0.5) for step in range(5))
    current, branches = series.lines()
    assert current is series
    assert branches == ()


def test_a_rewind_abandons_what_was_written_before_it_beyond_its_step() -> None:
    points = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (3, 13.0), (4, 14.0), (5, 15.0)]
    assert line(*points, rewinds=(Rewind(2, 10.0),)) == ([1, 2, 3, 4, 5], [[3, 4]])


def test_a_rewind_counts_before_anything_is_written_after_it() -> None:
    assert line((1, 1.0), (2, 2.0), (3, 3.0), rewinds=(Rewind(1, 9.0),)) == ([1], [[2, 3]])


def test_rewinds_within_rewinds() -> None:
    points = [(1, 1.0), (2, 2.0), (3, 3.0), (2, 12.0), (3, 13.0), (4, 14.0), (3, 23.0)]
    rewinds = (Rewind(2, 20.0), Rewind(1, 10.0))
    assert line(*points, rewinds=rewinds) == ([1, 2, 3], [[2, 3], [3, 4]])


def test_a_step_that_falls_back_by_itself_rewinds() -> None:
    assert line((1, 1.0), (2, 2.0), (3, 3.0), (2, 4.0), (3, 5.0)) == ([1, 2, 3], [[2, 3]])


def test_the_same_step_again_replaces_its_point() -> None:
    current, branches = series_from_points([(1, 1.0, 0.1), (2, 2.0, 0.2), (2, 3.0, 0.3)]).lines()
    assert list(current.values) == [0.1, 0.3]
    assert branches == ()


def test_what_is_no_number_may_come_late() -> None:
    points = [(1, 1.0, 0.1), (3, 3.0, 0.3), (4, 4.0, 0.4), (2, 2.0, math.nan)]
    current, branches = series_from_points(points).lines()
    assert list(current.steps) == [1, 2, 3, 4]
    assert math.isnan(current.values[1])
    assert branches == ()


def test_what_is_no_number_stays_with_its_branch() -> None:
    points = [
        (1, 1.0, 0.1),
        (3, 3.0, 0.3),
        (2, 12.0, 0.2),
        (3, 13.0, 0.3),
        (2, 2.0, math.nan),
        (3, 3.0, math.nan),
    ]
    current, _ = series_from_points(points).lines((Rewind(1, 10.0),))
    assert list(current.values) == [0.1, 0.2, 0.3]


def test_series_by_time_have_one_line() -> None:
    series = series_from_points((NO_STEP, float(at), 1.0) for at in range(4))
    assert series.lines((Rewind(0, 2.0),)) == (series, ())


@given(
    st.lists(st.tuples(st.integers(-1, 12), st.floats(0, 100), st.floats(allow_nan=True)), max_size=40),
    st.lists(st.builds(Rewind, st.integers(-1, 12), st.floats(0, 100)), max_size=4),
)
def test_lines_ascend_whatever_is_written(
    points: list[tuple[int, float, float]], rewinds: list[Rewind]
) -> None:
    series = series_from_points(points)
    current, branches = series.lines(rewinds)
    for line in (current, *branches):
        assert len(line.steps) == len(line.times) == len(line.values)
        if max(series.steps, default=NO_STEP) != NO_STEP:
            assert list(line.steps) == sorted(set(line.steps))
    assert len(current) + sum(map(len, branches)) <= len(series)


def test_extend_and_tail() -> None:
    one, other = series_from_points([(1, 1.0, 0.1)]), series_from_points([(2, 2.0, 0.2), (3, 3.0, 0.3)])
    one.extend(other)
    assert one.tail(1) == other
    assert len(Series()) == 0


def test_who_wrote_a_row() -> None:
    assert writer_of({"producer": "trainer", "train/agg/x": 1}) == "trainer"
    assert writer_of({"step": 1, "time/step": 2.0, "time/forward_backward": 1.0}) == "trainer"
    assert writer_of({"step": 1, "time/step": 2.0, "time/pack": 1.0}) == "orch"
    assert writer_of({"step": 1, "reward": 2.0}) == ""


@given(st.dictionaries(st.integers(1, 10**9), st.floats(-9, 9), min_size=1, max_size=300), st.integers(4, 60))
def test_what_stands_out_is_kept(values: dict[int, float], most: int) -> None:
    points = sorted(values.items())
    sample = downsample(points, most)
    assert len(sample) <= most
    assert sample == sorted(set(sample))
    assert set(sample) <= set(points)
    assert (sample[0], sample[-1]) == (points[0], points[-1])
    numbers = [value for _, value in sample]
    assert (min(numbers), max(numbers)) == (min(values.values()), max(values.values()))


def test_a_long_run_keeps_its_shape() -> None:
    series = DownsampledSeries(400)
    for step in range(1, 30_001):
        series.add(step, 1.0 if step == 1234 else 0.5 - step / 100_000)
    points = series.points()
    assert len(points) <= 400
    assert (1234, 1.0) in points
    assert (points[0][0], points[-1][0]) == (1, 30_000)
    assert series.points() is points


def test_a_run_that_went_back() -> None:
    series = DownsampledSeries(400)
    for step in range(1, 10):
        series.add(step, 0.1)
    series.add(5, 0.9)
    assert [step for step, _ in series.points()] == [1, 2, 3, 4, 5]
    series.cut(2)
    assert series.points() == ((1, 0.1), (2, 0.1))


def test_the_curve_of_a_run_is_among_its_figures() -> None:
    series = MetricSeries(MetricNames())
    for step in range(1, 1001):
        series.add({"step": step, MetricNames().reward: step / 1000})
    progress = series.progress(None)
    assert len(progress.rewards) == 200
    assert (progress.curve[0], progress.curve[-1], len(progress.curve)) == ((1, 0.001), (1000, 1.0), 400)
    assert Progress.from_json(progress.to_json().decode()) == progress
