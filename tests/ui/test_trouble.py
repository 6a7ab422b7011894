"""What a person can do about trouble: retries, leftovers, and looking without touching."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import (
    LOGS,
    NO_GPU,
    NOW,
    ORPHANS,
    FakeExperiment,
    component,
    knob_table,
    running_status,
    stopped_status,
)
from tests.ui.conftest import Opener, forget, offered, press, said, screen_text, settle, until
from tests.ui.trouble import STALL_EVIDENCE, backoff_status, orphans_status, stalled_status, waiting_status
from textual.pilot import Pilot
from textual.widgets import Button, Static

from rltui.core.experiment.api import Alert, Plan, Request, Status
from rltui.core.experiment.states import ComponentState
from rltui.ui.actions import KeyContext, changing_keys, uses
from rltui.ui.dialogs.base import MessageDialog, PlanDialog
from rltui.ui.requests import READONLY_TEXT
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.bars import OrphanBar, footer_entries, footer_line, header_line
from rltui.ui.widgets.knob_table import KnobRows

PIDS = tuple(orphan.pid for orphan in ORPHANS)


def overview(pilot: Pilot[None]) -> Overview:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, Overview))


def footer(pilot: Pilot[None], width: int = 200) -> str:
    return footer_line(footer_entries(overview(pilot).active_bindings), width).plain


def below(pilot: Pilot[None], component_id: str) -> str:
    pane = overview(pilot).panels.body.reader(component_id)
    assert pane is not None
    reason = pane.query_one(".reason", Static)
    return str(reason.content) if reason.region else ""


async def test_the_countdown_goes_on_by_itself(open_app: Opener) -> None:
    clock = [NOW]
    async with open_app(FakeExperiment(backoff_status()), clock=lambda: clock[0]) as pilot:
        pane = overview(pilot).panels.body.reader("trainer")
        assert pane is not None
        assert "↻ backoff 12s" in str(pane.log_pane.border_title)
        clock[0] += 5
        overview(pilot).update_ages()
        assert "↻ backoff 7s" in str(pane.log_pane.border_title)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=str)
async def test_the_whole_reason_can_be_read(size: tuple[int, int], open_app: Opener) -> None:
    async with open_app(FakeExperiment(waiting_status(), NO_GPU, knob_table()), size=size) as pilot:
        pane = overview(pilot).panels.body.reader("inference")
        assert pane is not None
        shown = f"{pane.log_pane.border_title} {below(pilot, 'inference')}"
        for part in ("GPU 0", "needs 71.9 GiB free", "held by pid 4711 VLLM::EngineCore", "5120 python"):
            assert part in shown
        reason = pane.query_one(".reason", Static)
        assert reason.virtual_size.height <= reason.region.height, "nothing is cut off"


async def test_a_reason_moves_with_the_room(open_app: Opener) -> None:
    async with open_app(FakeExperiment(backoff_status(), NO_GPU, knob_table()), size=(40, 24)) as pilot:
        assert below(pilot, "trainer") == "↻ exited 1; failure 1 of 3"
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not below(pilot, "trainer"))


async def test_evidence_of_a_stall_goes_with_it(open_app: Opener) -> None:
    experiment = FakeExperiment(stalled_status())
    async with open_app(experiment) as pilot:
        assert below(pilot, "inference") == f"⚠ {STALL_EVIDENCE}"
        experiment.push(running_status())
        await until(pilot, lambda: not below(pilot, "inference"))


@pytest.mark.parametrize("size", [(80, 24), (1, 1)], ids=str)
async def test_leftovers_show_until_they_are_gone(size: tuple[int, int], open_app: Opener) -> None:
    experiment = FakeExperiment(orphans_status())
    async with open_app(experiment, size=size) as pilot:
        bar = overview(pilot).query_one(OrphanBar)
        assert bar.display
        experiment.push(running_status())
        await until(pilot, lambda: not bar.display)
        assert not bar.region


async def test_leftovers_grow_older_on_the_screen(open_app: Opener) -> None:
    clock = [NOW]
    async with open_app(FakeExperiment(orphans_status()), size=(200, 50), clock=lambda: clock[0]) as pilot:
        bar = overview(pilot).query_one(OrphanBar)
        assert "VLLM::EngineCore 4m12s" in str(bar.content)
        clock[0] += 60
        overview(pilot).update_ages()
        assert "VLLM::EngineCore 5m12s" in str(bar.content)


async def test_k_ends_what_was_shown_and_no_is_its_default(open_app: Opener) -> None:
    experiment = FakeExperiment(orphans_status())
    async with open_app(experiment) as pilot:
        await press(pilot, "K")
        assert isinstance(pilot.app.screen, PlanDialog)
        assert pilot.app.screen.query_one("#no", Button).has_focus
        await press(pilot, "enter")
        assert experiment.executed == []
        await press(pilot, "K", "y")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed == [Request(action="free", pids=PIDS)]


async def test_leftovers_that_ended_meanwhile_are_no_question(open_app: Opener) -> None:
    experiment = FakeExperiment(orphans_status())
    experiment.planner = lambda request: Plan(action="free")
    async with open_app(experiment) as pilot:
        await press(pilot, "K")
        assert said(pilot) == ["No leftover process is running"]


async def test_k_is_offered_only_while_there_are_leftovers(open_app: Opener) -> None:
    experiment = FakeExperiment(orphans_status())
    async with open_app(experiment) as pilot:
        assert " K end " in footer(pilot)
        assert " K end " in footer(pilot, 80)
        experiment.push(running_status())
        await until(pilot, lambda: " K end " not in footer(pilot))
        await press(pilot, "K")
        assert experiment.planned == []


async def test_readonly_refuses_every_key_that_changes_something(open_app: Opener) -> None:
    experiment = FakeExperiment(orphans_status(), NO_GPU, knob_table(), readonly=True)
    async with open_app(experiment) as pilot:
        of_log = {key for use in uses(KeyContext.LOG) for key in use.keys.split(",")}
        for key in changing_keys(KeyContext.OVERVIEW).keys() - of_log:
            forget(pilot)
            await press(pilot, "t", key)
            assert said(pilot) == [READONLY_TEXT], key
            assert isinstance(pilot.app.screen, Overview), key
        await press(pilot, "ctrl+k")
        await until(pilot, lambda: overview(pilot).query_one(KnobRows).has_focus)
        forget(pilot)
        await press(pilot, "enter")
        assert said(pilot) == [READONLY_TEXT]
        assert experiment.planned == experiment.executed == []


async def test_readonly_offers_nothing_that_changes_something(open_app: Opener) -> None:
    status = stopped_status().replace(orphans=ORPHANS)
    experiment = FakeExperiment(status, NO_GPU, knob_table(), readonly=True)
    async with open_app(experiment, ask_to_start=True) as pilot:
        assert isinstance(pilot.app.screen, Overview), "nor is it asked whether to start"
        assert experiment.planned == []
        assert not any(action.changes for action in offered(pilot))
        calls = {action.command[0] for action in offered(pilot)}
        assert {"panels.zoom", "show_help"} & calls == {"panels.zoom", "show_help"}
        words = footer(pilot).split()
        assert not {"start", "stop", "restart", "edit", "apply", "leftovers"} & set(words)
        assert {"help", "zoom", "detach"} <= set(words)


@pytest.mark.parametrize("width", [40, 200])
def test_readonly_is_said_at_every_width(width: int) -> None:
    assert "read-only" in header_line(running_status(), width, access="read-only").plain
    assert "read-only" not in header_line(running_status(), width).plain


@pytest.mark.parametrize(
    ("kind", "severity", "component_id", "heading", "note"),
    [
        ("finished", "information", "", "✓ it happened", "1m ago"),
        ("recovered", "information", "trainer", "✓ it happened", "trainer · 1m ago"),
        ("crash", "error", "", "✗ it happened", "1m ago"),
        ("stall", "warning", "", "⚠ it happened", "1m ago"),
    ],
)
def test_an_alert_is_told_in_full(
    kind: str, severity: str, component_id: str, heading: str, note: str
) -> None:
    alert = Alert.from_plain(
        {"kind": kind, "severity": severity, "title": "it happened", "text": "x", "component": component_id}
    )
    assert MessageDialog.for_alert(alert, 100).body.plain.splitlines() == [heading, "x", "", note]


def failed_trainer(*failed: str) -> Status:
    names = ("inference", "orchestrator", "trainer")
    states = {name: ComponentState.FAILED if name in failed else ComponentState.READY for name in names}
    each = [component(name, state, log=f"/run/{name}.log", reason="") for name, state in states.items()]
    return running_status(components=tuple(each))


async def test_what_has_failed_is_named_and_selected(open_app: Opener) -> None:
    """Finding U7: the footer's keys acted on inference, beside a trainer that had failed."""
    experiment = FakeExperiment(failed_trainer(), NO_GPU, knob_table())
    async with open_app(experiment, size=(80, 24)) as pilot:
        assert overview(pilot).panels.selected == "inference"
        experiment.push(failed_trainer("trainer"))
        await until(pilot, lambda: overview(pilot).panels.selected == "trainer")
        assert "✗ failed: trainer" in header_line(failed_trainer("trainer"), 80).plain
        await press(pilot, "i")
        experiment.push(failed_trainer("trainer"))
        await settle(pilot)
        assert overview(pilot).panels.selected == "inference", "it has been seen"


