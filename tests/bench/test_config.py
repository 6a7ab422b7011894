"""What editing costs beside reading, and reading beside `tomllib`."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.base.toml.documents import long_document
from tests.bench.table import Row
from tests.bench.usage import middle

from rltui.base.toml import edit
from rltui.core.experiment.api import Request
from rltui.frameworks.generic import GENERIC
from rltui.services.config.document import ConfigDocument
from rltui.services.config.history import EditHistory
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import Journal

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

LINES, RUNS = 500, 41
EDIT_BUDGET_S = 0.01


def seconds(work: Callable[[int], object]) -> float:
    """The middle one of several runs."""
    times = []
    for number in range(RUNS):
        begun = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - begun)
    return middle(times)


def test_an_edit_of_500_lines(tmp_path: Path, table: list[Row]) -> None:
    text = long_document(LINES)
    path = tmp_path / "run.toml"
    path.write_text(text)
    parse_s = seconds(lambda _: tomllib.loads(text))
    table.append(
        Row(
            f"edit of a text, {LINES} lines",
            seconds(lambda n: edit.edit(text, {"table30.key": n + 1000})),
            "s",
            "tomllib.loads",
            parse_s,
            EDIT_BUDGET_S,
        )
    )
    document = ConfigDocument([path], GENERIC, components=["trainer"])
    table.append(Row("reading the config", seconds(lambda _: document.load()), "s", "tomllib.loads", parse_s))
    knobs_s = seconds(lambda _: document.knob_table({}))
    table.append(Row("knob table", knobs_s, "s", "tomllib.loads", parse_s))
    (tmp_path / "out/.rltui").mkdir(parents=True)
    control = ControlFolder(tmp_path / "out")
    history = EditHistory(control, Journal(control.journal_file))
    document = ConfigDocument([path], GENERIC, components=["trainer"], history=history)

    def write(number: int) -> None:
        request = Request(action="set", edits={"table30.key": number + 1000})
        document.commit(document.proposed(request))

    written = Row("edit, checked, written, journalled", seconds(write), "s", "tomllib.loads", parse_s)
    table.append(written)
    assert written.ratio is not None
    assert written.ratio < 60
    assert table[-4].ratio is not None
    assert table[-4].ratio < 6
