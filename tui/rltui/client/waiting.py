"""Waits for a condition on runs: at the events of their supervisors, or of the queue's file before these."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

from rltui import paths
from rltui.base.text import join_words, truncate, unknown_name
from rltui.base.times import Moment
from rltui.base.values import Value
from rltui.client import launch
from rltui.client.experiment import ShutDownError
from rltui.client.series import current_series
from rltui.client.transports.supervisor import SupervisorClient
from rltui.client.transports.unix import SupervisorGoneError, Wire
from rltui.core.experiment.api import AgentProposal, AlertKind, Status
from rltui.core.experiment.cursor import Cursor, cursor_of, index_since
from rltui.core.experiment.events import display_kind, entry_data, first_line
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.states import RUN_STATES, ComponentState, RunState
from rltui.core.logs.source import LogChange
from rltui.core.metrics.names import CONCEPTS, concept_of, find
from rltui.core.metrics.selection import full_name
from rltui.core.metrics.series import SeriesKey
from rltui.core.runs.conditions import Condition, Term
from rltui.core.runs.queue import QueueEntry
from rltui.core.runs.state import state_text
from rltui.errors import RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.journal import read_entries
from rltui.services.experiment.proposals import proposals_file, read_proposals
from rltui.services.experiment.registry import find_experiment
from rltui.services.metrics.store import SeriesReader
from rltui.services.own_files import file_fingerprint
from rltui.services.runs.queue_file import read_queue

WaitEnd = Literal["reached", "timeout", "run_ended", "run_failed", "supervisor_gone"]
"""Codes of the reason that ends a wait."""
_ADOPTION_S, _RETRY_S = 4.0, 0.2
"""Time in which a successor may take over from a supervisor that died, and the interval of attempts."""
_QUEUE_S = 0.25
"""Interval of looks at the queue's file, which its scheduler has, too."""
_MOST_EVENTS, _EVENT_CHARS = 3, 160
_ON_THE_WAY = frozenset(
    {ComponentState.WAITING, ComponentState.STARTING, ComponentState.STOPPING, ComponentState.BACKOFF}
)
_OF_STATUS = ("step", "reward", "max_steps")
"""Figures that the status has."""


class EndReason(Value, kw_only=False):
    code: str
    """A `WaitEnd`; of the queue also `queue`."""
    text: str


class WaitEvent(Value, omit_defaults=True):
    """An event since the wait began."""

    at: float
    kind: str
    text: str
    component: str | None = None
    step: int | None = None


class WaitAnswer(Value):
    """`rltui wait`: why it ended, and the run that ended it as it was then."""

    reached: bool
    until: str
    reason: EndReason
    run: str
    state: RunState | None = None
    step: int | None = None
    reward: float | None = None
    events: tuple[WaitEvent, ...] = ()
    """The newest ones since the wait began, or since the cursor that was given."""
    left_out: int = 0
    """Number of earlier events since then."""
    cursor: str = ""
    """Cursor of events after these."""
    waited_s: float = 0.0


Awaited = ExperimentRecord | QueueEntry
"""A run, or one that the queue has yet to make."""


