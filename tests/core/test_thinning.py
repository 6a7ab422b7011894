from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rltui.core.api import Progress
from rltui.core.metrics import MetricNames, MetricSeries
from rltui.core.series import DownsampledSeries, downsample


@given(st.dictionaries(st.integers(1, 10**9), st.floats(-9, 9), min_size=1, max_size=300), st.integers(4, 60))
def test_what_stands_out_is_kept(values: dict[int, float], most: int) -> None:
    points = sorted(values.items())
    found = downsample(points, most)
    assert len(found) <= most
    assert found == sorted(set(found))
    assert set(found) <= set(points)
    assert (found[0], found[-1]) == (points[0], points[-1])
    numbers = [value for _, value in found]
    assert (min(numbers), max(numbers)) == (min(values.values()), max(values.values()))


def test_a_long_run_keeps_its_shape() -> None:
    line = DownsampledSeries(400)
    for step in range(1, 30_001):
        line.add(step, 1.0 if step == 1234 else 0.5 - step / 100_000)
    points = line.points()
    assert len(points) <= 400
    assert (1234, 1.0) in points
    assert (points[0][0], points[-1][0]) == (1, 30_000)
    assert line.points() is points


def test_a_run_that_went_back() -> None:
    line = DownsampledSeries(400)
    for step in range(1, 10):
        line.add(step, 0.1)
    line.add(5, 0.9)
    assert [step for step, _ in line.points()] == [1, 2, 3, 4, 5]
    line.cut(2)
    assert line.points() == ((1, 0.1), (2, 0.1))


def test_the_curve_of_a_run_is_among_its_figures() -> None:
    series = MetricSeries(MetricNames())
    for step in range(1, 1001):
        series.add({"step": step, MetricNames().reward: step / 1000})
    progress = series.progress(None)
    assert len(progress.rewards) == 200
    assert (progress.curve[0], progress.curve[-1], len(progress.curve)) == ((1, 0.001), (1000, 1.0), 400)
    assert Progress.model_validate_json(progress.model_dump_json()) == progress