async def test_who_is_at_work_keeps_the_pane(open_app: Opener) -> None:
    experiment = FakeExperiment(failed_trainer(), NO_GPU, knob_table())
    async with open_app(experiment) as pilot:
        await press(pilot, "o")
        experiment.push(failed_trainer("trainer"))
        await settle(pilot)
        assert overview(pilot).panels.selected == "orchestrator"


async def test_a_run_that_is_opened_failed_shows_what_has(open_app: Opener) -> None:
    async with open_app(FakeExperiment(failed_trainer("orchestrator"), NO_GPU, knob_table())) as pilot:
        assert overview(pilot).panels.selected == "orchestrator"


@pytest.mark.parametrize(("failed", "key"), [((), "i"), (("trainer",), "ctrl+k")], ids=["log", "knobs"])
async def test_errors_are_found_in_whichever_log_has_them(
    failed: tuple[str, ...], key: str, open_app: Opener
) -> None:
    """Finding U7: `E` said "no errors" beside a red trainer."""
    experiment = FakeExperiment(failed_trainer(*failed), NO_GPU, knob_table())
    async with open_app(experiment) as pilot:
        await press(pilot, key, "E")
        await until(pilot, lambda: overview(pilot).panels.selected == "trainer")
        pane = overview(pilot).panels.body.reader("trainer")
        assert pane is not None
        await until(pilot, lambda: "1 of 1" in str(pane.log_pane.border_subtitle))
        assert said(pilot) == []


async def test_where_no_log_has_an_error_that_is_said_once(
    open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LOGS, "trainer", LOGS["trainer"][:5])
    async with open_app(FakeExperiment(failed_trainer(), NO_GPU, knob_table())) as pilot:
        await press(pilot, "o", "E")
        await until(pilot, lambda: said(pilot))
        assert said(pilot) == ["No errors in any log"]
        assert overview(pilot).panels.selected == "orchestrator"


async def test_only_the_selected_pane_names_the_keys_that_start_it(open_app: Opener) -> None:
    async with open_app(FakeExperiment(stopped_status(), NO_GPU, knob_table()), size=(80, 24)) as pilot:
        for _ in range(2):
            assert screen_text(pilot).count("Not started yet.") == 3
            assert screen_text(pilot).count("starts it") == 1
            await press(pilot, "tab")
