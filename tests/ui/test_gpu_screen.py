"""The GPU screen's keys, and how the panel ages."""

from __future__ import annotations

import itertools

import pytest
from tests.fakes.experiment import (
    NOW,
    FakeExperiment,
    gpu_device,
    gpu_histories,
    gpu_process,
    knob_table,
    running_status,
)
from tests.params import slow_but
from tests.ui import gpu_scenarios as scenarios
from tests.ui.conftest import Opener, offered, press, said, screen_text, until
from textual.geometry import Region
from textual.pilot import Pilot

from rltui.core.experiment.api import Orphan, Plan, Request
from rltui.errors import RltuiError
from rltui.ui import app as app_module
from rltui.ui.dialogs.base import PlanDialog
from rltui.ui.requests import READONLY_TEXT
from rltui.ui.screens.gpus import GpuScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.gpu_chart import GpuChart
from rltui.ui.widgets.gpu_panel import GpuBars, GpuPanel
from rltui.ui.widgets.row_list import RowList


def gpu_screen(pilot: Pilot[None]) -> GpuScreen:
    assert isinstance(pilot.app.screen, GpuScreen)
    return pilot.app.screen


def selected(pilot: Pilot[None], name: str) -> str | None:
    return pilot.app.screen.query_one(f"#gpu-{name}", RowList).key


def with_orphans(*, readonly: bool = False) -> FakeExperiment:
    experiment = FakeExperiment(running_status(), scenarios.ORPHANS, knob_table(), readonly=readonly)
    experiment.planner = lambda request: Plan(
        action="free", free=tuple(Orphan(pid=pid, start=1, command="python x.py") for pid in request.pids)
    )
    return experiment


@pytest.mark.slow
@pytest.mark.parametrize("zoomed", [False, True])
async def test_there_and_back(zoomed: bool, experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        if zoomed:
            await press(pilot, "t", "z")
        for back in ("1", "escape"):
            await press(pilot, "3")
            gpu_screen(pilot)
            await press(pilot, back)
            assert isinstance(pilot.app.screen, Overview), back
            assert (pilot.app.screen.panels.body.zoomed is not None) is zoomed, back


async def test_the_screen_is_made_once_and_finds_its_place_again(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), scenarios.TWO, knob_table())
    async with open_app(experiment) as pilot:
        await press(pilot, "3", "j")
        first = gpu_screen(pilot)
        await press(pilot, "1")
        experiment.push(scenarios.LOST)
        await pilot.pause()
        await press(pilot, "3")
        assert gpu_screen(pilot) is first
        assert selected(pilot, "devices") == "/GPU-1"
        assert "fell off" in screen_text(pilot)


async def test_both_screens_are_fed(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        await press(pilot, "3")
        experiment.push(scenarios.TWO)
        await until(pilot, lambda: "H100" in screen_text(pilot))
        await press(pilot, "1")
        assert pilot.app.screen.query_one(GpuBars).report is not None
        await until(pilot, lambda: "0 H100" in screen_text(pilot))


async def test_a_lost_supervisor_is_told_on_both_screens(
    experiment: FakeExperiment, open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "RECONNECT_S", (60.0,))
    async with open_app(experiment) as pilot:
        await press(pilot, "3")
        experiment.end_stream()
        await until(pilot, lambda: "reconnecting" in screen_text(pilot))


async def test_cursor_moves_between_devices_and_processes(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), scenarios.TWO, knob_table())
    first, second = (device.key for device in scenarios.TWO.devices)
    async with open_app(experiment) as pilot:
        await press(pilot, "3")
        assert (selected(pilot, "devices"), selected(pilot, "processes")) == (first, "4242")
        assert "18 NVLinks" in screen_text(pilot)
        await press(pilot, "j")
        assert (selected(pilot, "devices"), selected(pilot, "processes")) == (second, "4300")
        assert "Memory of GPU 1" in screen_text(pilot)
        await press(pilot, "down", "k")
        assert selected(pilot, "devices") == first


async def test_the_cursor_stays_on_its_process_when_others_come(open_app: Opener) -> None:
    async with open_app(with_orphans()) as pilot:
        await press(pilot, "3", "tab", "j")
        assert selected(pilot, "processes") == "4300"
        gpu_screen(pilot).state.show_gpus(scenarios.SHARED)
        await pilot.pause()
        assert selected(pilot, "processes") == "4300"
        gpu_screen(pilot).state.show_gpus(scenarios.OLD_DRIVER)
        await pilot.pause()
        assert selected(pilot, "processes") == "4242"


