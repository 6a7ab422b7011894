"""What a log view shows and says, without an app."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.fakes.log import FakeLog
from tests.ui.logs.conftest import search_file

from rltui.core.logs.source import LogChange, LogSource
from rltui.services.logs.index import LogFile
from rltui.ui.logs.model import LogModel, Tint
from rltui.ui.logs.search import OpenSearch
from rltui.ui.logs.selection import TextPosition, word_at

KEYS = {"cursor.last": "G", "copy": "y", "write": "W", "back": "esc"}


class Reader:
    """A model whose searches have ended as soon as they have begun."""

    def __init__(
        self, log: LogSource | None, width: int = 38, height: int = 10, search: OpenSearch | None = None
    ) -> None:
        self.model = LogModel(lambda work: work(), lambda search: None, KEYS.__getitem__)
        self.window = self.model.window
        self.window.width, self.window.height = width, height
        self.vain = 0
        self.model.set_log(log, "not started", search)

    @property
    def shown(self) -> list[str]:
        self.model.lay_out()
        return [row.text.text.rstrip() for row in self.model.visible]

    @property
    def status(self) -> str:
        self.model.lay_out()
        return self.model.status

    @property
    def current(self) -> list[str]:
        """The line that is set off."""
        self.model.lay_out()
        return [row.text.text for row in self.model.visible if row.tint is Tint.CURRENT]

    def search(self, start: Callable[[], object]) -> None:
        """Lay out, search, take the results."""
        self.model.lay_out()
        start()
        self.take()

    def poll(self) -> None:
        if self.model.poll():
            self.model.lay_out()
        self.take()

    def take(self) -> None:
        if (search := self.model.search) is not None and not search.is_running:
            self.vain += self.model.take_results(search)
        self.model.lay_out()


def numbers(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


def opened(count: int = 100, hidden: int = 0) -> tuple[Reader, FakeLog]:
    log = FakeLog(*numbers(0, count), hidden=hidden)
    reader = Reader(log)
    reader.model.lay_out()
    return reader, log


# following and moving


def test_follows_growth_and_the_live_last_line() -> None:
    reader, log = opened()
    assert reader.shown == numbers(90, 100)
    log.append("12%")
    reader.poll()
    log.text[-1] = "13%"
    log.append()
    reader.poll()
    assert reader.shown == [*numbers(91, 100), "13%"]
    assert reader.status == ""


def test_scrolling_back_stops_following_and_the_end_resumes() -> None:
    reader, log = opened()
    reader.model.move_rows(-2)
    assert not reader.window.follow
    log.append(*numbers(100, 200))
    reader.poll()
    assert reader.shown == numbers(88, 98)
    assert reader.status == "102 lines below, G follows"
    reader.window.move_to_end()
    assert reader.window.follow
    assert reader.shown == numbers(190, 200)
    reader.model.move_rows(-2)
    reader.model.move_rows(2)
    assert reader.window.follow, "at the end it follows, however it came there"


def test_it_stays_while_lines_come_and_says_at_once_what_has_come_since() -> None:
    reader, log = opened()
    log.append(*numbers(100, 5100))
    reader.model.toggle_follow()
    assert reader.shown == numbers(90, 100)
    assert reader.status == "5,000 lines below, G follows"
    reader.model.toggle_follow()
    assert reader.shown == numbers(5090, 5100)


def test_another_log_is_followed_from_its_end() -> None:
    reader, _ = opened()
    reader.window.move_to_start()
    reader.model.toggle_bookmark()
    reader.model.set_log(FakeLog(*numbers(200, 300)))
    assert reader.window.follow
    assert reader.shown == numbers(290, 300)
    assert not reader.model.bookmarks


def test_only_lines_in_view_are_read() -> None:
    reader, log = opened(100_000)
    assert set(log.reads) <= set(range(99_980, 100_000))
    log.reads.clear()
    log.append(*numbers(100_000, 200_000))
    reader.poll()
    reader.poll()
    assert sorted(log.reads) == list(range(199_989, 200_000))  # one more tells whether it is the same


def test_wrapped_log_follows_the_last_row() -> None:
    log = FakeLog(*["x" * 38 * 4] * 20)
    reader = Reader(log)
    reader.model.toggle("raw")
    reader.model.toggle("wrap")
    reader.model.lay_out()
    log.append("y" * 38 * 2)
    reader.poll()
    assert reader.shown == ["x" * 38] * 8 + ["y" * 38] * 2
    reader.model.move_rows(-3)
    assert reader.shown == ["x" * 38] * 10
    assert reader.status == "unfolded · 1 line below, G follows"


def test_truncation_while_scrolled_back_and_while_following() -> None:
    reader, log = opened()
    log.replace("new 1", "new 2")
    reader.poll()
    assert reader.shown == ["new 1", "new 2"]
    log.append(*numbers(0, 100))
    reader.poll()
    reader.model.scroll_pages(-1)
    log.replace("newer")
    reader.poll()
    assert reader.shown == ["newer"]
    log.replace()
    reader.poll()
    assert reader.shown == []


# what is not indexed, and floods


def test_older_lines_are_indexed_when_the_view_comes_near() -> None:
    reader, _ = opened(hidden=75)
    for _ in range(3):
        reader.model.scroll_pages(-1)
        reader.model.lay_out()
    assert reader.shown == numbers(63, 73)


def test_a_line_cut_at_its_start_is_completed_by_older_text() -> None:
    reader, log = opened(20, hidden=10)
    log.text[10] = "ne 10"
    reader.window.rows.clear()
    assert reader.shown[0] == "ne 10"
    log.text[10] = "line 10"
    reader.window.move_to_start()
    reader.model.lay_out()
    reader.model.move_rows(10)
    assert reader.shown[0] == "line 10"


def test_top_of_a_log_that_is_not_indexed_yet() -> None:
    reader, _ = opened(hidden=75)
    reader.window.move_to_start()
    assert reader.status == "going to the start"
    while reader.window.seek_pause_s is not None:
        reader.window.continue_seeking()
    assert reader.shown == numbers(0, 10)
    assert reader.status == "90 lines below, G follows"


def test_lines_that_were_under_way_are_shown_once_they_are_there() -> None:
    log = FakeLog(*([""] * 50))
    reader = Reader(log)
    reader.window.move_to_start()
    reader.model.lay_out()
    log.text = numbers(0, 50)
    reader.poll()
    assert not any(reader.shown)
    log.change = LogChange.FILLED
    reader.poll()
    assert reader.shown == numbers(0, 10)


def test_a_place_that_another_machine_looks_for_is_shown_when_it_is_there() -> None:
    reader, log = opened(hidden=50)
    log.is_waiting = True
    reader.model.go_to(20)
    assert reader.status == "going to the line"
    log.start, log.is_waiting = 0, False
    reader.window.continue_seeking()
    assert "line 20" in reader.shown
    assert reader.current == ["line 20"]


def test_a_jump_in_a_flood_is_laid_out_every_second_time() -> None:
    reader, log = opened()
    layouts = []
    for first in (10_000, 20_000, 30_000, 40_000):
        log.replace(*numbers(first, first + 5000))
        layouts.append(reader.model.poll())
        if layouts[-1]:
            reader.model.lay_out()
    assert layouts == [False, True, False, True]
    log.replace(*numbers(50_000, 55_000))
    assert not reader.model.poll()
    assert reader.model.poll(), "what was passed over is laid out without news"


def test_keys_do_not_wait_for_the_end_of_a_flood() -> None:
    reader, log = opened()
    log.replace(*numbers(10_000, 15_000))
    reader.model.poll()
    reader.model.move_rows(-1)
    assert reader.shown == numbers(14_989, 14_999)
    assert reader.status == "1 line below, G follows"


# searching, in real files


def opened_file(path: Path) -> Reader:
    reader = Reader(LogFile(path), width=58, height=12, search=partial(search_file, path))
    reader.model.lay_out()
    return reader


def test_matches_are_gone_to_counted_and_followed(path: Path) -> None:
    reader = opened_file(path)
    reader.search(lambda: reader.model.search_text("line 19[0-9]7$"))
    assert reader.status.startswith("“line 19[0-9]7$” 10 of 10")
    assert reader.current == ["12:00:17 I line 1997"]
    reader.model.go_to_match(-1)
    assert reader.current == ["12:00:07 I line 1987"]
    assert "9 of 10" in reader.status
    for _ in range(2):
        reader.model.lay_out()
        reader.model.go_to_match(1)
    assert "1 of 10" in reader.status, "round and round"
    with path.open("a") as file:
        file.write("12:00:00    INFO line 1997\n")
    reader.poll()
    assert "1 of 11" in reader.status
    reader.model.leave()
    assert "line 19" not in reader.status
    assert not reader.window.follow


def test_from_elsewhere_a_search_goes_to_the_next_match_below(path: Path) -> None:
    reader = opened_file(path)
    reader.window.move_to_start()
    reader.search(lambda: reader.model.search_text("line 1[0-9]+7$"))
    assert "1 of 110" in reader.status
    assert reader.current == ["12:00:47 I line 107"]


def test_a_match_far_to_the_right_and_in_a_folded_line_is_seen(path: Path) -> None:
    talk = [f"12:00:00    INFO waiting for {n}\n12:00:00 SUCCESS loss 0.{n}\n" for n in range(1, 9)]
    path.write_text("".join(talk) + f"12:00:00    INFO {'x ' * 100}needle here\n" + "plain\n" * 3)
    reader = opened_file(path)
    assert not any("waiting for 3" in row for row in reader.shown)
    reader.search(lambda: reader.model.search_text("needle"))
    assert "1 of 1" in reader.status
    (line,) = reader.current
    assert 0 < line.index("needle") - reader.window.left < reader.window.width - len("needle")
    reader.search(lambda: reader.model.search_text("for 3"))
    assert any("waiting for 3" in row for row in reader.shown)


def test_only_matches_then_all_lines_at_the_same_place(path: Path) -> None:
    reader = opened_file(path)
    reader.search(lambda: reader.model.search_text("LINE 1[0-9]+3$"))
    assert "no match for “" in reader.status
    reader.model.only = True
    reader.search(lambda: reader.model.search_text("line 1[0-9]+3$"))
    assert "only “line 1[0-9]+3$”: 110" in reader.status
    assert [row.split()[-1] for row in reader.shown][-2:] == ["1983", "1993"]
    reader.model.move_rows(-1)
    reader.model.lay_out()
    reader.model.toggle_only()
    reader.model.lay_out()
    assert "only" not in reader.status
    assert len(reader.shown) == 12
    with path.open("a") as file:
        file.write("12:00:00    INFO line 12343\n")
    reader.model.toggle_only()
    reader.window.move_to_end()
    reader.poll()
    reader.poll()
    assert reader.shown[-1].endswith("line 12343")
    path.write_text("12:00:00    INFO line 1553\nother\n")
    reader.poll()
    reader.poll()
    assert [row.split()[-1] for row in reader.shown] == ["1553"]


def test_levels_and_errors(path: Path) -> None:
    reader = opened_file(path)
    reader.search(reader.model.cycle_level)
    assert reader.status.startswith("only warnings: 4")
    assert reader.shown[-2:] == ["12:00:03 E CUDA out of memory", "  in worker 4"]
    reader.search(reader.model.cycle_level)
    assert reader.status.startswith("only errors: 4")
    reader.model.leave()
    assert len(reader.shown) == 12
    reader.search(reader.model.search_errors)
    assert reader.status.startswith("errors 2 of 2"), "what follows an error is a part of that error"
    reader.model.go_to_match(-1)
    reader.model.lay_out()
    assert "errors 1 of 2" in reader.status
    assert "  in worker 3" in reader.shown
    assert not reader.vain


def test_a_log_without_errors_says_so_once(path: Path) -> None:
    path.write_text("fine\n")
    reader = opened_file(path)
    reader.search(reader.model.search_errors)
    assert reader.vain == 1
    assert reader.status == "no errors"


def test_a_search_that_goes_on_is_cancelled_and_keeps_its_matches(path: Path) -> None:
    path.write_text("x\n" * 500_000)
    works: list[Callable[[], None]] = []
    ended: list[object] = []
    model = LogModel(works.append, ended.append, KEYS.__getitem__)
    model.set_log(LogFile(path), open_search=partial(search_file, path))
    model.search_text("x")
    assert model.status.startswith("searching “x”: 0 %, 0 found, esc cancels")
    search = model.search
    assert search is not None
    model.leave()
    works[0]()
    assert ended == [search]
    assert len(search.offsets) < 500_000
    assert not model.take_results(search)
    assert model.search is search, "once more forgets it"
    model.leave()
    assert model.search is None


# bookmarks, selecting, copying


def test_bookmarks_are_gone_to_round_and_round(path: Path) -> None:
    reader = opened_file(path)
    reader.model.toggle_bookmark()
    reader.window.move_to_start()
    reader.model.lay_out()
    reader.model.toggle_bookmark()
    visited = []
    for _ in range(3):
        reader.model.lay_out()
        reader.model.go_to_bookmark()
        reader.model.lay_out()
        assert any(row.tint is Tint.BOOKMARK for row in reader.model.visible)
        visited.append("line 11" if "12:00:11 I line 11" in reader.shown else "line 1999")
    assert visited == ["line 1999", "line 11", "line 1999"]


def test_lines_are_selected_from_the_newest_up_and_copied_as_they_were_written(path: Path) -> None:
    reader = opened_file(path)
    reader.model.toggle_selection()
    reader.model.move_rows(-1)
    reader.model.move_rows(-1)
    assert reader.status == "3 lines selected: y copies, W writes, esc cancels"
    lines = [f"12:00:{n % 60:02d}    INFO line {n}" for n in (1997, 1998, 1999)]
    assert reader.model.copied() == ("\n".join(lines), "3 lines")
    assert [row.selected for row in reader.model.visible[-4:]] == [None, *[(0, 58)] * 3]
    reader.model.leave()
    assert "selected" not in reader.status
    text, description = reader.model.copied()
    assert (len(text.splitlines()), description) == (12, "12 lines")


def test_characters_are_copied_as_they_are_shown() -> None:
    reader = Reader(FakeLog("12:00:00    INFO 日本 loss", "second"))
    reader.model.lay_out()
    start, end = reader.model.position_at(11, 0), reader.model.position_at(2, 1)
    assert start is not None
    assert end is not None
    reader.model.select_through(end, start)
    assert reader.model.copied() == ("日本 loss\nsec", "parts of 2 lines")
    assert reader.status == "2 lines selected: y copies, W writes, esc cancels"
    reader.model.select_through(start, start)
    assert reader.status == "1 character selected: y copies, W writes, esc cancels"
    reader.model.lay_out()
    assert [row.selected for row in reader.model.visible] == [(11, 12), None]
    reader.model.select_word(TextPosition(0, 17))
    assert reader.model.copied() == ("loss", "")


def test_wrapped_lines_are_copied_as_one() -> None:
    text = "word " * 40
    reader = Reader(FakeLog(text, "end"))
    reader.model.toggle("wrap")
    reader.model.lay_out()
    start, end = reader.model.position_at(0, 0), reader.model.position_at(9, 1)
    assert start is not None
    assert end is not None
    reader.model.select_through(start, end)
    assert reader.model.copied()[0] == text[: reader.window.width + 10]


def test_a_selection_outlives_a_window_without_a_row() -> None:
    """Random keys found it: there was no row to count from."""
    reader, _ = opened()
    reader.model.toggle_selection()
    reader.model.move_rows(-2)
    reader.window.height = 0
    assert reader.status.startswith("3 lines selected")
    assert reader.model.copied()[0] == "\n".join(numbers(97, 100))


def test_what_was_chosen_is_restored(path: Path) -> None:
    reader = opened_file(path)
    reader.window.move_to_start()
    reader.model.toggle("wrap")
    reader.model.lay_out()
    reader.model.search_text("line 7$")
    state = reader.model.view_state
    assert state == {"wrap": True, "query": "line 7$", "only": False}
    again = opened_file(path)
    again.model.restore({**state, "level": "nonsense"})
    assert again.window.wrap
    again = opened_file(path)
    again.model.restore(state)
    assert again.model.search is not None


@pytest.mark.parametrize(
    ("text", "cell", "word"),
    [
        ("see a/b.py:3, now", 6, "a/b.py:3"),
        ("see a/b.py:3, now", 12, ","),
        ("日本 x", 1, "日本"),
        ("x", 5, ""),
    ],
)
def test_a_word_is_what_belongs_together(text: str, cell: int, word: str) -> None:
    first, last = word_at(text, cell)
    cells = [sign for sign in text for _ in range(2 if sign > "\u3000" else 1)]
    assert "".join(dict.fromkeys(cells[first:last])) in (word, "".join(dict.fromkeys(word)))


def test_a_place_is_returned_to_and_the_end_is_followed_again() -> None:
    log = FakeLog(*(f"line {number}" for number in range(30)))
    reader = Reader(log, height=3)
    assert reader.shown == ["line 27", "line 28", "line 29"]
    end = reader.model.place()
    reader.window.move_to_start()
    assert reader.shown[0] == "line 0"
    start = reader.model.place()
    reader.model.go_to_place(end)
    assert reader.shown[-1] == "line 29"
    assert reader.window.follow
    reader.model.go_to_place(start)
    assert reader.shown[0] == "line 0"
    assert not reader.window.follow
