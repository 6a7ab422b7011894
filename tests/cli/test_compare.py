"""Runs that have ended, compared and exported by the command line."""

from __future__ import annotations

import csv
import io
import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.past_run import made
from tests.fakes.rollouts import write_flat_run

from rltui.cli import main
from rltui.core.runs import RunSheet
from rltui.services.runs import catalog
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.index import RunIndex
from rltui.services.runs.journal import Journal
from rltui.services.runs.run_sheet import change_sheet


@pytest.fixture
def place(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs `a` and `b`; `b` was forked from `a`, has another learning rate and comes further."""
    for name, steps in (("a", 3), ("b", 5)):
        record = made(tmp_path / "out" / name, steps=steps)
        if name == "b":
            _edit(tmp_path / "out" / "b", r"^lr = .*$", "lr = 0.125  # more | of it")
            write_flat_run(tmp_path / "out" / "b", (1, 2))
            journal = Journal(ControlFolder(Path(record.output_dir)).journal_file, clock=lambda: 1.8e9 + 2)
            journal.note("looks *good*, <b>really</b>")
    index = RunIndex()
    catalog.catch_up(index)
    parent = catalog.find_run(index, "a")

    def forked(sheet: RunSheet) -> RunSheet:
        return replace(sheet, parent=parent.id, tags=("t|1",))

    change_sheet(tmp_path / "out" / "b" / ".rltui", forked)
    catalog.catch_up(index)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _edit(folder: Path, pattern: str, line: str) -> None:
    for path in folder.glob(".rltui/components/*/attempt-1/config/rl.toml"):
        text, count = re.subn(pattern, line, path.read_text(), count=1, flags=re.MULTILINE)
        assert count == 1
        path.write_text(text)


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_runs_are_compared(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _json(capsys, "compare", "a", "b")
    key = next(iter(found["runs"][0]["config"]))
    assert [list(run["config"]) for run in found["runs"]] == [[key], [key]]
    assert key.endswith("lr")
    assert found["runs"][1]["config"][key] == 0.125
    reward = next(each for each in found["metrics"] if each["id"] == "reward")
    assert (reward["common_step"], reward["better"]) == (3, "higher")
    assert found["runs"][1]["metrics"]["reward"] == {"last": 0.5, "best": 0.5, "common": 0.3}

    assert main(["compare", "a", "b", "--metric", "loss", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row[key] for row in rows][1] == "0.125"
    assert float(rows[1]["loss.best"]) == pytest.approx(0.2)
    assert main(["compare", "a", "b"]) == 0
    table = capsys.readouterr().out
    assert re.search(rf"^{re.escape(key)} +\S+ +0.125$", table, re.MULTILINE)
    assert re.search(r"^reward at step 3 +0.3 +0.3$", table, re.MULTILINE)
    assert main(["compare", "a", "b", "--md"]) == 0
    escaped = key.replace("_", r"\_")
    assert f"| {escaped} |" in capsys.readouterr().out
    assert main(["compare", "a"]) == 2
    assert main(["compare", "a", "bb"]) == 2


def test_two_runs_are_told_apart_key_by_key_and_line_by_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _json(capsys, "diff", "a", "b")
    assert (found["before"], found["after"]) == ("a", "b")
    assert [(each["key"].rpartition(".")[2], each["after"]) for each in found["keys"]] == [("lr", 0.125)]
    assert main(["diff", "a", "b", "--text"]) == 0
    assert "+lr = 0.125  # more | of it\n" in capsys.readouterr().out
    assert main(["diff", "a", "trainer"]) == 2
    assert "no run 'trainer'" in capsys.readouterr().err


def test_a_report_says_what_there_is_and_links_to_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(_json(capsys, "export", "b", "--rollouts", "2")["folder"])
    assert folder == place / "b-report"
    text = (folder / "report.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert {link.split("/")[0] for link in links} == {
        "curves", "configs", "diffs", "rollouts", "journal.jsonl"
    }  # fmt: skip
    assert all((folder / link).is_file() for link in links)
    assert "![Reward](curves/reward.svg)" in text
    assert (folder / "curves/reward.svg").read_text().startswith("<svg")
    assert "+lr = 0.125" in text
    assert r"looks \*good\*, \<b\>really\</b\>" in text
    assert r"| tags | t\|1 |" in text
    assert len((folder / "rollouts/best.jsonl").read_text().splitlines()) == 2
    assert main(["export", "b", "-o", str(folder)]) == 4
    again = Path(_json(capsys, "export", "b")["folder"])
    assert again == place / "b-report-2"


@contextmanager
def disk_full_after(size: int) -> Iterator[None]:
    """No file grows beyond that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_report_that_cannot_be_written_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk_full_after(2048):
        code = main(["export", "b", "-o", "full"])
    assert code == 1
    told = capsys.readouterr().err
    assert "cannot write the report" in told
    assert "nothing of it was left" in told
    assert sorted(path.name for path in place.iterdir() if "full" in path.name) == []
