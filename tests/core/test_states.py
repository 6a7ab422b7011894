"""The tables of states have a row for each, and nobody can mistake one for another."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.fakes.experiment import component, running_status

from rltui.core.queue import Outcome
from rltui.core.states import (
    COMPONENT_STATES,
    ENTRY_STATES,
    PENDING,
    RUN_STATES,
    ComponentState,
    EntryState,
    RunState,
    component_badge,
)


def test_every_state_has_a_row_and_a_sign_of_its_own() -> None:
    assert set(COMPONENT_STATES) == set(ComponentState)
    assert set(RUN_STATES) == set(get_args(RunState))
    assert set(ENTRY_STATES) == set(get_args(EntryState))
    for table in (COMPONENT_STATES, RUN_STATES, ENTRY_STATES):
        assert len({badge.sign for badge in table.values()}) == len(table)
        assert all(badge.word for badge in table.values())


def test_what_an_entry_comes_to_is_a_state_in_which_nothing_is_to_be_done() -> None:
    assert {state for state, badge in ENTRY_STATES.items() if not badge.is_open} == set(get_args(Outcome))


def test_a_component_that_its_host_does_not_run_yet_is_pending() -> None:
    assert component_badge("starting", {"phase": "pending"}) is PENDING
    assert component_badge("starting", {"phase": "running"}).word == "starting"
    assert component_badge("failed", {"phase": "pending"}).word == "failed"
    assert PENDING.sign == COMPONENT_STATES[ComponentState.WAITING].sign


def test_a_state_of_a_newer_supervisor_is_shown_by_its_name() -> None:
    badge = component_badge("hibernating", None)
    assert (badge.sign, badge.word) == ("?", "hibernating")


@pytest.mark.parametrize(
    ("states", "word"),
    [
        (("ready", "ready"), "running"),
        (("ready", "waiting"), "waiting"),
        (("starting", "ready"), "starting"),
        (("failed", "waiting"), "failed"),
    ],
)
def test_the_word_for_the_whole_experiment_is_what_most_needs_an_eye(
    states: tuple[str, str], word: str
) -> None:
    parts = tuple(component(f"c{at}", ComponentState(state)) for at, state in enumerate(states))
    status = running_status(components=parts)
    assert status.model_copy(update={"progress": type(status.progress)()}).word == word
