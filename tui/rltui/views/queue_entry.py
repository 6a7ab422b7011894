"""The queue, and its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core import hints
from rltui.core.states import ENTRY_STATES, PENDING, Badge
from rltui.core.text import duration

if TYPE_CHECKING:
    from rltui.core.queue import QueueEntry, RunQueue
    from rltui.core.runs import RunRow


QUEUE_HEAD = ("", "run", "state", "step", "reward", "what", "why")
"""Of `queue_cells`."""


def queue_order(queue: RunQueue) -> list[QueueEntry]:
    """What runs, what waits in the order in which it may start, what has ended, the newest first."""
    ended = sorted(
        (each for each in queue.entries if not each.is_open), key=lambda each: -(each.ended_at or 0.0)
    )
    going = [each for each in queue.entries if each.is_open]
    going.sort(key=lambda each: (ENTRY_STATES[each.state].rank, -each.priority))
    return [*going, *ended]


def queue_cells(entry: QueueEntry, row: RunRow | None, now: float) -> tuple[str, ...]:
    """A row of the queue. `row`: of its run, where there is one."""
    step = "" if row is None or row.step is None else str(row.step)
    if row is not None and step and row.max_steps:
        step += f"/{row.max_steps}"
    reward = "" if row is None or row.reward is None else f"{row.reward:.3f}"
    why = entry.why
    badge = entry_badge(entry)
    if entry.state == "waiting" and entry.not_before is not None and entry.not_before > now:
        why += f", in {duration(entry.not_before - now)}"
    return badge.sign, entry.name, badge.word, step, reward, entry.told, why


def entry_badge(entry: QueueEntry) -> Badge:
    """Its state; `pending` where SLURM has its job and does not run it yet."""
    is_pending = entry.is_job and entry.state == "running" and bool(entry.why)
    return PENDING if is_pending else ENTRY_STATES[entry.state]


def queue_notices(queue: RunQueue) -> list[str]:
    told = [f"⚠ {queue.told}"] if queue.told else []
    if queue.paused:
        told.append(f"paused, {queue.paused}; it goes on with: {hints.QUEUE_RESUME}")
    if queue.max_parallel is not None:
        told.append(f"at most {queue.max_parallel} at once: {hints.QUEUE_LIMIT}")
    return told
