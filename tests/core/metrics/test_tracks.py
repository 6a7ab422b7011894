"""Figures of a run by step, as the rules of health look at them."""

from __future__ import annotations

from rltui.core.metrics.tracks import Track


def test_a_run_of_any_length_takes_bounded_memory_and_keeps_its_beginning_and_newest_steps() -> None:
    track = Track()
    for step in range(1, 100_001):
        track.put(step, step / 2)
    assert len(track) <= 512 + 2 * 4096
    assert list(track.steps[:512]) == list(range(1, 513))
    assert list(track.steps[-4096:]) == list(range(100_001 - 4096, 100_001))
    assert (track.at(1), track.at(100_000), track.around(100_000)) == (0.5, 50_000.0, 49_998.25)
    assert track.at(50_000) is None
    track.cut(99_000)
    assert track.last(2) == type(track.values)("d", [49_499.5, 49_500.0])
    track.put(99_001, 1.0)
    assert track.since(lambda value: value > 10, gap=3) == 21
