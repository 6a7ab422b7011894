"""Tables in the width that there is."""

from __future__ import annotations

import pytest

from rltui.cli.colour import MARK, strip_style, style, switch
from rltui.cli.table import TableColumn, table_lines, width_of

COLUMNS = (
    TableColumn("NAME", least=10, cut="middle"),
    TableColumn("STEP", is_right=True),
    TableColumn("TAGS", goes=2),
    TableColumn("GPUS", goes=1),
    TableColumn("FOLDER", least=8, cut="start", goes=3),
)
ROWS = (
    ("reverse-text-sweep-lr1e-6", "4/200", "baseline", "2× H200", "/home/ada/outputs/one"),
    ("reverse-text-sweep-lr3e-6", "12", "", "2× H200", "/home/ada/outputs/other"),
)


def test_piped_nothing_is_cut_and_no_column_is_missing() -> None:
    lines = table_lines(COLUMNS, [(*row[:2], "", *row[3:]) for row in ROWS], width=None)
    assert lines == [
        "NAME                        STEP  TAGS  GPUS     FOLDER",
        "reverse-text-sweep-lr1e-6  4/200        2× H200  /home/ada/outputs/one",
        "reverse-text-sweep-lr3e-6     12        2× H200  /home/ada/outputs/other",
    ]


@pytest.mark.parametrize(
    ("width", "head", "first"),
    [
        (90, "NAME STEP TAGS GPUS FOLDER", "rev-lr1e-6 4/200 baseline 2× H200 /outputs/one"),
        (60, "NAME STEP TAGS GPUS FOLDER", "reverse…eep-lr1e-6 4/200 baseline 2× H200 …outputs/one"),
        (40, "NAME STEP TAGS GPUS", "rev…lr1e-6 4/200 baseline 2× H200"),
        (30, "NAME STEP GPUS", "rever…-lr1e-6 4/200 2× H200"),
        (20, "NAME STEP", "rev…lr1e-6 4/200"),
    ],
)  # fmt: skip
def test_a_terminal_gets_what_fits(width: int, head: str, first: str) -> None:
    lines = table_lines(COLUMNS, ROWS, width=width)
    assert max(map(width_of, lines)) <= width
    assert " ".join(lines[0].split()) == head
    told = lines[1].split()
    assert told[0][:3] == "rev"
    assert told[0].endswith("lr1e-6"), "what tells the runs apart is kept"
    assert len(told) == len(first.split())


def test_columns_in_which_nothing_stands_go() -> None:
    lines = table_lines(COLUMNS, [(*row[:2], "", "", row[4]) for row in ROWS], width=80)
    assert lines[0].split() == ["NAME", "STEP", "FOLDER"]


def test_what_differs_is_kept_wherever_it_stands() -> None:
    rows = [("reverse-text-a-with-all-the-rest-alike",), ("reverse-text-b-with-all-the-rest-alike",)]
    lines = table_lines([TableColumn("N", least=8, cut="middle")], rows, width=20)
    assert ["a-with" in lines[1], "b-with" in lines[2]] == [True, True]


def test_lines_by_themselves_are_wrapped_and_wide_signs_count_twice() -> None:
    rows = ["  ⚠ a sentence that is too long for this terminal", ("実験", "1", "", "", "")]
    lines = table_lines(COLUMNS, rows, width=30)
    assert lines[:2] == ["  ⚠ a sentence that is too", "  long for this terminal"]
    assert lines[2:] == ["NAME  STEP", "実験     1"]


def test_cells_are_one_line_of_what_can_be_seen() -> None:
    assert table_lines([TableColumn()], [("a\nb\x1b[31m",)], width=None) == ["a b␛[31m"]


def test_painted_cells_are_measured_without_their_marks() -> None:
    switch(is_on=True)
    try:
        cell = style("not answering", "bad")
        wide = table_lines([TableColumn("S", least=5), TableColumn("N")], [(cell, "x")], width=None)
        narrow = table_lines([TableColumn("S", least=5), TableColumn("N")], [(cell, "x")], width=10)
    finally:
        switch(is_on=False)
    assert strip_style(wide[1]) == "not answering  x"
    assert strip_style(narrow[1]) == "not an…  x"
    assert narrow[1].startswith(MARK)