async def test_history_is_asked_for_while_the_screen_is_open(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), scenarios.SHARED, knob_table())
    experiment.histories = gpu_histories(scenarios.SHARED)
    async with open_app(experiment) as pilot:
        assert experiment.histories_read == 0
        await press(pilot, "3")
        await until(pilot, lambda: experiment.histories_read == 1)
        chart = pilot.app.screen.query_one(GpuChart)
        await until(pilot, lambda: chart.history is not None)
        assert "last 10 minutes" in screen_text(pilot)
        assert "10m ago" in screen_text(pilot)
        await press(pilot, "minus")
        assert "whole run" in screen_text(pilot)
        assert "20m ago" in screen_text(pilot)
        await press(pilot, "1")
        assert not [worker for worker in pilot.app.workers if worker.group == "history"]


async def test_a_history_that_cannot_be_had_is_said(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), scenarios.SHARED, knob_table())
    async with open_app(experiment) as pilot:
        experiment.error = RltuiError("the supervisor is too old")
        await press(pilot, "3")
        await until(pilot, lambda: "the supervisor is too old" in screen_text(pilot))


async def test_ending_a_process_asks_with_no_as_the_default(open_app: Opener) -> None:
    experiment = with_orphans()
    async with open_app(experiment) as pilot:
        await press(pilot, "3")
        assert "K end" in screen_text(pilot)
        await press(pilot, "K")
        dialog = pilot.app.screen
        assert isinstance(dialog, PlanDialog)
        assert dialog.heading == "End pid 4711 of user me?"
        assert dialog.default == "no"
        await press(pilot, "enter")
        assert experiment.executed == []
        await press(pilot, "K", "y")
        assert experiment.executed == [Request(action="free", pids=(4711,))]


async def test_processes_of_others_are_left_alone(open_app: Opener) -> None:
    experiment = with_orphans()
    async with open_app(experiment) as pilot:
        await press(pilot, "3", "tab", "j", "K")
        assert said(pilot) == ["pid 4300 belongs to trainer of this experiment; x stops it"]
        assert "K end" not in screen_text(pilot)
        await press(pilot, "j", "j", "K")
        assert said(pilot)[-1] == "pid 6001 belongs to alice; not ended"
        assert experiment.planned == []


async def test_processes_of_other_hosts_cannot_be_ended(open_app: Opener) -> None:
    process = gpu_process(9, 1.0, owner="mine")
    report = scenarios.report(gpu_device(0, [process], host="node7"))
    experiment = FakeExperiment(running_status(), report, knob_table())
    async with open_app(experiment) as pilot:
        await press(pilot, "3", "K")
        assert said(pilot) == ["pid 9 runs on node7; end the process there"]
        assert experiment.planned == []


@pytest.mark.slow
async def test_who_may_only_look_cannot_end_anything(open_app: Opener) -> None:
    experiment = with_orphans(readonly=True)
    async with open_app(experiment) as pilot:
        assert "GiB · K" not in screen_text(pilot)
        await press(pilot, "3", "K")
        assert said(pilot) == [READONLY_TEXT]
        assert "K end" not in screen_text(pilot)
        assert experiment.planned == []


def with_a_notebook() -> FakeExperiment:
    """A component's process comes first in the table, one that may be ended second."""
    notebook = gpu_process(5120, 3.0, owner="mine", user="me", command="jupyter", start=77)
    report = scenarios.report(gpu_device(0, [gpu_process(4300, 6.1, component="trainer"), notebook]))
    return FakeExperiment(running_status(), report, knob_table())


async def test_k_in_the_overview_puts_the_cursor_on_what_may_be_ended(open_app: Opener) -> None:
    async with open_app(with_a_notebook()) as pilot:
        assert "pid 5120 3.0 GiB · K" in screen_text(pilot)
        await press(pilot, "K")
        gpu_screen(pilot)
        await until(pilot, lambda: selected(pilot, "processes") == "5120")
        assert "K end" in screen_text(pilot)


@pytest.mark.slow
async def test_keys_typed_at_once_act_in_their_order(open_app: Opener) -> None:
    experiment = with_a_notebook()
    async with open_app(experiment) as pilot:
        await press(pilot, "3", "tab")
        assert selected(pilot, "processes") == "4300"
        for key in "jK":
            pilot.app.simulate_key(key)
        await until(pilot, lambda: experiment.planned)
        assert experiment.planned[-1].pids == (5120,)
        assert said(pilot) == []


