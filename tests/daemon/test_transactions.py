"""Who may begin, and what becomes of a plan that cannot be carried out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rltui.core.api import Alert, Orphan, Plan, Request
from rltui.daemon.tasks import Signal
from rltui.daemon.transactions import Transactions
from rltui.errors import ConflictError, RltuiError

RESTART = Plan(stop=("trainer",), start=("trainer",))


class Runner:
    """A component whose stop comes to its end when a test says so."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.can_end = True
        self.refused: list[str] = []
        self.started = 0

    async def stop(self, *, kill: bool) -> bool:
        await self.ends.wait()
        return self.can_end

    def start(self, *, automatic: bool) -> None:
        self.started += 1

    def refuse_start(self, reason: str) -> None:
        self.refused.append(reason)


class Box:
    """Transactions on one component, and what they told."""

    def __init__(self) -> None:
        self.runner = Runner()
        self.alerts: list[Alert] = []
        self.problem: RltuiError | None = None
        self.left: tuple[Orphan, ...] = ()
        events = SimpleNamespace(alert=self.alerts.append, journal=SimpleNamespace(add=lambda *_, **__: None))
        processes = SimpleNamespace(
            runners={"trainer": self.runner},
            run_jobs=self._run_jobs,
            orphans=SimpleNamespace(free=self._free),
            changes=Signal(),
        )
        self.transactions = Transactions(
            cast(Any, processes), cast(Any, None), cast(Any, None), cast(Any, events), changed=lambda: None
        )

    def _run_jobs(self) -> list[object]:
        """None; asked for where the run is prepared."""
        if self.problem is not None:
            raise self.problem
        return []

    async def _free(self, orphans: object) -> tuple[Orphan, ...]:
        return self.left


async def test_one_decides_at_a_time() -> None:
    """Finding A5: between the look and the beginning, another had begun."""
    box, order = Box(), []

    async def decide(name: str) -> None:
        async with box.transactions.deciding(starts=True):
            order.append(f"{name} looks")
            await asyncio.sleep(0)
            order.append(f"{name} begins")

    await asyncio.gather(decide("one"), decide("two"))
    assert order == ["one looks", "one begins", "two looks", "two begins"]


async def test_after_the_close_nothing_starts_and_the_refusal_says_why() -> None:
    box = Box()
    box.transactions.begin(RESTART, Request(action="restart"))
    async with box.transactions.deciding(starts=True):
        closing = asyncio.create_task(box.transactions.close("it is being taken down by ada"))
        await asyncio.sleep(0)
        assert not closing.done(), "whoever decides is let finish"
        assert box.transactions.busy
    await closing
    assert not box.transactions.busy
    with pytest.raises(ConflictError, match="taken down by ada"):
        async with box.transactions.deciding(starts=True):
            raise AssertionError("let in")
    async with box.transactions.deciding(starts=False):
        assert box.runner.started == 0


@pytest.mark.parametrize("why", ["stuck", "leftover", "disk"])
async def test_what_a_failed_plan_was_to_start_says_why_it_does_not(why: str) -> None:
    """On a full disk a restart ended with `stopped` and exit code 0."""
    box, plan = Box(), RESTART
    match why:
        case "stuck":
            box.runner.can_end, reason = False, "trainer cannot be ended"
        case "leftover":
            box.left, reason = (Orphan(pid=7, start=1),), "pid 7 cannot be ended"
            plan = plan.model_copy(update={"free": box.left})
        case _:
            box.problem, reason = RltuiError("cannot write x", hint="is the disk full?"), "cannot write x"
    box.runner.ends.set()
    box.transactions.begin(plan, Request(action="restart"))
    await box.transactions.wait()
    (refused,) = box.runner.refused
    assert reason in refused
    assert box.runner.started == 0
    assert box.alerts[0].title == "a plan was not finished"
    assert box.transactions.pending is None
