"""The one function that says the state of a run: cases by name, and every combination by its rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from rltui.core.experiment.api import ComponentStatus, Down, HostStatus
from rltui.core.experiment.states import ALIVE_STATES, RUN_STATES, ComponentState
from rltui.core.runs.state import Verdict, is_expected, run_state

S = ComponentState
KINDS: tuple[tuple[ComponentState, dict[str, Any]], ...] = (
    (S.STOPPED, {}),
    (S.STOPPED, {"attempt": 1}),
    (S.WAITING, {"reason": "waits for inference"}),
    (S.STARTING, {"attempt": 1}),
    (S.READY, {"attempt": 1}),
    (S.READY, {"attempt": 1, "stalled": True, "evidence": "no output for 6m"}),
    (S.STOPPING, {"attempt": 1}),
    (S.EXITED, {"attempt": 1, "exit_code": 0}),
    (S.EXITED, {"attempt": 1, "exit_code": 0, "reason": "submitted job 7"}),
    (S.BACKOFF, {"attempt": 1, "reason": "exited 1"}),
    (S.FAILED, {"attempt": 1, "exit_code": 1, "reason": "exited 1"}),
    (S.FAILED, {"attempt": 1, "lost": True, "reason": "ended, exit code unknown"}),
)
"""All that a component can be."""
GOING_DOWN, DOWN = Down(by="ada", at=1.0), Down(by="ada", at=1.0, complete=True)


def inference(state: ComponentState = S.READY, **values: Any) -> ComponentStatus:
    return ComponentStatus(id="inference", kind="service", state=state, **{"attempt": 1, **values})


def job(id_: str, state: ComponentState = S.READY, **values: Any) -> ComponentStatus:
    return ComponentStatus(id=id_, state=state, **{"writes_run": True, "attempt": 1, **values})


def sft(state: ComponentState = S.READY, **values: Any) -> ComponentStatus:
    return job("sft", state, writes_run=False, prepares=True, **values)


PENDING = HostStatus(where="job 7", phase="pending", reason="waits for nodes", since=1.0)
NEVER = {"attempt": None}


@pytest.mark.parametrize(
    ("components", "facts", "state", "code", "named"),
    [
        ([inference(), job("trainer")], {}, "running", "jobs_run", ()),
        ([inference(), job("trainer", S.STARTING)], {}, "starting", "on_the_way", ("trainer",)),
        ([inference(S.WAITING), sft(), job("trainer", S.WAITING)], {}, "running", "prepares", ("sft",)),
        ([sft(S.WAITING), job("trainer", S.WAITING)], {}, "starting", "on_the_way", ("sft", "trainer")),
        ([inference(), job("trainer", host=PENDING)], {}, "starting", "on_the_way", ("trainer",)),
        ([inference(), job("trainer", S.BACKOFF)], {}, "starting", "backoff", ("trainer",)),
        ([inference(stalled=True), job("trainer")], {}, "stalled", "no_progress", ("inference",)),
        ([inference(), job("trainer", S.FAILED)], {}, "failed", "component_failed", ("trainer",)),
        ([inference(S.FAILED), job("trainer")], {}, "failed", "component_failed", ("inference",)),
        ([inference(S.STOPPING), job("trainer", S.STOPPED)], {}, "stopping", "stop_requested",
         ("inference",)),
        ([inference(), job("trainer")], {"down": GOING_DOWN}, "stopping", "down", ()),
        ([inference(S.STOPPED), job("trainer", S.STOPPED)], {"down": DOWN}, "stopped", "down", ()),
        ([inference(S.STOPPED), job("trainer", S.STOPPED)], {}, "stopped", "stop_requested", ()),
        ([inference(), job("trainer", S.STOPPED)], {}, "stopped", "still_up", ("inference",)),
        ([inference(S.STOPPED, **NEVER), job("trainer", S.STOPPED, **NEVER)], {}, "stopped",
         "never_started", ()),
        ([inference(), job("trainer", S.EXITED)], {}, "done", "still_up", ("inference",)),
        ([inference(S.FAILED), job("trainer", S.EXITED)], {}, "done", "steps_done", ()),
        ([job("trainer", S.STOPPED)], {"is_complete": True, "down": DOWN}, "done", "steps_done", ()),
        ([job("trainer", S.FAILED)], {"is_complete": True}, "failed", "component_failed", ("trainer",)),
        ([job("trainer", S.FAILED, lost=True)], {"is_complete": True}, "done", "steps_done", ()),
        ([job("trainer", S.FAILED, lost=True)], {}, "lost", "end_unseen", ("trainer",)),
        ([job("trainer", S.FAILED, lost=True)], {"down": DOWN}, "lost", "end_unseen", ("trainer",)),
        ([job("a", S.FAILED, lost=True), job("b", S.FAILED)], {}, "failed", "component_failed", ("b",)),
        ([job("rl", S.EXITED, reason="submitted job 7")], {}, "stopped", "handed_on", ("rl",)),
        ([inference()], {}, "running", "jobs_run", ()),
        ([inference(S.FAILED, lost=True)], {}, "lost", "end_unseen", ("inference",)),
        ([job("trainer", S.STOPPED), job("eval", S.FAILED, manual=True)], {}, "stopped",
         "stop_requested", ()),
        ([], {"is_growing": True}, "running", "observed", ()),
        ([], {"is_growing": False}, "stopped", "quiet", ()),
        ([], {"is_growing": False, "is_complete": True}, "done", "steps_done", ()),
    ],
)  # fmt: skip
def test_the_state_and_its_reason(
    components: list[ComponentStatus], facts: dict[str, Any], state: str, code: str, named: tuple[str, ...]
) -> None:
    found = run_state(components, **facts)
    assert (found.state, found.reason.code, found.reason.components) == (state, code, named)


def test_an_entry_of_the_queue_that_waits_says_more_than_an_end() -> None:
    failed = run_state([job("trainer", S.FAILED)])
    assert failed.in_queue("queued", "behind a").state == "queued"
    assert failed.in_queue("starting", "").state == "starting"
    assert failed.in_queue("running", "") == failed.in_queue("failed", "x") == failed
    just_made = run_state([], down=None)
    assert (just_made.state, just_made.in_queue("running", "").state) == ("stopped", "starting")


def combinations() -> Iterator[tuple[list[ComponentStatus], dict[str, Any], Verdict]]:
    """Every combination of a server and two jobs, of what is known of the steps, and of a `down`."""
    never: dict[str, Any] = {"attempt": None}
    servers = [inference(state, **{**never, **values}) for state, values in KINDS]
    jobs = [[job(id_, state, **{**never, **values}) for state, values in KINDS] for id_ in ("a", "trainer")]
    for parts in map(list, product(servers, *jobs)):
        for is_complete, down in product((False, True), (None, GOING_DOWN, DOWN)):
            facts: dict[str, Any] = {"is_complete": is_complete, "down": down}
            yield parts, facts, run_state(parts, **facts)


def test_every_combination_keeps_the_rules() -> None:
    seen: set[str] = set()
    for parts, facts, (state, reason) in combinations():
        case = ([(part.id, part.state, part.lost) for part in parts], facts, state, reason)
        jobs = parts[1:]
        failed = {part.id for part in parts if part.state is S.FAILED and not part.lost}
        goes_on = is_expected(jobs)
        seen.add(state)
        assert state in RUN_STATES, case
        assert set(reason.components) <= {part.id for part in parts}, case
        if facts["down"] is GOING_DOWN and is_expected(parts):
            assert state == "stopping", case
        elif state == "failed":
            assert set(reason.components) == failed, case
            assert all(name in reason.text for name in failed), case
        elif failed:
            assert state == "done", case
        if state == "done":
            assert not goes_on, case
            assert not failed & {part.id for part in jobs}, case
        if RUN_STATES[state].has_ended and state != "failed":
            assert not goes_on, case
        if state == "running":
            assert any(part.state in ALIVE_STATES for part in jobs), case
        if state == "lost":
            assert any(part.lost for part in parts), case
    assert seen == set(RUN_STATES) - {"queued"}
