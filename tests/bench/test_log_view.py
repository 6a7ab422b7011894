"""What it costs to page through a log, with and without matches, beside reading lines with colours."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from rich.style import Style
from tests.bench.table import Row
from tests.bench.test_log_search import coloured, plain
from tests.fakes.log import FakeLog

from rltui.core.logs.lines import parse_line
from rltui.core.logs.query import Query
from rltui.ui.logs.model import LogModel
from rltui.ui.logs.painter import PARTS, LogPainter

pytestmark = pytest.mark.bench

WIDTH, HEIGHT, PAGES, TURNS = 160, 48, 60, 7
LINES = 20_000


def milliseconds(run: Callable[[], object]) -> float:
    """CPU time of a page, whatever else runs; the best of some turns."""
    spent = []
    for _ in range(TURNS):
        started = time.process_time()
        run()
        spent.append(time.process_time() - started)
    return 1000 * min(spent) / PAGES


@pytest.mark.parametrize("line", [plain, coloured])
@pytest.mark.parametrize(("query", "most"), [(None, 4.5), ("Loss", 5.5), ("[0-9]+", 8.0)])
def test_paging_beside_reading(
    table: list[Row], line: Callable[[int], str], query: str | None, most: float
) -> None:
    lines, peers = ([make(number).rstrip("\n") for number in range(LINES)] for make in (line, coloured))
    model, painter = LogModel(lambda work: work(), lambda search: None), LogPainter()
    painter.set_styles(Style(), dict.fromkeys(PARTS, Style()), colourless=False)
    model.window.width, model.window.height = WIDTH, HEIGHT
    model.set_log(FakeLog(*lines))
    model.window.query = Query.from_text(query) if query else None
    model.lay_out()

    def page() -> None:
        for _ in range(PAGES):
            model.scroll_pages(-1)
            model.lay_out()
            painter.forget_others(model.visible)
            for row in model.visible:
                painter.row(row, 0, WIDTH)

    def read() -> None:
        for number in range(PAGES * (HEIGHT - 1)):
            parse_line(peers[-number - 1])

    ours, peer = milliseconds(page), milliseconds(read)
    what = f"a page of {line.__name__} lines, {query or 'no search'}"
    table.append(Row(what, ours, "ms", "parse_line, coloured", peer, most * peer))
    assert ours < most * peer
