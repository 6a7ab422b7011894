"""The state of a run and its reason: one pure function, which every place asks.

It decides by what is known of the components (by their supervisor, or by the files of their attempts), of the
steps, and of the entry of the queue. Words, signs and meanings: `core/experiment/states.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rltui.base.text import join_words
from rltui.core.experiment.states import ALIVE_STATES, ComponentState, EntryState, Reason, RunState

if TYPE_CHECKING:
    from rltui.core.experiment.api import ComponentStatus, Down  # msgspec takes 20 ms

FOLDER_GONE, FOLDER_DAMAGED = "folder_gone", "folder_damaged"
"""Codes of the reason of a run that cannot be read: its row holds what the index had."""
NO_ANSWER = "no_answer"
"""Code of the reason of a run whose supervisor does not answer."""
NEVER_STARTED = "never_started"
"""Code of the reason of a run none of whose components has been started."""
STILL_UP = "still_up"
"""Code of the reason where the run has ended and services are still up."""
_EXPECTED = ALIVE_STATES | {ComponentState.WAITING, ComponentState.BACKOFF}


class Verdict(NamedTuple):
    state: RunState
    reason: Reason = Reason()

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state, "reason": asdict(self.reason)}

    def in_queue(self, state: EntryState, why: str) -> Verdict:
        """The verdict on a run of which nothing lives, with its entry of the queue: one that waits, or is
        starting, says more than the end of an earlier attempt. A run that was just made has not started yet.
        """
        if state == "running" and self.reason.code == NEVER_STARTED:
            state = "starting"
        return Verdict(state, Reason("queue", why)) if state in ("queued", "starting") else self


def no_answer(pid: int) -> Reason:
    """The reason of a run whose supervisor, a process of that id, does not answer."""
    return Reason(NO_ANSWER, f"the supervisor, pid {pid}, does not respond")


def is_expected(components: Sequence[ComponentStatus]) -> bool:
    """True if something of the run lives, or will without a request."""
    return any(component.state in _EXPECTED for component in components)


def is_complete(step: int | None, max_steps: int | None) -> bool:
    """True if all steps are done, as far as their number is known."""
    return max_steps is not None and step is not None and step >= max_steps


def run_state(
    components: Sequence[ComponentStatus],
    *,
    is_complete: bool = False,
    down: Down | None = None,
    is_growing: bool | None = None,
) -> Verdict:
    """The state of a run.

    `components`: of its layout; manual ones do not count. `is_complete`: all its steps are done. `down`:
    whether and by whom it was taken down since its last start. `is_growing`: of a run that another program
    manages, whether its files grow; `None`: it is ours.
    """
    if is_growing is not None:
        return _observed(is_growing=is_growing, is_complete=is_complete)
    parts = [component for component in components if not component.manual]
    jobs = [part for part in parts if part.kind == "job"]
    is_under_way = is_expected(jobs or parts)
    still_up = tuple(part.id for part in parts if part.state in ALIVE_STATES and part.kind == "service")
    if down is not None and not down.complete and is_expected(parts):
        return Verdict("stopping", Reason("down", f"shut down by {down.by}"))
    if _are_done([job for job in jobs if job.writes_run], is_complete=is_complete):
        reason = Reason(STILL_UP, f"{join_words(still_up)} still up", still_up)
        return Verdict("done", reason if still_up else Reason("steps_done"))
    if failed := _of(parts, ComponentState.FAILED, is_lost=False):
        return Verdict("failed", _about(_first_code(failed, "component_failed"), failed))
    if backoff := _of(parts, ComponentState.BACKOFF):
        return Verdict("starting", _about(_first_code(backoff, "backoff"), backoff))
    if stalled := [part for part in parts if part.stalled and part.state in ALIVE_STATES]:
        texts = [f"{part.id}: {part.evidence or 'no sign of progress'}" for part in stalled]
        return Verdict("stalled", Reason("no_progress", "; ".join(texts), _ids(stalled)))
    if stopping := _of(parts, ComponentState.STOPPING):
        return Verdict("stopping", _about("stop_requested", stopping))
    if preparing := [part for part in parts if part.prepares and part.state is ComponentState.READY]:
        return Verdict("running", _about("prepares", preparing))
    if on_the_way := [part for part in parts if _is_on_the_way(part)]:
        return Verdict("starting", _about("on_the_way", on_the_way))
    return Verdict("running", Reason("jobs_run")) if is_under_way else _ended(parts, still_up, down)


def _observed(*, is_growing: bool, is_complete: bool) -> Verdict:
    if is_growing:
        return Verdict("running", Reason("observed", "its logs are growing"))
    return (
        Verdict("done", Reason("steps_done")) if is_complete else Verdict("stopped", Reason("quiet", "quiet"))
    )


def _are_done(run_jobs: Sequence[ComponentStatus], *, is_complete: bool) -> bool:
    """True if none of these goes on, and all steps are done, or all ended well and handed nothing on."""
    if not run_jobs or is_expected(run_jobs) or _of(run_jobs, ComponentState.FAILED, is_lost=False):
        return False
    return is_complete or all(job.state is ComponentState.EXITED and not job.reason for job in run_jobs)


def _ended(parts: Sequence[ComponentStatus], still_up: tuple[str, ...], down: Down | None) -> Verdict:
    started = [part for part in parts if part.attempt is not None]
    deciding = [part for part in started if part.kind == "job"] or started
    if lost := [part for part in deciding if part.lost]:
        text = f"how {join_words(_ids(lost))} ended is unknown: killed, or the machine was restarted"
        return Verdict("lost", Reason("end_unseen", text, _ids(lost)))
    if down is not None and not down.idle:
        return Verdict("stopped", Reason("down", f"shut down by {down.by}"))
    if still_up:
        return Verdict("stopped", Reason(STILL_UP, f"{join_words(still_up)} still up", still_up))
    if handed_on := [part for part in deciding if part.state is ComponentState.EXITED and part.reason]:
        return Verdict("stopped", _about("handed_on", handed_on))
    never = Reason(NEVER_STARTED, "never started")
    return Verdict("stopped", Reason("stop_requested", "stopped on request") if started else never)


def _is_on_the_way(part: ComponentStatus) -> bool:
    """True if it waits, starts, or its host has not begun to run it."""
    is_pending = part.host is not None and part.host.phase == "pending" and part.state in ALIVE_STATES
    return is_pending or part.state in (ComponentState.WAITING, ComponentState.STARTING)


def _of(
    parts: Sequence[ComponentStatus], *states: ComponentState, is_lost: bool | None = None
) -> list[ComponentStatus]:
    return [part for part in parts if part.state in states and is_lost in (None, part.lost)]


def _ids(parts: Sequence[ComponentStatus]) -> tuple[str, ...]:
    return tuple(part.id for part in parts)


def _first_code(parts: Sequence[ComponentStatus], default: str) -> str:
    """The code of these failed ones: of the first that did not fail for want of another."""
    codes = [part.code or default for part in parts]  # an older supervisor says none
    return next((code for code in codes if code != "dependency_failed"), codes[0])


def _about(code: str, parts: Sequence[ComponentStatus]) -> Reason:
    """The reasons of these components, as `trainer: killed by SIGKILL; inference: exited 1`."""
    reasons = {part.id: part.reason or (part.host.reason if part.host is not None else "") for part in parts}
    texts = [f"{id_}: {reason}" if reason else id_ for id_, reason in reasons.items()]
    return Reason(code, "; ".join(texts), _ids(parts))


# --- in words -----------------------------------------------------------------------------------------------


def state_text(state: str, reason: Reason) -> str:
    """The state as every place says it: `running`, `failed: trainer`, `done · inference still up`."""
    if state in ("failed", "stalled", "lost") and reason.components:
        return f"{state}: {', '.join(reason.components)}"
    return f"{state} · {reason.text}" if reason.code == STILL_UP else state
