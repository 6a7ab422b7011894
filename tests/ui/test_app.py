from __future__ import annotations

import math

import pytest
from tests.fakes.experiment import (
    FAILED,
    NO_GPU,
    FakeExperiment,
    FakeLog,
    component,
    gpu_report,
    knob,
    knob_table,
    running_status,
    stopped_status,
)
from tests.params import slow_but
from tests.ui.config_cases import config_experiment
from tests.ui.conftest import Opener, choose, offered, press, screen_text, settle, until
from textual.pilot import Pilot
from textual.widgets import Input, Static

from rltui.client.experiment import ShutDownError
from rltui.core.experiment.api import HostStatus, Request, Status
from rltui.core.experiment.description import ScreenLayout
from rltui.core.experiment.states import ComponentState
from rltui.errors import LinkDownError
from rltui.ui import app as app_module
from rltui.ui.actions import KeyContext, uses
from rltui.ui.dialogs.base import PlanDialog
from rltui.ui.dialogs.knob_editor import PLAN_DELAY_S, KnobEditor
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.logs.view import LogView
from rltui.ui.messages import NotifyingApp
from rltui.ui.screens.config import ConfigScreen
from rltui.ui.screens.gpus import GpuScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobRows


def overview(pilot: Pilot[None]) -> Overview:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, Overview))


def is_idle(pilot: Pilot[None]) -> bool:
    """No request is under way."""
    return all(worker.group != "request" or worker.is_finished for worker in overview(pilot).workers)


def notifications(pilot: Pilot[None]) -> list[tuple[str, str]]:
    assert isinstance(pilot.app, NotifyingApp)
    return [(said.text, said.severity) for said in pilot.app.messages.said]


KEYS_AND_REQUESTS = [
    (("i", "x", "enter"), Request(action="stop", components=("inference",))),
    (("j", "r", "enter"), Request(action="restart", components=("orchestrator",))),
    (("t", "colon", *"kill", "enter", "y"), Request(action="stop", components=("trainer",), kill=True)),
    (("D", "y"), Request(action="stop")),
    (
        ("o", "R", "down", "down", "down", "enter", "y"),
        Request(action="restart", components=("orchestrator",), resume="scratch"),
    ),
    (("A", "y"), Request(action="restart", components=("orchestrator",))),
]


async def test_what_is_told_while_the_app_ends_ends_it_no_worse(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    """Random keys found it: leaving ended in a traceback where a status came at that moment."""
    async with open_app(experiment) as pilot:
        screen = overview(pilot)
        going = pilot.app._prune(screen)
        await screen.show(stopped_status())
        await going
        await screen.show(running_status())


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        (
            "reverse-text",
            running_status(),
            "everything keeps running. rltui reverse-text opens it again, rltui down reverse-text stops it.",
        ),
        ("reverse-text", stopped_status(), "nothing is running. rltui reverse-text opens it again."),
        ("gpus", stopped_status(), "nothing is running. rltui open gpus opens it again."),
    ],
)
async def test_leaving_says_what_goes_on(open_app: Opener, name: str, status: Status, told: str) -> None:
    """Finding A6: of what was taken down it said that everything kept running."""
    experiment = FakeExperiment(status)
    experiment.name = name
    async with open_app(experiment) as pilot:
        pilot.app.action_detach()  # type: ignore[attr-defined]
        pilot.app.action_detach()  # type: ignore[attr-defined]
        (message,) = pilot.app._exit_renderables
        assert told in str(message)


async def test_keys_become_requests(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment, ask_to_start=True) as pilot:
        assert experiment.planned == [], "nobody is asked to start what runs"
        for keys, request in KEYS_AND_REQUESTS:
            await press(pilot, *keys)
            await until(pilot, lambda: experiment.executed and is_idle(pilot))
            assert experiment.executed.pop() == request, keys
            assert experiment.planned[-1] == request
            assert isinstance(pilot.app.screen, Overview)


