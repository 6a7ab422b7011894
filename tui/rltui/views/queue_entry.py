"""The queue, and its entries."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rltui.base.text import count_text, duration, size_text
from rltui.core import hints
from rltui.core.experiment.states import ENTRY_STATES, RETRYING, RUN_STATES, Reason
from rltui.core.runs.state import Verdict, state_text
from rltui.views.experiment import badge_of, step_text
from rltui.views.run import Details
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.runs.queue import QueueEntry, RunQueue
    from rltui.core.runs.row import RunRow


class QueuedRun(NamedTuple):
    """An entry, and what is known of its run, where there is one."""

    entry: QueueEntry
    run: RunRow | None

    @property
    def verdict(self) -> Verdict:
        """The state of its run, as all other places say it; of the entry, where it has no run yet."""
        run, entry = self.run, self.entry
        if run is None or run.entry != entry.id:
            is_pending = entry.is_job and entry.state == "running" and bool(entry.why)  # SLURM has its job
            return Verdict("starting" if is_pending else entry.state, Reason("queue", entry.why))
        verdict = Verdict(run.state, run.reason)
        return verdict if run.is_alive else verdict.in_queue(entry.state, entry.why)


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
        QueuedRun(entry, None if entry.state == "queued" else run_of(entry)) for entry in (*going, *finished)
    ]


def _reward_text(queued: QueuedRun, _: float) -> str:
    run = queued.run
    return "" if run is None or run.reward is None else f"{run.reward:.3f}"


def _reason_text(queued: QueuedRun, now: float) -> str:
    entry = queued.entry
    reason = entry.why or queued.verdict.reason.text
    pause = (entry.not_before or now) - now
    is_retrying = entry.state == "queued" and reason.endswith(RETRYING) and pause > 0
    return f"{reason} in {duration(pause)}" if is_retrying else reason


VIEW: View[QueuedRun] = View(
    key=lambda queued: queued.entry.id,
    columns=(
        Column(
            "sign",
            lambda queued, _: Cell((badge := badge_of(queued.verdict.state)).sign, badge.role),
            heading="",
        ),
        Column("run", lambda queued, _: queued.entry.name, least=14, cut="middle"),
        Column("state", lambda queued, _: state_text(*queued.verdict)),
        Column(
            "step",
            lambda queued, _: "" if queued.run is None else step_text(queued.run.step, queued.run.max_steps),
            is_right=True,
            goes=3,
        ),
        Column("reward", _reward_text, is_right=True, goes=2),
        Column("what", lambda queued, _: queued.entry.told, least=12, goes=1),
        Column("why", _reason_text, least=14),
    ),
)


def entry_document(entry: QueueEntry) -> dict[str, Any]:
    """The entry for programs: its request in the words of the command line, a fork as what it changes."""
    names = (name for name in entry.__struct_fields__ if name != "request")
    return {**entry.part(*names), "fork": _fork(entry)}


def entry_details(entry: QueueEntry, now: float) -> Details:
    """Return the details of an entry: its reason, what differs, what it needs, what starts it, its folder."""
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
        ("added", [f"{duration(now - entry.added_at)} ago{f' by {entry.by.short}' if entry.by else ''}"]),
        ("command", [f"rltui {shlex.join(_command(entry))}"]),
        ("folder", [entry.folder]),
    ]


def _fork(entry: QueueEntry) -> dict[str, Any] | None:
    """Parent, edits and step; `None` for an entry that is no fork."""
    request = entry.request
    if request is None or not request.origin.parent:
        return None
    origin = request.origin
    return {"parent": origin.parent, "edits": dict(request.config.edits), "step": origin.parent_step}


def _command(entry: QueueEntry) -> list[str]:
    if (fork := _fork(entry)) is not None:
        begin = [] if fork["step"] is None else ["--from", str(fork["step"])]
        edits = (word for key, value in fork["edits"].items() for word in ("--set", f"{key}={value}"))
        return ["fork", fork["parent"], *begin, *edits]
    return ["up", *entry.words, *(["--", *entry.overrides] if entry.overrides else [])]


def queue_counts(queued: Iterable[QueuedRun]) -> list[str]:
    """`2 running`, `4 queued`, `1 failed`: states of which there are any."""
    counts = Counter(item.verdict.state for item in queued)
    return [f"{counts[state]} {badge.word}" for state, badge in RUN_STATES.items() if counts[state]]


def queue_notices(queue: RunQueue, resume: str = "") -> list[str]:
    """`resume`: what lets the queue go on, in a sentence; empty: the command."""
    notices = [f"⚠ {queue.told}"] if queue.told else []
    if queue.paused:
        notices.append(f"Paused: {queue.paused}. {resume or f'To resume: {hints.QUEUE_RESUME}'}")
    if queue.max_parallel is not None:
        notices.append(f"at most {queue.max_parallel} at a time; change: {hints.QUEUE_LIMIT}")
    return notices
