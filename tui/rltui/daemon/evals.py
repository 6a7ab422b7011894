"""The queue of evaluations, and the standing order for checkpoints: one is carried out at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rltui.core.evals import EvalReport, EvalRequest, EvalTarget, Evaluation, QueuedEval
from rltui.core.text import unknown
from rltui.daemon.eval_work import POLL_S, EvalWork
from rltui.daemon.events import EventBus
from rltui.errors import ConfigError, RltuiError


class EvalScheduler:
    """Has the queue, and carries it out. Lives on the supervisor's loop; files are read in a thread."""

    def __init__(self, work: EvalWork, events: EventBus, *, may_start: Callable[[], bool]) -> None:
        """`may_start`: false once everything is being taken down."""
        self._work = work
        self._events = events
        self._may_start = may_start
        self._folder = work.folder
        self._queue = work.folder.queue()

    # --- requests -----------------------------------------------------------------------------------------

    @property
    def queue(self) -> tuple[QueuedEval, ...]:
        """The running one first, then in the order they will run."""
        running = () if self._queue.running is None else (self._queue.running,)
        return (*running, *self._queue.waiting)

    async def report(self) -> EvalReport:
        return await asyncio.to_thread(self._folder.report, self._work.experiment, self._queue)

    async def enqueue(self, request: EvalRequest, *, by: str = "you") -> QueuedEval:
        """Put it behind the others.

        Raises:
            ConfigError: if it cannot be done: no evaluator, no such checkpoint or model.
            UsageError: if its answers cannot fit the model's context.
        """
        request = await self._work.completed(request)
        id_ = await asyncio.to_thread(self._folder.new, self._queue)
        why = "another evaluation" if self.queue else ""
        queued = QueuedEval(id=id_, request=request, by=by, at=time.time(), env=request.env, why=why)
        self._change(waiting=(*self._queue.waiting, queued))
        self._events.journal.add("eval", f"{queued.label} is asked for by {by}", id=id_, asked=True)
        self._work.notify()
        return queued

    async def cancel(self, id_: str) -> EvalReport:
        """Take one from the queue, or end the one that runs.

        Raises:
            UsageError: if there is none of that id.
        """
        found = next((each for each in self.queue if each.id == id_), None)
        if found is None:
            raise unknown("evaluation in the queue", id_, [each.id for each in self.queue])
        if found.state == "running":
            await self._work.stop()
        else:
            self._change(waiting=tuple(each for each in self._queue.waiting if each.id != id_))
            self._events.journal.add("eval", f"{found.label} is not wanted any more", id=id_, asked=True)
        return await self.report()

    async def order(self, every: int, request: EvalRequest) -> EvalReport:
        """Evaluate one of so many checkpoints from now on; 0: none.

        Raises:
            ConfigError, UsageError: as `ask`.
        """
        if every:
            now = {"target": EvalTarget(), "when_done": True}  # nothing of it need be there yet
            request = await self._work.completed(request.model_copy(update=now))
            request = request.model_copy(update={"when_done": False})
        self._change(every=every, order=request, seen=0)
        text = f"every {every} checkpoints are evaluated" if every > 1 else "every checkpoint is evaluated"
        self._events.journal.add("eval", text if every else "no checkpoint is evaluated unasked", asked=True)
        return await self.report()

    async def checkpoint(self, step: int) -> None:
        """A checkpoint is complete: the standing order may want it."""
        queue = self._queue
        if not queue.every:
            return
        self._change(seen=queue.seen + 1)
        if self._queue.seen % queue.every:
            return
        by = "eval_every"
        target = EvalTarget(kind="checkpoint", step=step)
        try:
            try:
                await self.enqueue(queue.order.model_copy(update={"target": target}), by=by)
            except ConfigError:  # no weights are kept with it: those that the server has now are the same
                await self.enqueue(queue.order.model_copy(update={"target": EvalTarget()}), by=by)
        except RltuiError as error:
            self._events.journal.add("eval", f"checkpoint {step} is not evaluated: {error.title}", asked=True)

    # --- the work -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        left, begun = self._queue.running, self._queue.begun  # of an earlier supervisor
        if left is not None and begun is not None:
            await self._execute(left, begun)
        else:
            await self._work.stop()
            self._requeue(left)
        while True:
            found = self._next() if self._may_start() else None
            if found is not None:
                await self._execute(found)
            else:
                await self._work.wait_for_change(None if not self._queue.waiting else POLL_S)

    def _next(self) -> QueuedEval | None:
        """The first whose time has come; the others are told what they wait for."""
        chosen, waiting = None, []
        for each in self._queue.waiting:
            why = "another evaluation" if chosen is not None else self._work.wait_reason(each.request)
            chosen = each if why is None else chosen
            waiting.append(each.model_copy(update={"why": why or ""}))
        self._change(waiting=tuple(waiting))
        return chosen

    async def _execute(self, queued: QueuedEval, begun: Evaluation | None = None) -> None:
        """From the queue to its record. `begun`: its evaluator was started by an earlier supervisor."""
        waiting = tuple(each for each in self._queue.waiting if each.id != queued.id)
        started_at = queued.started_at or time.time()
        running = queued.model_copy(update={"state": "running", "why": "", "started_at": started_at})
        self._change(waiting=waiting, running=running, begun=begun)
        ended = ""
        try:
            if begun is None:
                self._change(begun=await self._work.start(running, self._report))
            await self._work.wait_until_ended(running, self._queue.begun, self._report)
        except RltuiError as error:
            ended = error.title
        except Exception as error:
            await self._conclude(running, f"an error in rltui itself: {error!r}")
            raise
        if self._may_start():
            await self._conclude(running, ended)
        else:  # everything is being taken down: it is done again when the experiment is up again
            self._requeue(queued)
        follower = self._queue.waiting[0] if self._queue.waiting else None
        if follower is None or follower.request.target != running.request.target:
            await self._work.stop()

    def _requeue(self, queued: QueuedEval | None) -> None:
        """In front of the others."""
        if queued is not None:
            again = queued.model_copy(update={"state": "waiting", "why": "", "started_at": None, "done": 0})
            self._change(waiting=(again, *self._queue.waiting), running=None, begun=None)

    async def _conclude(self, running: QueuedEval, ended: str) -> None:
        await self._work.conclude(running, self._queue.begun, ended)
        self._change(running=None, begun=None)

    def _report(self, running: QueuedEval) -> None:
        self._change(running=running)

    def _change(self, **changes: object) -> None:
        before, self._queue = self._queue, self._queue.model_copy(update=changes)
        if self._queue != before:
            self._folder.keep_queue(self._queue)
            self._events.changed("status")
