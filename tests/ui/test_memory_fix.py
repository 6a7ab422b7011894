"""From an out-of-memory error to the edit that helps: what is shown, and what `F` asks for."""

from __future__ import annotations

from tests.fakes.experiment import component
from tests.ui.conftest import Opener, press, until
from tests.ui.trouble import REMEDIES, TRAINER_MEMORY, out_of_memory_status, with_out_of_memory

from rltui.core.api import Request
from rltui.core.states import ComponentState
from rltui.ui.screens.dialogs import ChoiceMenu, PlanDialog
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.panes import memory_notes

SHARE, LENGTH, _ = REMEDIES


def test_the_verdict_stands_in_place_of_the_reason() -> None:
    *_, trainer = out_of_memory_status(*REMEDIES).components
    verdict, first = memory_notes(trainer).plain.split("\n")
    assert verdict.startswith("✗ out of memory on GPU 1: tried to allocate 2.0 GiB")
    assert first == "→ F inference.gpu_memory_utilization 0.7 → 0.6 · or 2 more"
    assert memory_notes(trainer, readonly=True).plain.endswith(
        "\n→ inference.gpu_memory_utilization 0.7 → 0.6 · or 2 more"
    )
    assert not memory_notes(component("trainer", ComponentState.FAILED, reason="exited 1"))
    alone = component("trainer", ComponentState.FAILED, out_of_memory=TRAINER_MEMORY)
    assert "\n" not in memory_notes(alone).plain


async def test_the_only_remedy_is_planned_at_once_and_written_with_a_restart(open_app: Opener) -> None:
    experiment = with_out_of_memory(LENGTH)
    async with open_app(experiment) as pilot:
        await press(pilot, "t", "F")
        assert isinstance(pilot.app.screen, PlanDialog)
        assert pilot.app.screen.heading == "trainer.model.seq_len 4096 → 2048?"
        assert not experiment.executed
        await press(pilot, "y")
        await until(pilot, lambda: experiment.executed)
    expected = Request(action="set", edits={"trainer.model.seq_len": 2048}, restart=True)
    assert (experiment.planned, experiment.executed) == ([expected], [expected])


async def test_of_several_one_is_chosen_first(open_app: Opener) -> None:
    experiment = with_out_of_memory(*REMEDIES)
    async with open_app(experiment) as pilot:
        await press(pilot, "t", "F")
        assert isinstance(pilot.app.screen, ChoiceMenu)
        await press(pilot, "escape")
        assert not experiment.planned
        await press(pilot, "F", "enter", "y")
        await until(pilot, lambda: experiment.executed)
    assert experiment.executed == [
        Request(action="set", edits=SHARE.edits, components=("inference", "trainer"), restart=True)
    ]


async def test_an_upper_case_key_has_no_as_its_default(open_app: Opener) -> None:
    experiment = with_out_of_memory(LENGTH)
    async with open_app(experiment) as pilot:
        await press(pilot, "t", "F", "enter")
        assert not isinstance(pilot.app.screen, PlanDialog)
    assert not experiment.executed


async def test_without_a_remedy_the_key_does_nothing(open_app: Opener) -> None:
    experiment = with_out_of_memory()
    async with open_app(experiment) as pilot:
        await press(pilot, "t", "F", "i", "F")
        assert isinstance(pilot.app.screen, Overview)
    assert not experiment.planned


async def test_who_may_only_look_cannot_fix(open_app: Opener) -> None:
    experiment = with_out_of_memory(*REMEDIES, readonly=True)
    async with open_app(experiment) as pilot:
        await press(pilot, "t", "F")
        assert not isinstance(pilot.app.screen, ChoiceMenu)
    assert not experiment.planned
