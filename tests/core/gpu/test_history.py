"""The memory of a device over time, however long a run is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.history import COARSE_POINTS, FINE_POINTS, FIRST_INTERVAL_S, MemoryHistory

MIB = 1 << 20


def test_short_history_is_kept_as_it_was() -> None:
    history = MemoryHistory()
    history.add(1.0, {"inference": 5 * MIB})
    history.add(2.0, {"inference": 7 * MIB, "trainer": 1 * MIB})
    history.add(3.0, {"trainer": 2 * MIB})
    result = history.history("/GPU-1")
    assert (result.device, result.times) == ("/GPU-1", (1.0, 2.0, 3.0))
    assert {series.label: series.used_bytes for series in result.series} == {
        "inference": (5 * MIB, 7 * MIB, 0),
        "trainer": (0, 1 * MIB, 2 * MIB),
    }


def test_old_samples_become_intervals_that_keep_their_peak() -> None:
    history = MemoryHistory()
    for second in range(3000):
        history.add(float(second), {"trainer": (9 if second == 100 else 3) * MIB})
    result = history.history("d")
    [trainer] = result.series
    fine_from = 3000 - FINE_POINTS
    older = [at for at in result.times if at < fine_from]
    assert list(result.times[len(older) :]) == [float(second) for second in range(fine_from, 3000)]
    assert max(trainer.used_bytes) == 9 * MIB
    peak_at = result.times[trainer.used_bytes.index(9 * MIB)]
    assert 100 <= peak_at < 100 + FIRST_INTERVAL_S


def test_a_week_stays_small_and_covers_all_of_it() -> None:
    history = MemoryHistory()
    for minute in range(7 * 24 * 60):
        history.add(60.0 * minute, {"inference": MIB})
    times = history.history("d").times
    assert len(times) <= COARSE_POINTS + FINE_POINTS
    assert times[0] < 2 * 3600.0
    assert times[-1] == 60.0 * (7 * 24 * 60 - 1)


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 500), st.dictionaries(st.sampled_from("abc"), st.integers(0, 80), max_size=3)
        ),
        min_size=1,
        max_size=200,
    )
)
def test_columns_are_equally_long_and_nothing_exceeds_the_largest_sample(
    samples: list[tuple[float, dict[str, int]]],
) -> None:
    history, at = MemoryHistory(), 0.0
    for pause, sizes in samples:
        at += pause
        history.add(at, {label: size * MIB for label, size in sizes.items()})
    result = history.history("d")
    assert list(result.times) == sorted(result.times)
    assert {len(series.used_bytes) for series in result.series} <= {len(result.times)}
    for series in result.series:
        assert max(series.used_bytes) == max(sizes.get(series.label, 0) for _, sizes in samples) * MIB
