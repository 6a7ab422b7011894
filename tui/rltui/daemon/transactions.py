"""Plans being carried out: one at a time, to the end or a stated failure, whatever becomes of the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from rltui.core.api import Alert, ComponentState, Orphan, Plan, Request
from rltui.core.text import duration
from rltui.daemon.component import ComponentRunner
from rltui.daemon.tasks import spawn
from rltui.daemon.telling import Teller
from rltui.errors import ConflictError, RltuiError
from rltui.services.intent import Pending

SETTLED = frozenset(
    {
        ComponentState.READY,
        ComponentState.EXITED,
        ComponentState.FAILED,
        ComponentState.STOPPED,
        ComponentState.BACKOFF,
    }
)
"""States in which a start has come to its end."""


class Transactions:
    """Carries plans out on `runners`."""

    def __init__(
        self,
        runners: Mapping[str, ComponentRunner],
        teller: Teller,
        *,
        prepare_run: Callable[[Plan, Request], None],
        call_services: Callable[[Plan], Awaitable[None]],
        free: Callable[[Sequence[Orphan]], Awaitable[Sequence[Orphan]]],
        changed: Callable[[], None],
        next_change: Callable[[], Awaitable[None]],
    ) -> None:
        """`prepare_run`, then `call_services`, are called between the stops and the starts.

        Both may raise `RltuiError`.

        `changed` is called when `pending` did.
        """
        self._runners = runners
        self._teller = teller
        self._prepare_run = prepare_run
        self._call_services = call_services
        self._free = free
        self._tell_changed = changed
        self._next_change = next_change
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self._decision = asyncio.Lock()
        self.closed: str | None = None
        """Why nothing is started any more, in words; `None` while something may be."""
        self.pending: Pending | None = None
        """What the next supervisor must finish, should this one be killed now."""

    @property
    def busy(self) -> bool:
        """Something is being stopped, or about to be started."""
        return self._task is not None and not self._task.done()

    @property
    def under_way(self) -> str | None:
        """What is being carried out, in words."""
        return describe(self.pending.plan) if self.pending is not None else None

    @asynccontextmanager
    async def deciding(self, *, starts: bool) -> AsyncIterator[None]:
        """Within, what a plan was made from stays so until it is begun: one decides at a time.

        Raises:
            ConflictError: if it `starts` something and nothing may start any more.
        """
        async with self._decision:
            if starts:
                self.refuse_if_closed()
            yield

    async def close(self, why: str) -> None:
        """Start nothing from now on, and drop what is under way, once whoever decides now has begun."""
        self.closed = why
        async with self._decision:
            await self.cancel()

    def refuse_if_closed(self) -> None:
        """For whoever would start something.

        Raises:
            ConflictError: after `close`.
        """
        if self.closed is not None:
            raise ConflictError(self.closed, hint="wait until it is down, then start it again")

    def begin(self, plan: Plan, request: Request, *, automatic: bool = False) -> None:
        """Carry `plan` out; returns at once. `automatic`: by a restart policy, so that failures count on."""
        kept = plan.model_dump(include={"action", "stop", "start", "keep"})
        self._teller.journal.add("plan", describe(plan), **kept)
        written = request.model_copy(update={"edits": {}, "texts": {}})  # kept on disk, without their secrets
        self.resume(Pending(request=written, plan=plan, automatic=automatic))

    def resume(self, pending: Pending) -> None:
        """Carry out what was begun, by this supervisor or by one that was killed."""
        self.pending = pending
        self._tell_changed()
        self._number += 1
        self._task = spawn(self._carry_out(pending, self._number), pending.request.action)

    async def wait(self) -> None:
        """Return when no transaction is under way."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def cancel(self) -> None:
        """Drop what is left of the present one. A process that was asked to stop goes on stopping."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        self._forget()

    def _forget(self) -> None:
        self.pending = None
        self._tell_changed()

    async def _carry_out(self, pending: Pending, number: int) -> None:
        """Cancelled, it stays pending: `cancel` forgets it, a supervisor that leaves does not."""
        begun = time.monotonic()
        try:
            await self._stop_and_start(pending)
        except Exception as error:
            self._teller.alert(
                Alert(kind="config", severity="error", title="a plan was not finished", text=str(error))
            )
            self._forget()
            for name in pending.plan.start:
                self._runners[name].refuse_start(f"not started: {' '.join(str(error).split())}")
            if not isinstance(error, RltuiError):
                raise
            return
        self._forget()
        spawn(self._tell_outcome(pending.plan, begun, number), f"outcome {number}")

    async def _stop_and_start(self, pending: Pending) -> None:
        plan, request = pending.plan, pending.request
        left = [name for name in plan.stop if not await self._runners[name].stop(kill=request.kill)]
        if plan.free and not pending.automatic:
            left += [f"pid {orphan.pid}" for orphan in await self._free(plan.free)]
        if plan.start:
            if left:
                raise RltuiError(f"nothing was started: {', '.join(left)} cannot be ended")
            self._prepare_run(plan, request)
            await self._call_services(plan)
        for name in plan.start:
            self._runners[name].start(automatic=pending.automatic)

    async def _tell_outcome(self, plan: Plan, begun: float, number: int) -> None:
        """Journal how it came out, unless another transaction took over."""
        epochs = {name: self._runners[name].life.epoch for name in plan.start}
        while not all(self._runners[name].life.state in SETTLED for name in plan.start):
            await self._next_change()
        took_s = time.monotonic() - begun
        lives = {name: self._runners[name].life for name in plan.start}
        if number != self._number or any(life.epoch != epochs[name] for name, life in lives.items()):
            self._teller.journal.add("plan", f"overtaken: {describe(plan)}")
            return
        bad = [
            f"{name} {life.state}" + (f": {life.reason}" if life.reason else "")
            for name, life in lives.items()
            if life.state not in (ComponentState.READY, ComponentState.EXITED)
        ]
        if bad:
            self._teller.journal.add(
                "plan", f"failed after {duration(took_s)}: {'; '.join(bad)}", failed=True
            )
        else:
            self._teller.journal.add("plan", f"done in {duration(took_s)}: {describe(plan)}", plan_s=took_s)


def describe(plan: Plan) -> str:
    """`stop trainer, orchestrator; start orchestrator, trainer`."""
    steps = (
        ("stop", plan.stop),
        ("end", tuple(f"pid {orphan.pid}" for orphan in plan.free)),
        ("start", plan.start),
    )
    return "; ".join(f"{word} {', '.join(names)}" for word, names in steps if names)