async def test_palette_offers_what_there_is_here(open_app: Opener) -> None:
    async with open_app(with_orphans()) as pilot:
        ids = {action.id for action in offered(pilot)}
        assert "screen.gpus" in ids
        assert "scale.wider" not in ids
        await press(pilot, "3")
        ids = {action.id for action in offered(pilot)}
        assert {"process.free", "scale.wider", "help", "theme"} <= ids
        assert not {"component.start-all", "edit", "zoom"} & ids


@pytest.mark.slow
async def test_a_reading_grows_old_without_any_event(experiment: FakeExperiment, open_app: Opener) -> None:
    now = NOW
    async with open_app(experiment, clock=lambda: now) as pilot:
        panel = pilot.app.screen.query_one(GpuPanel)
        assert not pilot.app.screen.query_one(GpuBars).is_stale
        now += 12
        await until(pilot, lambda: "12s old" in str(panel.border_title))
        assert pilot.app.screen.query_one(GpuBars).is_stale
        await press(pilot, "3")
        assert "12s old" in screen_text(pilot)
        experiment.push(scenarios.TWO.replace(sampled_at=now))
        await until(pilot, lambda: "old" not in screen_text(pilot))
        await press(pilot, "1")
        assert not pilot.app.screen.query_one(GpuBars).is_stale


@pytest.mark.usefixtures("painted")
async def test_only_changed_lines_are_painted(open_app: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = FakeExperiment(running_status(), scenarios.EIGHT, knob_table())
    async with open_app(experiment) as pilot:
        bars = pilot.app.screen.query_one(GpuBars)
        painted: list[int] = []
        refresh = bars.refresh

        def note(*regions: Region, **options: bool) -> object:
            painted.extend(region.y for region in regions)
            return refresh(*regions, **options)

        monkeypatch.setattr(bars, "refresh", note)
        hotter = scenarios.EIGHT.devices[2].replace(utilization=0.11)
        devices = (*scenarios.EIGHT.devices[:2], hotter, *scenarios.EIGHT.devices[3:])
        experiment.push(scenarios.EIGHT.replace(devices=devices, sampled_at=NOW + 1))
        await until(pilot, lambda: painted)
        assert painted == [2]


SIZES = ((80, 24), (40, 12), (3, 3), (1, 1), (200, 50))


TURNS = {str(size): turn for turn, size in enumerate(SIZES)}


@pytest.mark.parametrize("turn", slow_but(TURNS, "(40, 12)"))
async def test_every_scenario_can_be_walked_through(turn: int, open_app: Opener) -> None:
    """Each at one size, in turns."""
    first, *others = itertools.islice(scenarios.SCENARIOS.values(), turn, None, len(SIZES))
    experiment = FakeExperiment(running_status(), first, knob_table())
    async with open_app(experiment, size=SIZES[turn]) as pilot:
        await press(pilot, "question_mark", "escape")
        for report in (first, *others):
            experiment.push(report)
            await press(pilot, "3", "j", "tab", "j", "k", "minus", "1")
            assert isinstance(pilot.app.screen, Overview)


async def test_the_list_is_as_high_as_its_lines_after_a_resize(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), scenarios.TWO, knob_table())
    async with open_app(experiment, size=(44, 60)) as pilot:
        await press(pilot, "3")
        narrow = pilot.app.screen.query_one("#gpu-devices", RowList)
        before = narrow.size.height
        await pilot.resize_terminal(200, 60)
        await pilot.pause()
        assert narrow.size.height == narrow.virtual_size.height < before


@pytest.mark.usefixtures("painted")
async def test_a_click_on_a_part_of_a_bar_names_its_owner(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment, size=(160, 45)) as pilot:
        bars = pilot.app.screen.query_one(GpuBars)
        y = next(y for y, line in enumerate(bars._painted_lines) if "141 GiB" in line.plain)
        for x in (2, 17, bars.size.width - 15):
            await pilot.click(bars, offset=(x, y))
        assert said(pilot) == [
            "inference holds 60.1 of 141 GiB of GPU 0, peak 60.6: pid 1",
            "trainer holds 9.8 of 141 GiB of GPU 0, peak 10.3: pid 3",
        ]
