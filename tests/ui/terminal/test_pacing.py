"""Frames come as often as the line takes them, and at once for a key."""

from __future__ import annotations

import pytest

from rltui.ui.terminal.driver import (
    FAST_BYTES_PER_S,
    MAX_PAUSE_S,
    SLOW_BYTES_PER_S,
    WINDOW_BYTES,
    Pacing,
)
from rltui.ui.terminal.incoming import ANSWER_TIMEOUT_S


def flood(pacing: Pacing, *, round_trip_s: float, size: int, seconds: float, answers: bool = True) -> int:
    """Bytes written by a screen that always has a frame of `size` to show."""
    now, written = 0.0, 0
    due: list[float] = []
    while now < seconds:
        if not (wait_s := pacing.wait_s(now, is_urgent=False)):
            expects_answers = pacing.expects_answers
            pacing.record_frame(now, size)
            written += size
            due += [now + round_trip_s] if expects_answers and answers else []
            continue
        now += wait_s
        if due and due[0] <= now:
            now = due.pop(0)
            pacing.record_answer(now)
    return written


@pytest.mark.parametrize("size", [100, 1000, 3000])
def test_frames_nobody_asked_for_keep_within_the_budget(size: int) -> None:
    assert flood(Pacing(), round_trip_s=0.001, size=size, seconds=20) <= 20.5 * FAST_BYTES_PER_S


def test_a_large_screen_is_still_painted_twice_a_second() -> None:
    written = flood(Pacing(), round_trip_s=0.001, size=20_000, seconds=20)
    assert written / 20_000 == pytest.approx(20 / MAX_PAUSE_S, abs=1)


@pytest.mark.parametrize("size", [500, 4000])
def test_a_slow_line_gets_less(size: int) -> None:
    pacing = Pacing()
    assert not pacing.is_slow
    assert flood(pacing, round_trip_s=0.3, size=size, seconds=60) <= 62 * SLOW_BYTES_PER_S
    assert pacing.is_slow


def test_a_line_that_recovers_is_no_longer_slow() -> None:
    pacing = Pacing()
    flood(pacing, round_trip_s=0.3, size=500, seconds=10)
    for second in range(100, 103):
        pacing.record_frame(second, 10)
        pacing.record_answer(second + 0.01)
    assert not pacing.is_slow


def test_one_such_frame_is_under_way_at_most() -> None:
    pacing = Pacing()
    pacing.record_frame(0.0, 10)
    assert pacing.wait_s(1.0, is_urgent=False) > 0
    pacing.record_answer(1.0)
    assert pacing.wait_s(1.0, is_urgent=False) == 0


def test_a_key_waits_for_nothing_but_a_full_line() -> None:
    pacing = Pacing()
    pacing.record_frame(0.0, 4000)
    assert pacing.wait_s(0.0, is_urgent=True) == 0
    pacing.record_frame(0.0, WINDOW_BYTES)
    assert pacing.wait_s(0.1, is_urgent=True) > 0
    pacing.record_answer(0.2)
    pacing.record_answer(0.3)
    assert pacing.wait_s(0.3, is_urgent=True) == 0


def test_a_terminal_that_never_answers_is_painted_all_the_same() -> None:
    pacing = Pacing()
    written = flood(pacing, round_trip_s=0, size=1000, seconds=30, answers=False)
    assert not pacing.expects_answers
    assert written >= (30 - ANSWER_TIMEOUT_S - 1) * FAST_BYTES_PER_S * 0.9
    assert not pacing.is_slow


def test_an_answer_after_all_is_believed() -> None:
    pacing = Pacing()
    flood(pacing, round_trip_s=0, size=1000, seconds=5, answers=False)
    pacing.record_answer(6.0)
    assert pacing.expects_answers
