"""Loops that watch a run outlive an error in them."""

from __future__ import annotations

import asyncio

import pytest

from rltui.base import tasks


async def test_work_that_fails_is_begun_anew_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding H14: one number too large ended the supervisor."""
    monkeypatch.setattr(tasks, "PAUSE_S", 0.0)
    restarted = asyncio.Event()
    errors = [OverflowError("too large"), OverflowError("too large"), ValueError("another")]
    reports: list[str] = []

    async def work() -> None:
        if errors:
            raise errors.pop(0)
        restarted.set()
        await asyncio.Event().wait()

    going_on = asyncio.create_task(tasks.run_forever(work, "follow_metrics", reports.append))
    async with asyncio.timeout(10):
        await restarted.wait()
    going_on.cancel()
    assert reports == [
        "follow_metrics failed and is restarting: OverflowError: too large",
        "follow_metrics failed and is restarting: ValueError: another",
    ]
