"""What is written to the terminal makes it show what is wanted, in few bytes."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from tests.screen_model import Paint, ScreenModel
from textual.strip import Strip

from rltui.ui.terminal.cells import PLAIN, Cells, CellStyle, transition

WIDTH, HEIGHT = 24, 5
COLORS = ColorSystem.TRUECOLOR
STYLES = [
    None,
    Style.parse("red"),
    Style.parse("#102030 on #405060"),
    Style.parse("on #405060"),
    Style.parse("bold #102030"),
    Style.parse("dim bold on color(9)"),
    Style.parse("underline"),
    Style.parse("reverse red"),
    Style.parse("strike italic color(200)"),
    Style.parse("underline2 overline on blue"),
]
TEXTS = ["a", "abc", "  ", " ", "é", "·", "●✓", "漢", "漢字", "e\u0301", "한", "x漢", "𝒳", "🙂", "─│", "end"]
HOSTILE = "a\x1b[31mb\x07\x9b2Jc\u202ed\r\ne\tf\x00\x1b]0;t\x07g\u200bh"


def screen(*rows: str) -> Cells:
    cells = Cells(WIDTH, len(rows))
    for y, text in enumerate(rows):
        put(cells, y, text.ljust(WIDTH))
    return cells


def put(cells: Cells, y: int, text: str, style: Style | None = None, *, x: int = 0) -> None:
    cells.draw(x, y, Strip([Segment(text, style)]), COLORS)


@pytest.mark.parametrize("seed", range(15))
def test_any_changes_show_what_a_full_paint_shows(seed: int) -> None:
    rng = random.Random(seed)
    cells, terminal = Cells(WIDTH, HEIGHT), ScreenModel(WIDTH, HEIGHT)
    for _ in range(30):
        for _ in range(rng.randrange(1, 6)):
            segments = [Segment(rng.choice(TEXTS), rng.choice(STYLES)) for _ in range(rng.randrange(1, 5))]
            cells.draw(rng.randrange(WIDTH), rng.randrange(HEIGHT), Strip(segments), COLORS)
        terminal.feed(cells.changes().encode())
        fresh = ScreenModel(WIDTH, HEIGHT)
        cells.invalidate()
        fresh.feed(cells.changes().encode())
        assert terminal.seen() == fresh.seen()
        assert not terminal.unknown
        assert terminal.paint == Paint()


def test_what_is_shown_is_not_written_again() -> None:
    cells = screen("loss 0.25", "step 12")
    assert "loss 0.25" in cells.changes()
    put(cells, 0, "loss 0.25")
    put(cells, 1, "step 12", Style.parse("not bold"))
    assert cells.changes() == ""


def test_only_changed_cells_are_written() -> None:
    cells = screen("23:33:20 INFO Step 12", "unchanged")
    cells.changes()
    put(cells, 0, "23:33:20 INFO Step 13")
    assert cells.changes() == "\x1b[1;21H3"


def test_far_changes_of_a_row_are_jumped_to() -> None:
    cells = screen("a           b")
    cells.changes()
    put(cells, 0, "x           y")
    assert cells.changes() == "\x1b[1;1Hx\x1b[11Cy"


def test_colour_of_letters_does_not_matter_on_blanks() -> None:
    cells = screen("   ")
    cells.changes()
    put(cells, 0, "   ", Style.parse("bold red"))
    assert cells.changes() == ""
    put(cells, 0, "   ", Style.parse("underline red"))
    assert cells.changes() != ""


def test_a_terminal_that_shows_anything_is_painted_anew() -> None:
    cells = screen("one", "two")
    first = cells.changes()
    cells.invalidate()
    assert cells.changes() == first


def test_hostile_text_has_no_effect_but_its_letters() -> None:
    cells = screen(HOSTILE)
    terminal = ScreenModel(WIDTH, 1)
    terminal.feed(cells.changes().encode())
    assert not terminal.unknown
    shown = "".join(char for char, _ in terminal.rows[0])
    assert shown.replace(" ", "") == "abcdefgh"


def test_text_after_hostile_text_stays_in_its_column() -> None:
    cells = Cells(WIDTH, 1)
    strip = Strip([Segment("\tx\x1b[1m"), Segment("|")])
    cells.draw(0, 0, strip, COLORS)
    terminal = ScreenModel(WIDTH, 1)
    terminal.feed(cells.changes().encode())
    assert terminal.rows[0][strip.cell_length - 1][0] == "|"


def test_what_does_not_fit_is_left_out() -> None:
    cells = Cells(3, 1)
    put(cells, 0, "abcdef")
    put(cells, 0, "漢", x=2)
    put(cells, 7, "below")
    terminal = ScreenModel(3, 1)
    terminal.feed(cells.changes().encode())
    assert [char for char, _ in terminal.rows[0]] == ["a", "b", " "]


def test_the_column_is_told_after_letters_of_doubtful_width() -> None:
    cells = screen("⚠ low memory")
    assert "⚠\x1b[2G low memory" in cells.changes()


@pytest.mark.parametrize("seed", range(20))
def test_transitions_reach_any_look_from_any_other(seed: int) -> None:
    rng = random.Random(seed)
    colours = ["", "31", "38;5;200", "38;2;1;2;3"]
    look = PLAIN
    paint = Paint()
    for _ in range(50):
        after = CellStyle(rng.choice(colours), rng.choice(colours).replace("3", "4", 1), rng.getrandbits(13))
        sequence = transition(look, after)
        codes = [int(code or 0) for code in sequence[2:-1].split(";")] if sequence else []
        paint = paint.after(codes)
        assert paint == Paint().after([int(code or 0) for code in transition(PLAIN, after)[2:-1].split(";")])
        look = after


def test_transition_tells_only_the_difference() -> None:
    background = "48;2;18;18;18"
    before, after = CellStyle("38;2;1;2;3", background), CellStyle("38;2;4;5;6", background)
    assert transition(before, after) == "\x1b[38;2;4;5;6m"
    assert transition(after, PLAIN) == "\x1b[m"


@pytest.mark.slow
def test_thousands_of_log_lines_with_signs_leave_little_behind() -> None:
    cells = Cells(160, 1)
    put(cells, 0, "│".ljust(160))
    tracemalloc.start()
    try:
        for step in range(5000):
            put(cells, 0, f"step {step} │ reward {step / 7:.6f} ▁▂▃▅▆▇█ → next".ljust(160))
        left_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (
        left_bytes < 4_000_000
    )  # 3 MB, of which half is in caches of Rich; 11 MB with an object for each character