async def test_a_second_key_does_not_cut_off_a_request(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        experiment.plan_delay_s = 0.2
        pilot.app.simulate_key("x")
        pilot.app.simulate_key("r")
        await pilot.pause(0.4)
        assert [request.action for request in experiment.planned] == ["stop"]
        assert isinstance(pilot.app.screen, PlanDialog)


async def test_first_open_asks_to_start(open_app: Opener) -> None:
    experiment = FakeExperiment(stopped_status(), NO_GPU, knob_table())
    async with open_app(experiment, ask_to_start=True) as pilot:
        assert isinstance(pilot.app.screen, PlanDialog)
        await press(pilot, "enter")
        assert experiment.executed == [Request(action="start")]


async def edit(pilot: Pilot[None], row: int) -> KnobEditor:
    await press(pilot, "ctrl+k", *["j"] * row, "enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, KnobEditor))
    assert isinstance(pilot.app.screen, KnobEditor)
    return pilot.app.screen


@pytest.mark.slow
async def test_edit_writes_and_restarts(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await edit(pilot, 0)
        await press(pilot, "asterisk", "ctrl+r")
        edits = {"orchestrator.batch_size": 128}
        assert experiment.executed == [Request(action="set", edits=edits, restart=True)]
        assert experiment.planned[-1] == experiment.executed[0]


@pytest.mark.slow
async def test_a_slow_plan_does_not_lose_the_confirmation(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(experiment) as pilot:
        editor = await edit(pilot, 0)
        monkeypatch.setattr(experiment, "plan_delay_s", 2 * PLAN_DELAY_S)
        pilot.app.simulate_key("up")
        pilot.app.simulate_key("enter")
        await pilot.pause(4 * PLAN_DELAY_S)
        assert pilot.app.screen is not editor
        assert experiment.executed == [Request(action="set", edits={"orchestrator.batch_size": 65})]


@pytest.mark.slow
async def test_edit_refuses_what_the_plan_forbids(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        editor = await edit(pilot, 0)
        await press(pilot, "backspace", "backspace", *"100", "enter")
        assert pilot.app.screen is editor
        shown = str(editor.query_one("#draft", Static).content)
        assert "the nearest valid values are 96 and 112" in shown
        await press(pilot, "ctrl+r")
        assert pilot.app.screen is editor
        await press(pilot, "escape")
        assert experiment.executed == []


async def test_edit_refuses_what_is_no_value(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        editor = await edit(pilot, 0)
        await press(pilot, "x", "enter")
        shown = str(editor.query_one("#draft", Static).content)
        assert shown == '✗ orchestrator.batch_size must be a whole number, not "x"'
        assert len(experiment.planned) == 1


async def test_edit_values_by_kind(experiment: FakeExperiment, open_app: Opener) -> None:
    cases: list[tuple[str, tuple[str, ...], object]] = [
        ("orchestrator.batch_size", ("backspace", "backspace"), None),
        ("orchestrator.batch_size", ("up",), 65),
        ("trainer.optim.lr", ("slash",), 5e-6),
        ("trainer.model.ac", ("space",), True),
    ]
    async with open_app(experiment) as pilot:
        rows = pilot.app.screen.query_one(KnobRows)
        await press(pilot, "ctrl+k")
        await until(pilot, lambda: rows.has_focus)
        for key, keys, value in cases:
            rows.go_to(key)
            await press(pilot, "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, KnobEditor))
            await press(pilot, *keys, "enter")
            await until(pilot, lambda: experiment.executed and is_idle(pilot))
            assert experiment.executed.pop() == Request(action="set", edits={key: value})


async def test_knob_cursor_survives_new_values(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+k")
        table = knob_table()
        experiment.push(table.replace(knobs=(knob("new", 1), *table.knobs)))
        await settle(pilot)
        rows = pilot.app.screen.query_one(KnobRows)
        assert rows.knob is not None
        assert rows.knob.key == "orchestrator.batch_size"


async def test_knob_cursor_steps_over_headings(open_app: Opener) -> None:
    names = ("steps", "a.one", "seed", "b.c.two", "a.three")
    experiment = FakeExperiment(running_status(), knob_table(knobs=tuple(knob(name, 1) for name in names)))
    async with open_app(experiment, size=(80, 24)) as pilot:
        await press(pilot, "ctrl+k")
        rows = pilot.app.screen.query_one(KnobRows)
        await until(pilot, lambda: rows.has_focus)
        visited = []
        for key in ("g", "j", "j", "j", "j", "j", "k", "pageup", "pagedown"):
            await press(pilot, key)
            visited.append(rows.knob.key if rows.knob else None)
        assert visited == [
            "steps",
            "seed",
            "a.one",
            "a.three",
            "b.c.two",
            "b.c.two",
            "a.three",
            "steps",
            "b.c.two",
        ]
        shown = [rows.render_line(y).text.lstrip(" ▸").split(" ")[0] for y in range(rows.size.height)]
        assert [name for name in shown if name] == ["run", "steps", "seed", "a", "one", "three", "b", "c.two"]


async def test_a_click_on_a_heading_does_nothing(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment, size=(160, 45)) as pilot:
        rows = pilot.app.screen.query_one(KnobRows)
        await pilot.click(rows, offset=(4, 4))
        assert rows.key == rows.keys[2]
        await pilot.click(rows, offset=(4, 5))
        assert rows.key == rows.keys[2]


@pytest.mark.parametrize(
    "size",
    slow_but(
        {f"{w}x{h}": (w, h) for w, h in [(59, 20), (40, 12), (120, 12), (20, 6), (3, 3), (1, 1)]}, "40x12"
    ),
)
async def test_small_terminals_show_the_pane_with_the_focus(
    size: tuple[int, int], experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment) as pilot:
        await pilot.resize_terminal(*size)
        assert pilot.app.screen.size == size
        for key in ("t", "i", "ctrl+k", "shift+tab"):
            await press(pilot, key)
            pane = overview(pilot).panels.current_pane
            assert pane is not None
            visible = pane.region.intersection(pilot.app.screen.region)
            assert visible.height >= min(2, size[1] - 2), key
        for keys in (("ctrl+k", "enter", "escape"), ("i", "r", "escape"), ("question_mark", "escape")):
            await press(pilot, *keys)
            assert isinstance(pilot.app.screen, Overview), keys


async def test_a_tiny_terminal_zooms_until_it_grows(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment, size=(40, 8)) as pilot:
        await press(pilot, "t")
        assert overview(pilot).panels.body.zoomed is overview(pilot).panels.body.reader("trainer")
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert overview(pilot).panels.body.zoomed is None


async def test_reconnects_when_the_supervisor_is_gone(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "RECONNECT_S", (60.0,))
    async with open_app(experiment) as pilot:
        banner = overview(pilot).query_one("#banner", Static)
        experiment.end_stream()
        await settle(pilot)
        assert banner.has_class("-shown")
        assert "reconnecting" in str(banner.content)
        monkeypatch.setattr(app_module, "RECONNECT_S", (0.0,))
        pilot.app.workers.cancel_group(pilot.app, "events")
        await settle(pilot)
        pilot.app._listen()  # type: ignore[attr-defined]
        await settle(pilot)
        assert experiment.connections == 2
        assert not banner.has_class("-shown")


async def test_what_somebody_took_down_is_not_revived_and_says_who_did_it(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding A6: it said that components keep running, and started a supervisor."""
    monkeypatch.setattr(app_module, "LOOK_AGAIN_S", 0.01)
    async with open_app(experiment) as pilot:
        banner = overview(pilot).query_one("#banner", Static)
        experiment.down = ShutDownError("one was shut down by ada, pid 7 on pts/3")
        experiment.end_stream()
        await until(pilot, lambda: banner.has_class("-shown"))
        assert str(banner.content) == "⚠ one was shut down by ada, pid 7 on pts/3; S starts it again"
        experiment.down = None
        await until(pilot, lambda: not banner.has_class("-shown"))


async def test_a_machine_that_is_out_of_reach_is_told_from_second_to_second(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "LOOK_AGAIN_S", 0.01)
    experiment.host = "gpubox"
    async with open_app(experiment) as pilot:
        banner = overview(pilot).query_one("#banner", Static)
        assert f"gpubox:{experiment.name}" in overview(pilot).state.heading().plain
        state = overview(pilot).state
        state.connection_problem = "it was shut down"
        assert state.heading(problem="it was shut down").plain.count("⚠ it was shut down") == 1
        for seconds in (2, 3):
            told = f"gpubox: connection lost {seconds}s ago, trying again"
            experiment.down = LinkDownError(told)
            experiment.end_stream()
            await until(pilot, lambda told=told: str(banner.content) == f"⚠ {told}")  # type: ignore[misc]
        experiment.down = None
        await until(pilot, lambda: not banner.has_class("-shown"))


@pytest.mark.slow
async def test_every_pane_is_reached_by_tab_on_a_small_screen(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment, size=(80, 24)) as pilot:
        seen = []
        for _ in range(5):
            focused = pilot.app.focused
            assert focused is not None
            assert focused.size.height > 0
            pane = overview(pilot).panels.body.pane_of(focused)
            seen.append(pane)
            await press(pilot, "tab")
        panes = overview(pilot).panels.body.panes
        first = [pane.id for pane in panes].index("pane-orchestrator")
        assert seen == panes[first:] + panes[:first]


async def test_zoom_follows_focus_until_escape(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await press(pilot, "z")
        shown = [pane.id for pane in overview(pilot).panels.body.panes if pane.display and pane.region]
        assert shown == ["pane-orchestrator"], "it works, where inference only serves"
        await press(pilot, "j")
        shown = [pane.id for pane in overview(pilot).panels.body.panes if pane.display and pane.region]
        assert shown == ["pane-trainer"]
        await press(pilot, "escape")
        assert len([pane for pane in overview(pilot).panels.body.panes if pane.region]) == 5


async def test_layout_columns_are_followed(open_app: Opener) -> None:
    screen = ScreenLayout(columns=(("knobs",), ("trainer",)), widths=("1fr", "3fr"))
    experiment = FakeExperiment(screen=screen)
    async with open_app(experiment) as pilot:
        panes = overview(pilot).panels.body.panes
        assert [type(pane).__name__ for pane in panes] == ["KnobPanel", "ComponentPane"]
        assert panes[0].region.width < panes[1].region.width
        assert not pilot.app.screen.query(GpuPanel)


async def test_components_come_from_the_status_when_not_given(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment, component_ids=()) as pilot:
        assert [pane.reader_id for pane in overview(pilot).panels.body.components] == [
            "inference",
            "orchestrator",
            "trainer",
        ]
        table = pilot.app.screen.query_one(KnobRows).table
        assert table.knobs


async def test_q_detaches_and_ctrl_c_stops_nothing(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await press(pilot, "ctrl+c")
        assert "q detaches" in notifications(pilot)[0][0]
        assert pilot.app.is_running
        await pilot.press("q")
        await pilot.pause()
        assert experiment.executed == []
    assert pilot.app.return_code == 0


async def test_palette_offers_only_what_makes_sense(open_app: Opener) -> None:
    experiment = FakeExperiment(stopped_status(), gpu_report(), knob_table(knobs=()))
    async with open_app(experiment) as pilot:
        ids = {action.id for action in offered(pilot)}
        assert {"component.start", "component.start-all", "detach", "screen.gpus"} <= ids
        assert not {"component.stop", "component.kill", "edit", "knob.apply"} & ids


async def test_palette_opens_a_shell_as_the_selected_component(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment) as pilot:
        await press(pilot, "t", "colon")
        await press(pilot, *"shell")
        await press(pilot, "enter")
        await settle(pilot)
        assert experiment.opened[-1] == "shell as trainer"
        message, _ = notifications(pilot)[0]
        assert "attach -t reverse-text:shell" in message


async def test_a_pending_one_says_why_where_its_output_will_be(open_app: Opener) -> None:
    reason = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu"
    pod = HostStatus(where="pod my-exp-trainer-0", phase="pending", reason=reason, since=1.0)
    trainer = component("trainer", ComponentState.STARTING, host=pod)
    status = running_status(components=(*running_status().components[:2], trainer))
    async with open_app(FakeExperiment(status, NO_GPU, knob_table()), size=(130, 40)) as pilot:
        await press(pilot, "t")
        assert f"Pending: {reason}. x cancels." in screen_text(pilot)


async def test_a_key_shows_the_script_of_a_job_and_of_nothing_else(open_app: Opener) -> None:
    job = HostStatus(where="job 7 on node-1", phase="running", since=1.0, script="/run/rl/job.sh")
    status = running_status()
    parts = tuple(each.replace(host=job if each.id == "trainer" else None) for each in status.components)
    experiment = FakeExperiment(status.replace(components=parts), NO_GPU, knob_table())
    async with open_app(experiment) as pilot:
        screen = overview(pilot)
        await press(pilot, "i")
        assert not screen.check_action("command", ("components.show_script",))
        await press(pilot, "t")
        await choose(pilot, "component.script")
        await settle(pilot)
        assert "less /run/rl/job.sh" in notifications(pilot)[0][0]


async def test_number_keys_work_on_every_main_screen(open_app: Opener) -> None:
    """All lie on the overview, none on another."""
    keys = {
        str(use.call[1][0]): use.keys
        for use in uses(KeyContext.OVERVIEW)
        if use.call[0] == "show_screen" and use.keys.isdigit()
    }
    async with open_app(config_experiment()) as pilot:
        below = pilot.app.screen
        for name, key in (*keys.items(), *reversed(keys.items())):
            await press(pilot, key)
            assert pilot.app.screen_stack == [below, pilot.app.get_screen(name)]
        for key in keys.values():
            await press(pilot, "1")
            assert pilot.app.screen_stack == [below]
            pilot.app.simulate_key(key)
            pilot.app.simulate_key("6")
            await press(pilot, "1", "1")
            assert pilot.app.screen_stack == [below]


async def test_a_log_that_is_polled_while_the_app_closes_ends_it_no_worse(open_app: Opener) -> None:
    """Screens that are not on top close last: their timers go on when no screen is on top any more."""
    async with open_app(config_experiment()) as pilot:
        pane = overview(pilot).query(LogView).first()
        assert pane.model.log is not None
        pilot.app._screen_stack.clear()
        pane.poll()


@pytest.mark.slow
async def test_tab_goes_round_in_one_order_whatever_is_new(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    def pane() -> str:
        current = overview(pilot).panels.current_pane
        return getattr(current, "reader_id", type(current).__name__)

    async with open_app(experiment) as pilot:
        orders = []
        for status in (running_status(), stopped_status(), running_status()):
            experiment.push(status)
            await settle(pilot)
            await press(pilot, "i")
            order = [pane()]
            for _ in range(4):
                await press(pilot, "tab")
                order.append(pane())
            await press(pilot, "tab")
            assert pane() == "inference", "round and round"
            await press(pilot, "shift+tab")
            assert pane() == order[-1]
            orders.append(order)
        assert orders == [["inference", "orchestrator", "trainer", "GpuPanel", "KnobPanel"]] * 3


@pytest.mark.slow
async def test_components_are_gone_to_from_any_pane(experiment: FakeExperiment, open_app: Opener) -> None:
    names = {"i": "inference", "o": "orchestrator", "t": "trainer"}
    async with open_app(experiment) as pilot:
        for start in ("i", "o", "t", "shift+tab", "ctrl+k"):
            for key, name in names.items():
                await press(pilot, start, key)
                assert getattr(overview(pilot).panels.current_pane, "reader_id", None) == name


@pytest.mark.slow
async def test_a_number_is_typed_where_words_are_asked_for(open_app: Opener) -> None:
    async with open_app(config_experiment()) as pilot:
        await press(pilot, "6", "slash", "3")
        assert isinstance(pilot.app.screen, SearchLine)
        assert pilot.app.screen.query_one(Input).value == "3"
        await press(pilot, "enter", "3")
        assert isinstance(pilot.app.screen, GpuScreen)
        await press(pilot, "6", "escape")
        assert isinstance(pilot.app.screen, ConfigScreen), "escape ends the search first"
        await press(pilot, "1")
        assert isinstance(pilot.app.screen, Overview)


@pytest.mark.slow
async def test_keys_are_mapped_anew_by_their_ids(open_app: Opener) -> None:
    experiment = config_experiment()
    async with open_app(experiment) as pilot:
        pilot.app.set_keymap({"knob.focus": "ctrl+o", "editor.double": "ctrl+g", "log.wrap": "ctrl+l"})
        await press(pilot, "ctrl+l")
        wraps = [
            pane.id for pane in overview(pilot).panels.body.components if pane.log_pane.model.window.wrap
        ]
        assert wraps == ["pane-orchestrator"]
        await press(pilot, "ctrl+o", "enter", "ctrl+g", "enter")
        await until(pilot, lambda: experiment.executed)
        assert experiment.executed[0].edits == {"orchestrator.batch_size": 128}


async def test_failed_component_can_be_started_but_not_stopped(open_app: Opener) -> None:
    status = running_status(
        components=(component("inference", FAILED, exit_code=1, reason="CUDA \x1b[31mOOM"),)
    )
    async with open_app(FakeExperiment(status), component_ids=("inference",)) as pilot:
        screen = overview(pilot)
        assert screen.check_action("command", ("components.request", "start")) is True
        assert screen.check_action("command", ("components.request", "stop")) is False
        title = str(screen.panels.body.components[0].log_pane.border_title)
        assert "✗ failed code 1" in title
        assert str(screen.panels.body.components[0].query_one(".reason", Static).content) == "✗ CUDA OOM"


async def test_pane_of_a_preparation_folds_when_it_is_over_and_nobody_reads_it(open_app: Opener) -> None:
    def status(state: ComponentState) -> Status:
        return running_status(
            components=(
                *running_status().components,
                component("sft", state, prepares=True, log="/run/trainer.log"),
            )
        )

    experiment = FakeExperiment(status(ComponentState.READY), NO_GPU, knob_table())
    async with open_app(experiment) as pilot:
        screen = overview(pilot)
        pane = screen.panels.body.reader("sft")
        assert pane is not None
        await press(pilot, "t", "j")
        assert screen.panels.selected == "sft"
        experiment.push(status(ComponentState.EXITED))
        await settle(pilot)
        assert pane.region.height > 3, "somebody reads it"
        await press(pilot, "k")
        assert pane.region.height == 1
        assert "sft" in str(pane.log_pane.border_title)
        experiment.push(status(ComponentState.STARTING))
        await settle(pilot)
        assert pane.region.height > 3


async def test_what_works_or_has_failed_is_selected_unless_a_person_has_gone_elsewhere(
    open_app: Opener,
) -> None:
    """Findings U7, U15: the keys acted on an idle server beside a supervised trainer, or a failed one."""
    ready, waiting = ComponentState.READY, ComponentState.WAITING

    def status(sft: ComponentState, inference: ComponentState, trainer: ComponentState) -> Status:
        sft_step = {"step": 67, "max_steps": 380} if sft is ready else {}
        return running_status(
            components=(
                component("inference", inference, kind="service"),
                component("trainer", trainer, kind="job"),
                component("sft", sft, kind="job", prepares=True, log="/run/orchestrator.log", **sft_step),
            )
        )

    experiment = FakeExperiment(status(ready, waiting, waiting), NO_GPU, knob_table())
    async with open_app(experiment, size=(120, 36)) as pilot:
        panels = overview(pilot).panels
        heights = {pane.reader_id: pane for pane in panels.body.readers}
        assert panels.selected == "sft"
        assert "sft step 67/380" in screen_text(pilot)
        assert heights["sft"].region.height > 20
        experiment.push(status(ComponentState.EXITED, ready, ready))
        await settle(pilot)
        assert panels.selected == "trainer"
        assert "step 12/20" in screen_text(pilot)
        assert heights["inference"].region.height == 4, "a healthy server"
        await press(pilot, "i")
        assert heights["inference"].region.height > 10, "somebody reads it"
        experiment.push(status(ComponentState.EXITED, ready, ComponentState.FAILED))
        await settle(pilot)
        assert panels.selected == "inference", "a person is at work"
        assert isinstance(pilot.app, NotifyingApp)
        pilot.app.touched_at = -math.inf
        overview(pilot).update_ages()
        await settle(pilot)
        assert panels.selected == "trainer"


async def test_log_of_the_attempt_before_is_closed(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        assert experiment.opened == ["/run/inference.log", "/run/orchestrator.log", "/run/trainer.log"]
        pane = overview(pilot).panels.body.reader("trainer")
        assert pane is not None
        before = pane.log_pane.model.log
        assert isinstance(before, FakeLog)
        assert not before.closed
        restarted = component("trainer", attempt=2, log="/run/orchestrator.log")
        experiment.push(running_status(components=(*running_status().components[:2], restarted)))
        await until(pilot, lambda: pane.log_pane.model.log is not before)
        assert before.closed
        after = pane.log_pane.model.log
    assert isinstance(after, FakeLog)
    assert after.closed, "with the app"


@pytest.mark.slow
async def test_more_panes_than_rows_fold_and_the_selected_one_is_seen(open_app: Opener) -> None:
    ids = [f"worker-{number:02}" for number in range(60)]
    experiment = FakeExperiment(running_status(components=tuple(component(each, log=None) for each in ids)))
    async with open_app(experiment, size=(100, 30)) as pilot:
        screen = overview(pilot)
        screen.panels.focus_component("worker-43")
        await press(pilot, "j", "j")
        assert screen.panels.selected == "worker-45"
        pane = screen.panels.body.reader("worker-45")
        assert pane is not None
        assert screen.find_widget(pane).visible_region.height > 8
        titles = [each for each in screen.panels.body.readers if each.region]
        assert 10 < len(titles) < 30


class UpdatedCode:
    is_replaced = True

    def is_update_complete(self) -> bool:
        return True


async def test_an_update_under_the_open_screen_is_told(
    open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "_UPDATE_CHECK_S", 0.05)
    async with open_app(FakeExperiment(), code=UpdatedCode()) as pilot:
        await until(pilot, lambda: bool(notifications(pilot)))
        assert notifications(pilot) == [
            ("rltui was updated: q detaches, and rltui reverse-text opens the new version.", "warning")
        ]


async def test_what_an_update_breaks_ends_the_app_with_a_command_and_no_traceback(
    open_app: Opener, capsys: pytest.CaptureFixture[str]
) -> None:
    async def break_it() -> None:
        async with open_app(FakeExperiment(), code=UpdatedCode()) as pilot:
            pilot.app.call_later(lambda: __import__("rltui.is_gone"))
            await pilot.pause()

    with pytest.raises(
        Exception, match=r"was updated while .* nothing was stopped\. rltui reverse-text opens"
    ):
        await break_it()
    assert "Traceback" not in capsys.readouterr().err


async def test_the_line_of_a_pause_of_agents_is_there_and_gone_with_the_key(open_app: Opener) -> None:
    async with open_app(FakeExperiment(running_status())) as pilot:
        await press(pilot, "Z")
        await until(pilot, lambda: "⏸ agents were paused" in screen_text(pilot))
        await press(pilot, "Z")
        await until(pilot, lambda: "⏸ agents were paused" not in screen_text(pilot))
