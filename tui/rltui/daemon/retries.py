"""Starts that a restart policy promised: made when they are due, as a plan of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rltui.core.api import ComponentState, Plan, Request
from rltui.core.lifecycle import Life
from rltui.daemon.component import ComponentRunner
from rltui.daemon.planner import refuse_blocked
from rltui.daemon.tasks import spawn
from rltui.daemon.transactions import Transactions
from rltui.errors import RltuiError


class Retries:
    """Watches for components in back-off. Lives on the supervisor's loop, whose clock is monotonic."""

    def __init__(self, transactions: Transactions, plan: Callable[[Request], Awaitable[Plan]]) -> None:
        self._transactions = transactions
        self._plan = plan

    def life_changed(self, runner: ComponentRunner) -> None:
        """Call after every transition."""
        life = runner.life
        if life.state is ComponentState.BACKOFF and life.retry_at is not None:
            asyncio.get_running_loop().call_at(life.retry_at, self._due, runner, life)

    def _due(self, runner: ComponentRunner, life: Life) -> None:
        spawn(self._retry(runner, life), f"retry {runner.spec.id}")

    async def _retry(self, runner: ComponentRunner, life: Life) -> None:
        """Restart the component with its restart set, unless somebody did something else meanwhile."""
        request = Request(action="restart", components=(runner.spec.id,))
        while runner.life == life:
            await self._transactions.wait()
            try:
                async with self._transactions.deciding(starts=False):
                    if self._transactions.closed is not None:
                        return
                    if self._transactions.busy:  # somebody was quicker
                        continue
                    plan = await self._plan(request)
                    if runner.life != life:
                        return
                    # A busy port is waited for, like any obstacle on the box.
                    kept = tuple(problem for problem in plan.problems if problem.key != "port")
                    plan = plan.model_copy(update={"problems": kept, "free": ()})
                    refuse_blocked(plan)
                    self._transactions.begin(plan, request, automatic=True)
            except RltuiError as error:
                runner.give_up(f"not started again: {str(error).replace(chr(10), ' ')}")
            return
