"""The queue, and its entries."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rltui.core import hints
from rltui.core.states import ENTRY_STATES, PENDING, AnyBadge
from rltui.core.text import count_text, duration, size_text
from rltui.views.run import Details, step_text
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.queue import QueueEntry, RunQueue
    from rltui.core.runs import RunRow


class QueuedRun(NamedTuple):
    """An entry, and what is known of its run, where there is one."""

    entry: QueueEntry
    run: RunRow | None


def queued_runs(queue: RunQueue, run_of: Callable[[QueueEntry], RunRow | None]) -> list[QueuedRun]:
    """Running entries, then waiting ones in the order of their starts, then ended ones, the newest first.

    `run_of` is asked for entries that have started.
    """
    finished = sorted(
        (entry for entry in queue.entries if not entry.is_open), key=lambda entry: -(entry.ended_at or 0.0)
    )
    going = [entry for entry in queue.entries if entry.is_open]
    going.sort(key=lambda entry: (ENTRY_STATES[entry.state].rank, -entry.priority))
    return [
        QueuedRun(entry, None if entry.state == "waiting" else run_of(entry)) for entry in (*going, *finished)
    ]


def _reward_text(queued: QueuedRun, _: float) -> str:
    run = queued.run
    return "" if run is None or run.reward is None else f"{run.reward:.3f}"


def _reason_text(queued: QueuedRun, now: float) -> str:
    entry = queued.entry
    is_later = entry.state == "waiting" and entry.not_before is not None and entry.not_before > now
    return f"{entry.why}, in {duration((entry.not_before or now) - now)}" if is_later else entry.why


VIEW: View[QueuedRun] = View(
    key=lambda queued: queued.entry.id,
    columns=(
        Column(
            "sign",
            lambda queued, _: Cell((badge := entry_badge(queued.entry)).sign, badge.role),
            heading="",
        ),
        Column("run", lambda queued, _: queued.entry.name, least=14, cut="middle"),
        Column("state", lambda queued, _: entry_badge(queued.entry).word),
        Column(
            "step",
            lambda queued, _: "" if queued.run is None else step_text(queued.run),
            is_right=True,
            goes=3,
        ),
        Column("reward", _reward_text, is_right=True, goes=2),
        Column("what", lambda queued, _: queued.entry.told, least=12, goes=1),
        Column("why", _reason_text, least=14),
    ),
)


def entry_details(entry: QueueEntry, now: float) -> Details:
    """All that is known of one: its reason, what differs, what it needs, what starts it, its folder."""
    overrides = ["--", *entry.overrides] if entry.overrides else []
    needs = [count_text(entry.gpus, "GPU")] if entry.gpus else []
    needs += [f"{size_text(entry.gpu_bytes)} on each"] if entry.gpu_bytes else []
    needs += [f"on GPU {entry.devices}"] if entry.devices else []
    if entry.retries:
        failed = f", {entry.failures} failed" if entry.failures else ""
        needs.append(f"{entry.retries + 1} tries{failed}")
    needs += [f"priority {entry.priority}"] if entry.priority else []
    return [
        ("why", [entry.why]),
        ("sweep", [entry.group]),
        ("changed", [entry.told]),
        ("needs", needs),
        ("stops if", entry.stop_if),
        ("queued", [f"{duration(now - entry.added_at)} ago"]),
        ("command", [f"rltui up {shlex.join([*entry.words, *overrides])}"]),
        ("folder", [entry.folder]),
    ]


def queue_counts(queue: RunQueue) -> list[str]:
    """`2 run`, `1 pending`, `4 wait`, `1 failed`: those of which there are any."""
    entries = queue.entries
    pending = sum(entry_badge(entry) is PENDING for entry in entries)
    counts = {
        "run": sum(ENTRY_STATES[entry.state].holds_devices for entry in entries) - pending,
        "pending": pending,
        "wait": sum(entry.state == "waiting" for entry in entries),
        "failed": sum(entry.state == "failed" for entry in entries),
    }
    return [f"{count} {state}" for state, count in counts.items() if count]


def entry_badge(entry: QueueEntry) -> AnyBadge:
    """The badge of its state; `pending` where SLURM has its job and does not run it yet."""
    is_pending = entry.is_job and entry.state == "running" and bool(entry.why)
    return PENDING if is_pending else ENTRY_STATES[entry.state]


def queue_notices(queue: RunQueue) -> list[str]:
    notices = [f"⚠ {queue.told}"] if queue.told else []
    if queue.paused:
        notices.append(f"paused, {queue.paused}; it goes on with: {hints.QUEUE_RESUME}")
    if queue.max_parallel is not None:
        notices.append(f"at most {queue.max_parallel} at once: {hints.QUEUE_LIMIT}")
    return notices
