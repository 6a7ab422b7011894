"""Loops that poll at one interval wake together, and seldom where there is nothing to find."""

from __future__ import annotations

import asyncio

import pytest

from rltui.base import tasks


class Clock:
    """The time of the running loop, which passes only as somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: float) -> None:
        self.now = now
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_loops_of_one_interval_wake_at_the_same_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    for now, woken_at in ((10.0, 12.0), (10.5, 12.0), (11.5, 12.0), (11.7, 14.0)):  # never at once again
        clock = Clock(monkeypatch, now)
        await tasks.tick(2.0)
        assert clock.now == woken_at, now


async def test_a_loop_that_finds_nothing_for_a_minute_polls_half_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch, 0.0)
    backoff = tasks.IdleBackoff(2.0)
    while clock.now <= 60:
        before = clock.now
        await backoff.tick(has_found=False)
        assert clock.now == before + 2
    await backoff.tick(has_found=False)
    assert clock.now == 64  # a moment of those that poll every 4 s
    await backoff.tick(has_found=False)
    assert clock.now == 68
    await backoff.tick(has_found=True)
    assert clock.now == 70
