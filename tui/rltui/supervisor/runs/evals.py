"""The queue of evaluations, and the standing order for checkpoints: one runs at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from rltui.core.runs.evals import EvalReport, EvalRequest, EvalTarget, Evaluation, QueuedEval, training_evals
from rltui.errors import ConfigError, RltuiError
from rltui.services.actor import acting_as, requester
from rltui.supervisor.events import EventBus
from rltui.supervisor.runs.eval_work import POLL_S, EvalWork


class EvalScheduler:
    """Owns the queue, and executes it."""

    def __init__(
        self,
        work: EvalWork,
        events: EventBus,
        *,
        may_start: Callable[[], bool],
        metrics: Callable[[], Mapping[int, Mapping[str, float]]] = dict,
    ) -> None:
        """`may_start` returns false once everything is being shut down. `metrics`: of the run, by step."""
        self._metrics = metrics
        self._work = work
        self._events = events
        self._may_start = may_start
        self._folder = work.folder
        self._queue = work.folder.queue()

    # --- requests -----------------------------------------------------------------------------------------

    @property
    def queue(self) -> tuple[QueuedEval, ...]:
        return self._queue.entries

    async def report(self) -> EvalReport:
        report = await asyncio.to_thread(self._folder.report, self._work.experiment, self._queue)
        return report.replace(training=training_evals(self._metrics()))

    async def enqueue(self, request: EvalRequest, *, by: str = "you") -> QueuedEval:
        """Append it to the queue. Raises what `EvalWork.complete_request` does."""
        request = await self._work.complete_request(request)
        id_ = await asyncio.to_thread(self._folder.new, self._queue)
        reason = "another evaluation" if self.queue else ""
        queued = QueuedEval(
            id=id_, request=request, by=by, actor=requester(), at=time.time(), env=request.env, why=reason
        )
        self._change(waiting=(*self._queue.waiting, queued))
        self._events.journal.add("eval", f"{queued.label} requested by {by}", id=id_, asked=True)
        self._work.notify()
        return queued

    async def cancel(self, id_: str) -> EvalReport:
        """Remove one from the queue, or end it if it runs.

        Raises:
            UsageError: if there is none of that id.
        """
        selected = self._queue.entry(id_)
        if selected.state == "running":
            await self._work.stop()
        else:
            self._change(waiting=tuple(entry for entry in self._queue.waiting if entry.id != id_))
            self._events.journal.add("eval", f"{selected.label} was cancelled", id=id_, asked=True)
        return await self.report()

    async def order(self, every: int, request: EvalRequest) -> EvalReport:
        """Evaluate one of `every` checkpoints from now on; 0: none.

        Raises:
            ConfigError, UsageError: as for `enqueue`.
        """
        if every:
            placeholder = {"target": EvalTarget(), "when_done": True}  # nothing of it need be there yet
            request = await self._work.complete_request(request.replace(**placeholder))
            request = request.replace(when_done=False)
        self._change(every=every, order=request, ordered_by=requester(), seen=0)
        text = (
            f"every {every} checkpoints are evaluated automatically"
            if every > 1
            else "every checkpoint is evaluated automatically"
        )
        self._events.journal.add("eval", text if every else "automatic evaluation is off", asked=True)
        return await self.report()

    async def checkpoint(self, step: int) -> None:
        """Called when a checkpoint is complete: evaluates it where the standing order says so."""
        queue = self._queue
        if not queue.every:
            return
        self._change(seen=queue.seen + 1)
        if self._queue.seen % queue.every:
            return
        by = "eval_every"
        target = EvalTarget(kind="checkpoint", step=step)
        with acting_as(queue.ordered_by):
            try:
                try:
                    await self.enqueue(queue.order.replace(target=target), by=by)
                except ConfigError:  # no weights are kept with it: those that the server has now are the same
                    await self.enqueue(queue.order.replace(target=EvalTarget()), by=by)
            except RltuiError as error:
                text = f"checkpoint {step} is not evaluated: {error.title}"
                self._events.journal.add("eval", text, asked=True)

    # --- the work -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        interrupted, evaluation = self._queue.running, self._queue.begun  # of an earlier supervisor
        if interrupted is not None and evaluation is not None:
            with acting_as(interrupted.actor):
                await self._execute(interrupted, evaluation)
        else:
            await self._work.stop()
            self._requeue(interrupted)
        while True:
            entry = self._next() if self._may_start() else None
            if entry is not None:
                with acting_as(entry.actor):
                    await self._execute(entry)
            else:
                await self._work.wait_for_change(None if not self._queue.waiting else POLL_S)

    def _next(self) -> QueuedEval | None:
        """The first whose turn it is; the others get the reason why they wait."""
        chosen, waiting = None, []
        for entry in self._queue.waiting:
            reason = "another evaluation" if chosen is not None else self._work.wait_reason(entry.request)
            chosen = entry if reason is None else chosen
            waiting.append(entry.replace(why=reason or ""))
        self._change(waiting=tuple(waiting))
        return chosen

    async def _execute(self, queued: QueuedEval, evaluation: Evaluation | None = None) -> None:
        """Run one from the queue to its record. `evaluation`: its record so far, where an earlier supervisor
        started its evaluator.
        """
        waiting = tuple(entry for entry in self._queue.waiting if entry.id != queued.id)
        started_at = queued.started_at or time.time()
        running = queued.replace(state="running", why="", started_at=started_at)
        self._change(waiting=waiting, running=running, begun=evaluation)
        failure = ""
        try:
            if evaluation is None:
                self._change(begun=await self._work.start(running, self._report))
            await self._work.wait_until_ended(running, self._queue.begun, self._report)
        except RltuiError as error:
            failure = error.title
        except Exception as error:
            await self._conclude(running, f"internal error: {error!r}")
            raise
        if self._may_start():
            await self._conclude(running, failure)
        else:  # everything is being taken down: it is done again when the experiment is up again
            self._requeue(queued)
        successor = self._queue.waiting[0] if self._queue.waiting else None
        if successor is None or successor.request.target != running.request.target:
            await self._work.stop()

    def _requeue(self, queued: QueuedEval | None) -> None:
        if queued is not None:
            entry = queued.replace(state="waiting", why="", started_at=None, done=0)
            self._change(waiting=(entry, *self._queue.waiting), running=None, begun=None)

    async def _conclude(self, running: QueuedEval, failure: str) -> None:
        await self._work.conclude(running, self._queue.begun, failure)
        self._change(running=None, begun=None)

    def _report(self, running: QueuedEval) -> None:
        self._change(running=running)

    def _change(self, **changes: object) -> None:
        previous, self._queue = self._queue, self._queue.replace(**changes)
        if self._queue != previous:
            self._folder.save_queue(self._queue)
            self._events.changed("status")