def awaited(name: str, find: Callable[[str], ExperimentRecord]) -> Awaited:
    """The run that is named, as `find` finds it; else one that the queue has yet to make.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    try:
        return find(name)
    except UsageError:
        for entry in read_queue().entries:
            if entry.is_open and name in (entry.name, entry.id) and find_experiment(entry.name) is None:
                return entry
        raise


async def wait_until(
    runs: Sequence[Awaited],
    condition: Condition,
    *,
    timeout_s: float | None = None,
    since: Moment | Cursor | None = None,
) -> WaitAnswer:
    """Return once one of the runs meets the condition, fails, or loses its supervisor; or none can meet it.

    `since`: events after it count, too.

    Raises:
        UsageError: if the condition names what does not exist, or no run has the cursor.
    """
    started_at = time.monotonic()
    watches = [_RunWatch(run, condition) for run in runs]
    _check_names(condition, watches)
    if since is not None:
        _go_back(watches, since)
    watch, reason = watches[0], EndReason("timeout", f"not reached within {timeout_s or 0:g} s")
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            watch, reason = await _first_end(watches)
    return watch.answer(reason, time.monotonic() - started_at)


class QueueAnswer(Value):
    """`rltui queue wait`: why it ended, and its runs as they were then."""

    reached: bool
    until: str = "ended"
    reason: EndReason
    runs: tuple[dict[str, Any], ...] = ()
    """`run`, `state`, `step` and `reward` of each entry, in their order."""
    waited_s: float = 0.0


async def wait_for_entries(
    ids: Sequence[str], *, timeout_s: float | None = None
) -> tuple[EndReason, tuple[QueueEntry, ...]]:
    """Return once all of these entries of the queue have ended, or it is paused and none runs; with those
    that are still listed.
    """
    reason = EndReason("timeout", f"not ended within {timeout_s or 0:g} s")
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            reason = await _end_of_entries(ids)
    return reason, tuple(entry for entry in read_queue().entries if entry.id in ids)


async def _end_of_entries(ids: Sequence[str]) -> EndReason:
    before: object = ...
    while True:
        now = file_fingerprint(paths.queue_file())
        if now == before:
            await asyncio.sleep(_QUEUE_S)
            continue
        before, queue = now, read_queue()
        entries = [entry for entry in queue.entries if entry.id in ids]
        pending = [entry for entry in entries if entry.is_open]
        if not pending:
            failed = [entry.name for entry in entries if RUN_STATES[entry.state].is_failure]
            text = f"failed: {join_words(failed)}" if failed else "all have ended"
            return EndReason("run_failed" if failed else "reached", text)
        if queue.paused and all(entry.state == "queued" for entry in pending):
            return EndReason("queue", f"the queue is paused, and {len(pending)} would wait on")


async def _first_end(watches: Sequence[_RunWatch]) -> tuple[_RunWatch, EndReason]:
    """The first run that ends the wait. One that can no longer meet the condition does if it is the last."""
    remaining = {asyncio.create_task(watch.run()) for watch in watches}
    try:
        while True:
            finished, remaining = await asyncio.wait(remaining, return_when=asyncio.FIRST_COMPLETED)
            ends = [task.result() for task in finished]
            decisive = next((end for end in ends if end[1].code != "run_ended"), None)
            if decisive or not remaining:
                return decisive or ends[0]
    finally:
        for task in remaining:
            task.cancel()


def _go_back(watches: Sequence[_RunWatch], since: Moment | Cursor) -> None:
    """Let events from there on count, after a cursor in the runs that have it.

    Raises:
        UsageError: if none has it.
    """
    errors = []
    for watch in watches:
        try:
            watch.go_back(since)
        except UsageError as error:
            errors.append(error)
    if len(errors) == len(watches):
        raise errors[0]


def _check_names(condition: Condition, watches: Sequence[_RunWatch]) -> None:
    """Refuse what would be waited for in vain.

    Raises:
        UsageError: for an unknown metric, kind of alert, or proposal.
    """
    for term in condition.terms:
        ids = [item.id for watch in watches for item in watch.proposals()] if term.name == "proposal" else []
        if term.name == "proposal" and not term.sign and term.subject not in ids:
            raise unknown_name("proposal", term.subject, ids)
        if term.name == "alert" and term.subject:
            from rltui.core.metrics.health.thresholds import RuleId  # pydantic

            kinds = (*get_args(AlertKind), *get_args(RuleId))
            if term.subject not in kinds:
                raise unknown_name("kind of alert", term.subject, kinds)
        is_known = not term.sign or term.name in _OF_STATUS or concept_of(term.name) is not None
        if not is_known and not any(watch.series_key(term.name) for watch in watches):
            names = dict.fromkeys((*_OF_STATUS, *(concept.id for concept in CONCEPTS)))
            raise unknown_name("metric", term.name, names)


class _RunWatch:
    """Follows one run until it ends the wait."""

    def __init__(self, run: Awaited, condition: Condition) -> None:
        self._name, self._condition = run.name, condition
        self._record = run if isinstance(run, ExperimentRecord) else None
        self._entry = run.id if isinstance(run, QueueEntry) else ""
        """Id in the queue of a run that is yet to be made."""
        self._status: Status | None = None
        self._series: SeriesReader | None = None
        self._points: dict[SeriesKey, tuple[int, float | None]] = {}
        """Key → number of points read, and the newest value."""
        entries = self._journal()
        self._start = cursor_of(entries[-1]) if entries else Cursor("events")
        self._entries: dict[Cursor, Mapping[str, Any]] = {}
        """Return the events after the start, oldest first."""

    def go_back(self, since: Moment | Cursor) -> None:
        """Let the events from there on count.

        Raises:
            UsageError: if the cursor is not in the journal.
        """
        entries = self._journal()
        first = index_since(entries, since)
        self._start = cursor_of(entries[first - 1]) if first else Cursor("events")

    def _journal(self) -> list[dict[str, Any]]:
        return [] if self._record is None else [*read_entries(self._record.control.journal_file)]

    def answer(self, reason: EndReason, waited_s: float) -> WaitAnswer:
        status, entries = self._status, list(self._entries.values())
        events = tuple(_event(entry) for entry in entries[-_MOST_EVENTS:])
        return WaitAnswer(
            reached=reason.code == "reached",
            until=self._condition.text,
            reason=reason,
            run=self._name,
            state=None if status is None else status.state,
            step=None if status is None else status.step,
            reward=None if status is None or status.reward is None else round(status.reward, 4),
            events=events,
            left_out=len(entries) - len(events),
            cursor=str(next(reversed(self._entries), self._start)),
            waited_s=round(waited_s, 1),
        )

    # --- following ------------------------------------------------------------------------------------------

    async def run(self) -> tuple[_RunWatch, EndReason]:
        before: object = ...
        while True:
            now = self._fingerprint()
            if now == before:  # nothing lives, so that nobody else tells of it
                await asyncio.sleep(_QUEUE_S)
                continue
            self._record = self._record or find_experiment(self._name)
            if record := self._record:
                is_supervised = await asyncio.to_thread(self._connect, record)
                self._catch_up()
                end = await self._follow(record) if is_supervised else self._judge()
            else:
                is_supervised, end = False, self._removed()
            if end is not None:
                return self, end
            before = ... if is_supervised else now

    def _fingerprint(self) -> list[object]:
        """State of the files that others change before a supervisor lives: the queue's, that of proposals."""
        files = [paths.queue_file()]
        if self._record is not None:
            files.append(proposals_file(self._record.control.path))
        return [*map(file_fingerprint, files)]

    def _removed(self) -> EndReason | None:
        """The end of a run that the queue will not make any more."""
        entry = read_queue().entry(self._entry)
        if entry is not None and entry.is_open:
            return None
        is_failure = entry is not None and RUN_STATES[entry.state].is_failure
        text = "it was removed from the queue" if entry is None else f"{entry.state}: {entry.why}"
        return EndReason("run_failed" if is_failure else "run_ended", truncate(text, _EVENT_CHARS))

    def _connect(self, record: ExperimentRecord) -> bool:
        """True if it has a supervisor, also one that was just started to adopt what lives; else its status is
        read from its files.
        """
        connection = launch.wire_or_status(record)
        if isinstance(connection, Wire):
            connection.close()
            return True
        self._status = _read_status(record) if connection is None else Status.from_plain(connection)
        return False

    async def _follow(self, record: ExperimentRecord) -> EndReason | None:
        """Follow its supervisor; `None` if another took over, or the run was shut down."""
        try:
            async for event in SupervisorClient(record, may_start=False).events():
                if isinstance(event, Status):
                    self._status = event
                elif isinstance(event, JournalEntry):
                    self._add([event.to_plain()])
                if isinstance(event, Status | JournalEntry) and (end := self._judge()) is not None:
                    return end
        except ShutDownError:
            return None
        except (SupervisorGoneError, OSError):
            pass  # it died; below, a successor is waited for, and its events are read from the journal
        except RltuiError:  # there is none any more: it could not be started for who only looks
            if launch.has_supervisor(record):
                raise
        until = time.monotonic() + _ADOPTION_S
        while not launch.has_supervisor(record):
            if time.monotonic() > until:
                self._status = await asyncio.to_thread(_read_status, record)
                self._catch_up()
                died = EndReason("supervisor_gone", "the supervisor ended; the components keep running")
                return died if self._status.alive else self._judge()
            await asyncio.sleep(_RETRY_S)
        return None

    def _catch_up(self) -> None:
        """Add the events that were written while nobody sent them."""
        entries = self._journal()
        with suppress(UsageError):  # the journal was replaced meanwhile: what comes now is sent
            self._add(entries[index_since(entries, self._start) :])

    def _add(self, entries: Iterable[Mapping[str, Any]]) -> None:
        for entry in entries:
            self._entries.setdefault(cursor_of(entry), entry)

    # --- judging --------------------------------------------------------------------------------------------

    def _judge(self) -> EndReason | None:
        """Return the reason why the wait ends now; `None` while it continues."""
        status = self._status
        if status is None:
            return None
        if terms := self._condition.met(self._holds):
            return EndReason("reached", join_words([self._term_text(term) for term in terms]))
        badge = RUN_STATES[status.state]
        asked = {term.subject for term in self._condition.terms if term.name == "proposal"}
        is_asked = any(item.id in asked and item.state == "open" for item in self.proposals())
        if not badge.has_ended or status.transaction is not None or is_asked:
            return None
        text = f"the run is {state_text(status.state, status.reason)}"
        if status.reason.text and status.reason.text not in text:
            text += f" ({truncate(status.reason.text, _EVENT_CHARS)})"
        if status.step is not None:
            text += f" at step {status.step}"
        return EndReason("run_failed" if badge.is_failure else "run_ended", text)

    def _holds(self, term: Term) -> bool:
        assert self._status is not None
        status, state = self._status, self._status.state
        if term.sign:
            return term.compares(self._figure(term.name))
        match term.name:
            case "done":
                return state == "done"
            case "failed":
                return RUN_STATES[state].is_failure and status.transaction is None
            case "ready":
                return self._is_ready()
            case "settled":
                return state not in ("queued", "starting", "stopping") and self._is_settled()
            case "proposal":
                return self._answer(term.subject) != ""
            case _:
                return any(_is_alert(entry, term.subject) for entry in self._entries.values())

    def proposals(self) -> Sequence[AgentProposal]:
        return () if self._record is None else read_proposals(self._record.control.path).proposals

    def _answer(self, id_: str) -> str:
        """The answer to a proposal, with its word; empty while it is open."""
        proposal = next((item for item in self.proposals() if item.id == id_), None)
        if proposal is None or proposal.state == "open":
            return ""
        return ": ".join(filter(None, (proposal.state, proposal.word)))

    def _is_settled(self) -> bool:
        assert self._status is not None
        is_on_the_way = any(component.state in _ON_THE_WAY for component in self._status.components)
        return self._status.transaction is None and not is_on_the_way

    def _is_ready(self) -> bool:
        """All its components are up, or have done their work."""
        assert self._status is not None
        parts = [part for part in self._status.components if not part.manual]
        up = (ComponentState.READY, ComponentState.EXITED)
        is_pending = any(part.host is not None and part.host.phase == "pending" for part in parts)
        is_up = all(part.state in up for part in parts) and not is_pending
        return self._status.state in ("running", "stalled") and is_up and self._is_settled()

    def _term_text(self, term: Term) -> str:
        """Describe a term as it is true now: `reward>0.9: 0.912`."""
        if term.name == "proposal" and not term.sign:
            return f"{term.text} {self._answer(term.subject)}"
        value = self._figure(term.name) if term.sign else None
        return term.text if value is None else f"{term.text}: {value:g}"

    def _figure(self, name: str) -> float | None:
        """The newest value of a metric."""
        if name in _OF_STATUS:
            value: float | None = getattr(self._status, name)
            return value
        key = self.series_key(name)
        if key is None or self._series is None:
            return None
        count, last = self._points.get(key, (0, None))
        new = self._series.read(key, count)
        last = next((value for value in reversed(new.values) if math.isfinite(value)), last)
        self._points[key] = count + len(new), last
        return last

    def series_key(self, name: str) -> SeriesKey | None:
        """The series of a concept, or of a name that the program gave it, as of now."""
        if self._record is None:
            return None
        if self._series is None:
            self._series = current_series(self._record)
        elif self._series.poll() is LogChange.RESET:
            self._points.clear()
        keys = self._series.keys()
        named = (key for key in keys if name in (key.name, full_name(key)))
        return find(name, keys) if concept_of(name) is not None else next(named, None)


def _read_status(record: ExperimentRecord) -> Status:
    from rltui.client.reader import ExperimentReader  # knows the frameworks

    return ExperimentReader(record).status()


def _is_alert(entry: Mapping[str, Any], kind: str) -> bool:
    data = entry_data(entry)
    return entry["kind"] == "alert" and kind in ("", data.get("alert"), data.get("rule"))


def _event(entry: Mapping[str, Any]) -> WaitEvent:
    step, component = entry.get("step"), entry.get("component")
    return WaitEvent(
        at=round(entry["at"], 1),
        kind=display_kind(entry["kind"], entry_data(entry)),
        text=truncate(first_line(entry["text"]), _EVENT_CHARS),
        component=component if isinstance(component, str) else None,
        step=step if isinstance(step, int) else None,
    )
