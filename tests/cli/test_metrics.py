from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import CommandLine

from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.metrics.store import SeriesWriter


@pytest.fixture
def record(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentRecord:
    """An ended run whose store is up to date."""
    made = ExperimentRecord(
        name="demo", output_dir=str(tmp_path), workspace=str(tmp_path), config_files=(), layout_file="/l",
        framework="generic", created_at=1.0, observed=True,
    )  # fmt: skip
    monkeypatch.setattr("rltui.services.metrics.sources.update_series_store", lambda record: None)
    monkeypatch.setenv("COLUMNS", "80")
    ControlFolder(tmp_path).make()
    ControlFolder(tmp_path).write_record(made)
    writer = SeriesWriter(ControlFolder(tmp_path).series)
    for step in range(1, 31):
        loss = math.nan if step == 20 else 1 / step
        writer.add("trainer", {"loss/mean": loss, "optim/lr": 10.0 ** (-step / 5)}, at=1e9 + step, step=step)
        writer.add("orch", {"train/agg/effective/agent/reward/mean": step / 30}, at=1e9 + step, step=step)
    writer.rewind(28, 1e9 + 100)
    writer.add("inference", {"vllm:num_requests_running": 3.0, "evil\x1b[31m/name": 1.0}, at=1e9 + 15.5)
    writer.flush()
    return made


@pytest.mark.usefixtures("record")
def test_a_line_for_each_that_has_a_chart(cli: CommandLine) -> None:
    out = cli("metrics")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["METRIC", "NEWEST", "AT", "LOWEST", "HIGHEST", "POINTS", "SERIES"]
    assert rows[1][:4] == ["reward", "0.933", "step", "28"]
    assert "28, 1 non-finite" in out
    assert out.splitlines()[-1].startswith("1 more series: rltui metrics --all")


@pytest.mark.usefixtures("record")
def test_a_row_for_each_step(cli: CommandLine) -> None:
    out = cli("metrics", "loss", "reward", "--limit", "2", "--every", "8")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["step", "time", "loss", "reward"]
    assert [(row[0], row[3], row[4]) for row in rows[1:]] == [
        ("20", "NaN", "0.667"),
        ("28", "0.0357", "0.933"),
    ]
    assert "the newest 20 of 28" in cli("metrics", "loss")


@pytest.mark.usefixtures("record")
def test_csv_has_every_step_and_every_time(cli: CommandLine) -> None:
    rows = [*csv.reader(io.StringIO(cli("metrics", "loss", "running", "--csv")))]
    assert rows[0] == ["step", "time", "loss", "running"]
    assert len(rows) == 1 + 28 + 1
    assert ["", "1000000015.500", "", "3.0"] in rows
    assert ["20", "1000000020.000", "NaN", ""] in rows


@pytest.mark.usefixtures("record")
def test_json_has_what_a_resume_left_behind(cli: CommandLine) -> None:
    document = cli.json("metrics", "loss")
    assert document["experiment"] == "demo"
    assert document["rewinds"] == [{"step": 28, "at": 1e9 + 100}]
    series = document["series"][0]
    assert (series["source"], series["name"], series["label"]) == ("trainer", "loss/mean", "loss")
    assert series["steps"] == list(range(1, 29))
    assert series["values"][19] == "NaN"
    assert [branch["steps"] for branch in series["abandoned"]] == [[29, 30]]


def test_a_cursor_leaves_the_rows_that_are_new(record: ExperimentRecord, cli: CommandLine) -> None:
    cursor = cli.json("metrics", "loss", "--limit", "1")["cursor"]
    assert cli.json("metrics", "--since", cursor)["series"] == []
    writer = SeriesWriter(record.control.series)  # as a supervisor that was started again
    for step in (31, 32):
        writer.add("trainer", {"loss/mean": step, "optim/lr": 1.0}, at=2e9 + step, step=step)
        writer.flush()
    document = cli.json("metrics", "loss", "reward", "--since", cursor, "--fields", "label,steps")
    assert document["series"] == [{"label": "loss", "steps": [31, 32]}]
    assert cli.json("metrics", "--since", document["cursor"])["series"] == []
    assert "the cursor is of other metrics" in cli("metrics", "--since", "metrics@0,1-1", code=2)


@pytest.mark.usefixtures("record")
def test_drawn_between_the_lines(cli: CommandLine) -> None:
    out = cli("metrics", "loss", "lr", "--plot")
    assert "loss · newest 0.0357" in out
    assert "non-finite at step 20" in out
    assert "abandoned by a resume: steps 29 to 30" in out
    assert "logarithmic" in out
    assert any("\u2800" < sign < "\u28ff" for sign in out)
    assert max(map(len, out.splitlines())) <= 80
    plain = cli("metrics", "loss", "--plot", "--ascii")
    assert not any("\u2800" <= sign <= "\u28ff" for sign in plain)
    assert "|" in plain


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("loss/mean", ["loss/mean"]),
        ("trainer:loss/mean", ["loss/mean"]),
        ("^optim/", ["optim/lr"]),
        ("running", ["running"]),
        ("evil", ["evil\x1b[31m/name"]),
    ],
)
def test_names_and_patterns(cli: CommandLine, word: str, found: list[str]) -> None:
    document = cli.json("metrics", word)
    assert [series["label"] for series in document["series"]] == found


@pytest.mark.usefixtures("record")
def test_names_cannot_act_on_the_terminal(cli: CommandLine) -> None:
    for line in ("evil loss", "evil loss --plot", "evil loss --csv", "--all"):
        assert "\x1b" not in cli("metrics", *line.split())


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize(
    ("word", "title", "hint"),
    [
        ("los/mean", "no metric of this run matches los/mean", "loss/mean"),
        ("entropy", "this run has no entropy", "reward, loss, lr, running"),
        ("[", "not a metric or a regular expression: [ (", "--all"),
    ],
)
def test_what_is_not_there(word: str, title: str, hint: str, cli: CommandLine) -> None:
    error = cli("metrics", word, code=2)
    assert error.startswith(f"rltui: {title}")
    assert hint in error


def test_a_run_without_metrics(record: ExperimentRecord, cli: CommandLine) -> None:
    (record.control.series / "index.jsonl").unlink()
    assert "no metrics of demo yet" in cli("metrics", code=2)


@pytest.mark.usefixtures("record")
def test_a_drawing_of_several_lines(tmp_path: Path, cli: CommandLine) -> None:
    target = tmp_path / "lines.svg"
    assert cli("metrics", "reward", "loss", "--limit", "10", "--svg", str(target)) == ""
    drawing = ElementTree.parse(target).getroot()
    texts = [each.text or "" for each in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("reward and loss · ") for text in texts)
    assert "cannot write" in cli("metrics", "reward", "--svg", str(tmp_path / "no" / "folder.svg"), code=1)
