"""The tables of states have a row for each, and nobody can mistake one for another."""

from __future__ import annotations

from typing import get_args

from rltui.core.experiment.states import (
    COMPONENT_STATES,
    ENTRY_STATES,
    PENDING,
    RUN_STATES,
    SHOWN_COMPONENT_STATES,
    AnyBadge,
    ComponentState,
    EntryState,
    RunState,
    component_badge,
)
from rltui.core.runs.queue import Outcome


def test_every_state_has_a_row_and_a_sign_of_its_own() -> None:
    assert set(COMPONENT_STATES) == set(ComponentState)
    assert set(RUN_STATES) == set(get_args(RunState))
    assert set(ENTRY_STATES) == set(get_args(EntryState))
    assert set(ENTRY_STATES) < set(RUN_STATES)
    for table in (COMPONENT_STATES, RUN_STATES):
        assert len({badge.sign for badge in table.values()}) == len(table)
        assert all(badge.word for badge in table.values())


def test_one_word_has_one_sign_and_one_role() -> None:
    """The queue said `■ stopped` where all others said `○`."""
    looks: dict[str, set[tuple[str, str]]] = {}
    badges: list[AnyBadge] = [*SHOWN_COMPONENT_STATES, *RUN_STATES.values()]
    for badge in badges:
        looks.setdefault(badge.word, set()).add((badge.sign, badge.role))
    assert {word: look for word, look in looks.items() if len(look) > 1} == {}


def test_what_an_entry_comes_to_is_a_state_in_which_nothing_is_to_be_done() -> None:
    assert {state for state, badge in ENTRY_STATES.items() if not badge.is_open} == set(get_args(Outcome))


def test_a_component_that_its_host_does_not_run_yet_is_pending() -> None:
    assert component_badge({"state": "starting", "host": {"phase": "pending"}}) is PENDING
    assert component_badge({"state": "starting", "host": {"phase": "running"}}).word == "starting"
    assert component_badge({"state": "failed", "host": {"phase": "pending"}}).word == "failed"
    assert PENDING.sign == COMPONENT_STATES[ComponentState.WAITING].sign


def test_a_job_that_runs_is_running_and_a_service_is_ready() -> None:
    """Finding U15: `sft ● running 0s` of a job."""
    assert component_badge({"state": "ready", "kind": "job"}).word == "running"
    assert component_badge({"state": "ready", "kind": "service"}).word == "ready"
    assert component_badge({"state": "failed", "lost": True}).word == "lost"


def test_a_state_of_a_newer_supervisor_is_shown_by_its_name() -> None:
    badge = component_badge({"state": "hibernating"})
    assert (badge.sign, badge.word) == ("?", "hibernating")
