"""The metrics screen, by its keys."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.fakes.series import STARTED, STEP_S, FakeSeries, by_step
from tests.ui.conftest import Opener, choose, press, said, until
from tests.ui.metric_cases import experiment_with_run
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, Static

from rltui.core.logs.source import LogChange
from rltui.core.metrics.series import SeriesKey
from rltui.errors import RltuiError
from rltui.services.metrics.store import SeriesReader, SeriesWriter
from rltui.ui.charts.grid import ChartGrid
from rltui.ui.charts.plot import Plot
from rltui.ui.charts.view import ChartView
from rltui.ui.screens.metrics import MetricsScreen
from rltui.ui.screens.overview import Overview


def screen_of(pilot: Pilot[None]) -> MetricsScreen:
    """Also below the line of a search."""
    (screen,) = (screen for screen in pilot.app.screen_stack if isinstance(screen, MetricsScreen))
    return screen


def titles(pilot: Pilot[None]) -> list[str]:
    plots = screen_of(pilot).query(Plot)
    return [
        Content.from_markup(str(plot.border_title)).plain.strip()
        for plot in plots
        if plot.display and plot.border_title
    ]


def text_of(pilot: Pilot[None], name: str) -> str:
    return str(screen_of(pilot).query_one(f"#metrics-{name}", Static).content)


async def open_metrics(pilot: Pilot[None]) -> MetricsScreen:
    await press(pilot, "4")
    await until(pilot, lambda: titles(pilot))
    return screen_of(pilot)


@pytest.mark.slow
async def test_a_grid_shows_the_curated_charts_and_moves_over_them(open_app: Opener) -> None:
    async with open_app(experiment_with_run(), size=(80, 24)) as pilot:
        screen = await open_metrics(pilot)
        assert [title.split()[0] for title in titles(pilot)] == ["Reward", "Reward", "Loss", "Entropy"]
        assert "17 charts of 20 series" in text_of(pilot, "title")
        await press(pilot, "down", "down", "right")
        await until(pilot, lambda: any(title.startswith("Gradient norm") for title in titles(pilot)))
        await press(pilot, "enter")
        await until(pilot, lambda: len(titles(pilot)) == 1)
        assert titles(pilot)[0].startswith("Gradient norm 0.455 log")
        await choose(pilot, "chart.log")
        assert titles(pilot)[0].startswith("Gradient norm 0.")
        await press(pilot, "up")
        await until(pilot, lambda: titles(pilot)[0].startswith("KL"))
        await press(pilot, "escape")
        await until(pilot, lambda: len(titles(pilot)) == 4)
        await pilot.click([*screen.query(Plot)][1], offset=(20, 5))
        grid = screen.query_one(ChartGrid)
        assert grid.chosen is grid.in_view[1]
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, Overview)
        assert not [worker for worker in screen.workers if worker.group == "series"]


async def test_the_cursor_reads_all_series_and_goes_to_marks(open_app: Opener) -> None:
    async with open_app(experiment_with_run(), size=(130, 40)) as pilot:
        screen = await open_metrics(pilot)
        assert "1 crash" in text_of(pilot, "line")
        await press(pilot, "comma")
        assert text_of(pilot, "line").startswith("step 600 ")
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert "step 500" in text_of(pilot, "line")
        assert "checkpoint 500" in text_of(pilot, "line")
        await press(pilot, "left_square_bracket")
        assert "n looks good from here" in text_of(pilot, "line"), "without the escape sequence of the note"
        assert "\x1b" not in text_of(pilot, "line")
        await press(pilot, "right_square_bracket", "full_stop")
        assert screen.charts.view.cursor is not None
        assert screen.charts.view.cursor > 500
        await press(pilot, "plus", "plus", "shift+left")
        assert screen.charts.view.window is not None
        low, high = screen.charts.view.window
        assert high - low == pytest.approx(599 / 4)
        await press(pilot, "0")
        assert screen.charts.view == ChartView()


async def test_a_moment_is_gone_to(open_app: Opener) -> None:
    """As the events screen does it."""
    async with open_app(experiment_with_run()) as pilot:
        pilot.app.screen.show_screen("metrics", moment=STARTED + 204 * STEP_S)  # type: ignore[attr-defined]
        await until(pilot, lambda: isinstance(pilot.app.screen, MetricsScreen) and titles(pilot))
        await until(pilot, lambda: screen_of(pilot).charts.view.cursor is not None)
        assert screen_of(pilot).charts.view.cursor == pytest.approx(205, abs=0.1)
        assert "trainer ended with code 1" in text_of(pilot, "line")


@pytest.mark.slow
async def test_any_series_is_found_by_its_name(open_app: Opener) -> None:
    made = experiment_with_run()
    made.series.series[SeriesKey("trainer", "time/[red]x[/red]\x1b[2J")] = by_step([1.0, 2.0])
    async with open_app(made) as pilot:
        await open_metrics(pilot)
        await press(pilot, "slash", *"4x.")
        line = pilot.app.screen.query_one(Input)
        assert line.value == "4x.", "keys are typed, not carried out"
        line.value = r"time/.red"
        await until(pilot, lambda: len(titles(pilot)) == 1 and titles(pilot)[0].startswith("time/"))
        assert titles(pilot)[0].startswith("time/[red]x[/red]")
        assert "\x1b" not in titles(pilot)[0]
        line.value = "("
        await until(pilot, lambda: "invalid regular expression" in text_of(pilot, "title"))
        assert len(titles(pilot)) == 1, "what was found before stays"
        await press(pilot, "escape")
        await until(pilot, lambda: len(titles(pilot)) > 1)


@pytest.mark.slow
async def test_pins_come_first_and_are_kept(open_app: Opener) -> None:
    made = experiment_with_run()
    made.pinned = ("trainer:perf/throughput", "no such thing")
    async with open_app(made) as pilot:
        await open_metrics(pilot)
        assert titles(pilot)[0].startswith("perf/throughput · trainer")
        await press(pilot, "p")
        await until(pilot, lambda: titles(pilot)[0].startswith("Reward"))
        assert list(made.pinned) == ["no such thing"]
        made.error = RltuiError("the disk is full")
        await press(pilot, "down", "p")
        await until(pilot, lambda: any("disk is full" in told for told in said(pilot)))


@pytest.mark.slow
async def test_a_chart_is_saved_as_picture_and_table(open_app: Opener) -> None:
    made = experiment_with_run()
    async with open_app(made) as pilot:
        await open_metrics(pilot)
        await press(pilot, "right", "right", "W")
        await until(pilot, lambda: len(made.saved) == 2)
        drawing = ET.fromstring(made.saved["loss.svg"])
        texts = [each.text for each in drawing.iter("{http://www.w3.org/2000/svg}text")]
        assert "Loss · reverse-text" in texts
        assert "crash" in texts
        rows = made.saved["loss.csv"].splitlines()
        assert rows[0] == "series,step,time,value"
        assert rows[1].startswith("trainer loss/mean,1,")
        assert rows[201].endswith(",nan"), "gaps are values"
        await until(pilot, lambda: any("/exports/loss.svg" in told for told in said(pilot)))


async def test_what_comes_is_drawn_and_another_run_takes_its_place(open_app: Opener) -> None:
    made = FakeExperiment()
    made.series = FakeSeries({SeriesKey("", "reward/mean"): by_step([0.1, 0.2])})
    async with open_app(made) as pilot:
        await open_metrics(pilot)
        assert titles(pilot) == ["Reward 0.2"]
        made.series.series[SeriesKey("", "reward/mean")].add(3, STARTED + 20, 0.3)
        made.series.change = LogChange.GREW
        await press(pilot, "down")  # which has it read at once
        await until(pilot, lambda: titles(pilot) == ["Reward 0.3"])
        made.series.series = {SeriesKey("", "reward/mean"): by_step([0.9])}
        made.series.change = LogChange.RESET
        await press(pilot, "down")  # which has it read at once
        await until(pilot, lambda: titles(pilot) == ["Reward 0.9"])


async def test_nothing_measured_yet_is_said(open_app: Opener) -> None:
    async with open_app(FakeExperiment()) as pilot:
        await press(pilot, "4")
        await until(pilot, lambda: "No metrics yet" in text_of(pilot, "line"))
        assert "0 charts" not in text_of(pilot, "title"), "said once"
        await press(pilot, *("enter", "comma", "plus", "M", "W", "p", "left_square_bracket"))
        assert "No metrics yet" in text_of(pilot, "line")
        await press(pilot, "1")
        assert isinstance(pilot.app.screen, Overview)


async def switched(pilot: Pilot[None]) -> None:
    for id_ in ("chart.axis", "chart.outliers", "chart.marks"):
        await choose(pilot, id_)


@pytest.mark.slow
async def test_every_way_of_looking_is_told_and_undone(open_app: Opener) -> None:
    async with open_app(experiment_with_run(), size=(80, 24)) as pilot:
        screen = await open_metrics(pilot)
        before = screen.charts.view
        await press(pilot, "M")
        await switched(pilot)
        assert "by time · mean of 5 · outliers cut" in text_of(pilot, "title")
        assert text_of(pilot, "line") == ""
        await press(pilot, "M", "M", "M")
        await switched(pilot)
        assert screen.charts.view == before


async def test_the_store_of_a_run_is_followed(open_app: Opener, tmp_path: Path) -> None:
    """As its supervisor writes it, with a resume in between."""
    writer = SeriesWriter(tmp_path / "metrics")
    for step in range(1, 6):
        writer.add("orch", {"reward/mean": step / 10}, at=STARTED + step, step=step)
    writer.flush()
    made = FakeExperiment()
    made.open_series = lambda: SeriesReader(tmp_path / "metrics")  # type: ignore[method-assign, assignment, return-value]
    async with open_app(made) as pilot:
        screen = await open_metrics(pilot)
        assert titles(pilot) == ["Reward 0.5"]
        writer.rewind(3, STARTED + 10)
        writer.add("orch", {"reward/mean": 0.9}, at=STARTED + 11, step=4)
        writer.flush()
        await press(pilot, "down")  # which has it read at once
        await until(pilot, lambda: titles(pilot) == ["Reward 0.9"])
        model = screen.charts.model
        assert model is not None
        frame = model.frame(screen.query_one(ChartGrid).charts[0], screen.charts.view)
        lines = [(line.style, line.x.tolist()) for line in frame.polylines]
        assert lines == [("faint", [4, 5]), ("line-0", [1, 2, 3, 4])], "what was before the resume is faint"
