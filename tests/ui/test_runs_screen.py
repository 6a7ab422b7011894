"""The runs screen: what it lists, and what its keys do."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.fakes.experiment import NOW
from tests.fakes.runs import FakeRuns, run_row, selected
from tests.ui.conftest import Opener, choose, press, screen_lines, settle, until
from tests.ui.run_cases import FORK, QUEUE, RUNS, ended
from textual.pilot import Pilot
from textual.widgets import Static

from rltui.core.experiment.states import Reason
from rltui.core.runs.row import RunChange
from rltui.core.runs.tree import TreeLine
from rltui.errors import ConflictError, RltuiError
from rltui.ui.dialogs.base import MessageDialog, NoteDialog
from rltui.ui.dialogs.columns import ColumnDialog
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.dialogs.trash import TrashDialog
from rltui.ui.screens.compare import CompareScreen
from rltui.ui.screens.runs import RunsScreen
from rltui.ui.widgets.row_list import RowList
from rltui.ui.widgets.run_details import detail_lines
from rltui.views.run import DEFAULT_COLUMNS
from rltui.views.run_filter import parse_filter
from rltui.views.run_list import RunSelection, RunView, line_key

NAMES: dict[str, str] = {row.id: row.name for row in RUNS}


@asynccontextmanager
async def screen_of(
    open_app: Opener, runs: FakeRuns, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[Pilot[None], RunsScreen]]:
    async with open_app(None, size, runs=runs) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        await settle(pilot)
        yield pilot, screen


def lines_of(pilot: Pilot[None]) -> list[str]:
    """Those in view."""
    rows = pilot.app.screen.query_one(RowList).region
    return screen_lines(pilot)[rows.y : rows.y + rows.height]


def names_of(screen: RunsScreen) -> list[str]:
    return [
        line.row.name if isinstance(line, TreeLine) and line.row is not None else line_key(line)
        for line in screen.runs.listing.lines
    ]


@pytest.mark.slow
async def test_runs_of_other_machines_have_a_column_and_what_is_out_of_reach_is_told(
    open_app: Opener,
) -> None:
    runs = FakeRuns(run_row("far", host="gpubox"), run_row("near", host="laptop"))
    runs.hosts, runs.trouble = ("gpubox",), "gpubox: connection lost 12s ago, trying again"
    async with screen_of(open_app, runs) as (pilot, screen):
        assert "gpubox" in next(line for line in lines_of(pilot) if " far " in line)
        assert "host" in text_of(screen, "runs-head")
        assert "gpubox: connection lost 12s ago" in text_of(screen, "runs-title")
        runs.trouble = ""
        await until(pilot, lambda: "connection lost" not in text_of(screen, "runs-title"))


async def test_runs_of_one_other_machine_say_so_in_the_title(open_app: Opener) -> None:
    runs = FakeRuns(run_row("far", host="gpubox"))
    runs.host = "gpubox"
    async with screen_of(open_app, runs) as (_, screen):
        assert text_of(screen, "runs-title").startswith(" rltui gpubox: Runs")
        assert "host" not in text_of(screen, "runs-head")


def text_of(screen: RunsScreen, id_: str) -> str:
    return str(screen.query_one(f"#{id_}", Static).render())


def test_the_details_say_where_it_comes_from_and_what_it_took() -> None:
    line = TreeLine(FORK.id, FORK, (), is_parent=False)
    told = [line.plain for line in detail_lines(line, NAMES, 100, NOW)]
    assert told[0] == "from      forked from baseline at step 100"
    assert told[1] == "changed   trainer.optim.lr 1e-5 → 3e-6 · seed 0 → 1"
    assert "reward 0.81 ± 0.02 (last 10)" in told[2]
    assert told[3] == "took      40m · 2 attempts · 1.3 GPU hours · 13.0 GiB · checkpoints 50 and 100"
    assert "commit 3f9c2a1b7 with changes · prime-rl 0.8.0" in told[4]
    hostile = run_row("\x1b[31m[red]x", reason=Reason("x", "a\x1b]0;t\x07b\nc"), note="[bold]n")
    shown = "".join(
        line.plain for line in detail_lines(TreeLine("x", hostile, (), is_parent=False), {}, 80, NOW)
    )
    assert "\x1b" not in shown
    assert "[bold]n" in shown


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (80, 24), (130, 40), (200, 50)], ids=str)
async def test_no_line_is_wider_than_the_screen(open_app: Opener, size: tuple[int, int]) -> None:
    odd = run_row("ハローワールド" * 8, changed={"a.b": ("x" * 200, "y" * 200)}, tags=("t" * 30, "u" * 30))
    async with screen_of(open_app, FakeRuns(*RUNS, odd), size) as (pilot, screen):
        await press(pilot, "b")
        width = screen.rows.scrollable_content_region.width
        rows = screen.make_rows(width, screen.rows.key)
        lines = [line for index in range(len(rows.keys)) for line in rows.lines(index)]
        assert all(line.cell_length <= width for line in lines)
        assert any("reverse-text-b" in line.plain for line in lines) or width < 30


async def test_a_filter_counts_while_it_is_typed_and_a_mistake_keeps_the_list(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    runs.flat_configs = {"id-baseline": {"trainer.optim.lr": 1e-5}, "id-half": {"trainer.optim.lr": 2e-4}}
    async with screen_of(open_app, runs) as (pilot, screen):
        await press(pilot, "slash", *"tag:bas")
        assert names_of(screen) == []
        await press(pilot, *"eline")
        assert names_of(screen) == ["baseline"]
        line = pilot.app.screen
        assert isinstance(line, SearchLine)
        for typed, names, status in (
            ("tag:baseline and (", ["baseline"], "a condition is missing"),
            ("lr > 1e-4", ["half"], "1 run"),
            ("lrr > 1e-4", [], "lrr"),
            ("lr > 1e-4", ["half"], "1 run"),
        ):
            line.line.value = typed
            await settle(pilot)
            assert names_of(screen) == names, typed
            line._show_status()
            assert status in str(line._status.render()), typed
        await press(pilot, "enter")
        assert names_of(screen) == ["half"]
        await press(pilot, "slash", *"zzz", "escape")
        assert names_of(screen) == ["half"], "what was searched before"
        await press(pilot, "escape")
        assert len(names_of(screen)) > 20


async def test_columns_are_chosen_and_kept(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    runs.flat_configs = {row.id: {"trainer.optim.lr": 3.5e-6} for row in RUNS}
    async with screen_of(open_app, runs) as (pilot, screen):
        await press(pilot, "vertical_line")
        dialog = pilot.app.screen
        assert isinstance(dialog, ColumnDialog)
        await press(pilot, "j", "space", "tab", *"no-(", "enter")
        assert isinstance(pilot.app.screen, ColumnDialog)
        await press(
            pilot,
            *["backspace"] * 4,
            *"optim.lr",
            "enter",
            *["shift+up"] * (len(DEFAULT_COLUMNS) - 2),
            "enter",
        )
        wanted = ("name", "optim.lr", *(name for name in DEFAULT_COLUMNS if name not in ("name", "state")))
        assert screen.runs.selection.view.columns == wanted
        assert RunView.of(runs.view_state("runs")).columns == wanted
        assert "3.5e-6" in lines_of(pilot)[0]
        await press(pilot, "greater_than_sign", "greater_than_sign")
        assert RunView.of(runs.view_state("runs")).sort == "optim.lr"
        await choose(pilot, "sort.reverse")
        await press(pilot, "b")
        assert RunView.of(runs.view_state("runs")) == RunView(
            wanted, "optim.lr", is_reversed=True, is_grouped=True
        )
        await press(pilot, "vertical_line", "space", "escape")
        assert RunView.of(runs.view_state("runs")).columns == wanted


async def test_a_tree_is_folded_and_a_sweep_is_meant_as_a_whole(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    async with screen_of(open_app, runs) as (pilot, screen):
        await press(pilot, "b", "home")
        assert lines_of(pilot)[0].startswith(
            "▸ ▾ lr  3 runs · 2 running · 1 done · highest reward 0.92 ± 0.02: lr-lr1e-05"
        )
        await press(pilot, "enter")
        assert names_of(screen)[:2] == [":lr", "baseline"]
        await press(pilot, "j", "j", "left")
        assert names_of(screen)[:3] == [":lr", "baseline", "moved"], "from below it"
        assert "+3" in lines_of(pilot)[1]
        await press(pilot, "right", "home", "m")
        assert screen.runs.marked == {"id-lr-lr1e-06", "id-lr-lr3e-06", "id-lr-lr1e-05"}


@pytest.mark.slow
async def test_what_is_said_of_runs_is_changed_and_taken_back(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    async with screen_of(open_app, runs) as (pilot, screen):
        screen.rows.go_to("id-baseline")
        await press(pilot, "m", "m")  # baseline, collapsed
        await press(pilot, "e", *"late ", "enter")
        rows = {row.name: row for row in runs.known}
        assert rows["baseline"].tags == ("baseline", "late", "paper")
        assert rows["collapsed"].tags == ("late",)
        await press(pilot, "escape")
        screen.rows.go_to("id-baseline")
        await press(pilot, "e", "ctrl+u", *"paper", "enter")
        assert next(row for row in runs.known if row.name == "baseline").tags == ("paper",)
        await press(pilot, "number_sign")
        assert isinstance(pilot.app.screen, NoteDialog)
        await press(pilot, "ctrl+u", "enter", "asterisk", "H")
        row = next(row for row in runs.known if row.name == "baseline")
        assert (row.note, row.is_best, row.archived_at) == ("", False, NOW)
        assert "baseline" not in names_of(screen)
        await press(pilot, *"uuuuu")
        assert {row.id: row for row in runs.known} == {row.id: row for row in RUNS}
        assert not screen.annotations.allows("undo")


async def test_to_the_trash_and_back(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    async with screen_of(open_app, runs) as (pilot, screen):
        screen.rows.go_to("id-baseline")
        await press(pilot, "delete")
        dialog = pilot.app.screen
        assert isinstance(dialog, TrashDialog)
        assert "40.0 GiB" in dialog.body.plain
        await press(pilot, "enter")
        assert runs.changes == [], "no is the default"
        await press(pilot, "delete", "y")
        assert "baseline" not in names_of(screen)
        await press(pilot, "u")
        assert "baseline" in names_of(screen)
        runs.error = ConflictError("baseline runs", hint="end it first")
        await press(pilot, "delete", "y")
        assert isinstance(pilot.app.screen, MessageDialog)


async def test_what_is_opened_and_who_may_only_look(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS, readonly=True)
    async with screen_of(open_app, runs) as (pilot, screen):
        await press(pilot, "e", "delete", "H")
        assert pilot.app.screen is screen
        assert not runs.changes
        await press(pilot, "j", "enter")
        assert runs.opened == ["id-lr-lr1e-06"]


async def test_what_waits_in_the_queue_is_listed_with_the_reason(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    runs.queued = QUEUE
    async with screen_of(open_app, runs) as (pilot, screen):
        assert "2 queued" in text_of(screen, "runs-title")
        assert "◌ lr-lr3e-05" in lines_of(pilot)[3]
        assert "GPU 0 has 12 of 80 GiB free, it needs 40" in lines_of(pilot)[3]
        screen.rows.go_to("queue:q1")
        await press(pilot, "e", "m", "delete")
        assert not screen.runs.marked
        assert "lr=3e-05" in text_of(screen, "runs-notes")
        runs.queued = QUEUE.replace(entries=QUEUE.entries[1:], paused="by a person")
        await screen.look()
        assert "1 queued, paused" in text_of(screen, "runs-title")
        screen.rows.go_to("queue:q1")
        await press(pilot, "enter")
        assert pilot.app.screen.query("#queue-rows")
        await press(pilot, "escape")
        assert pilot.app.screen is screen


async def test_marked_runs_are_compared_and_written(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    async with screen_of(open_app, runs) as (pilot, screen):
        await press(pilot, "c")
        assert pilot.app.screen is screen, "with what?"
        await press(pilot, "m", "j")
        await press(pilot, "c")
        assert isinstance(pilot.app.screen, CompareScreen)
        await press(pilot, "escape")
        assert pilot.app.screen is screen
        await press(pilot, "W")
        await until(pilot, lambda: runs.exported)
        assert runs.exported[0][0] == "id-lr-lr3e-06"


async def test_an_index_that_cannot_be_read_is_told_and_tried_again(open_app: Opener) -> None:
    runs = FakeRuns(*RUNS)
    runs.error = RltuiError("the index of runs cannot be used: database is locked")
    async with screen_of(open_app, runs) as (pilot, screen):
        assert "database is locked" in text_of(screen, "runs-title")
        runs.error = None
        await screen.look()
        assert "locked" not in text_of(screen, "runs-title")
        assert len(names_of(screen)) > 20
        runs.known = ()
        await screen.look()
        assert "rltui runs add FOLDER" in text_of(screen, "runs-notes")
        assert pilot.app.screen is screen


def test_thousands_of_runs_are_sorted_and_filtered_without_a_lag() -> None:
    many = [
        ended(f"r{at}", at / 100, (at * 7 % 100) / 100, parent=f"id-r{at - 1}" if at % 5 else "")
        for at in range(5000)
    ]
    selection = RunSelection(
        RunView(sort="reward", is_grouped=True), filter=parse_filter("reward > 0.1 and step >= 0")
    )
    begun = time.process_time()
    lines = selection.lines(selected(selection.query, many))
    assert len(lines) > 4000
    assert time.process_time() - begun < 1.0


def test_a_change_is_taken_back_as_far_as_it_was_one() -> None:
    change = RunChange(add_tags=("baseline", "new"), remove_tags=("paper", "never"), note="x", is_best=True)
    baseline = next(row for row in RUNS if row.name == "baseline")
    assert change.inverse(baseline) == RunChange(
        add_tags=("paper",), remove_tags=("new",), note="the one in the paper", is_best=True
    )


async def test_columns_make_room_for_a_scroll_bar(open_app: Opener) -> None:
    """Of which a resize tells later: a picture in between cut each row by a cell."""
    async with screen_of(open_app, FakeRuns(*RUNS), (130, 40)) as (_, screen):
        rows = screen.rows
        rows.show_vertical_scrollbar = not rows.show_vertical_scrollbar
        lines = [rows.render_line(y).text for y in range(rows.size.height)]
        assert [line for line in lines if line.endswith(" …")] == []


async def test_without_any_run_enter_starts_the_demo(open_app: Opener) -> None:
    runs = FakeRuns()
    async with screen_of(open_app, runs) as (pilot, screen):
        await until(pilot, lambda: "No runs yet. enter starts the demo" in "\n".join(screen_lines(pilot)))
        runs.demo_error = RltuiError("the demo needs torch, which is not installed")
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, MessageDialog))
        assert "needs torch" in "\n".join(screen_lines(pilot))
        runs.demo_error = None
        await press(pilot, "escape", "enter")
        await until(pilot, lambda: runs.opened == ["id-demo"])
    runs = FakeRuns(readonly=True)
    async with screen_of(open_app, runs) as (pilot, screen):
        await press(pilot, "enter")
        assert "enter starts" not in "\n".join(screen_lines(pilot))
        assert (screen.runs.rows, runs.known) == ((), ())
