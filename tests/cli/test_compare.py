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
from tests.cli.conftest import CommandLine
from tests.fakes.past_run import write_finished_run
from tests.fakes.rollouts import write_flat_run

from rltui.cli import main
from rltui.core.runs.evals import Evaluation
from rltui.core.runs.row import RunMetadata
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import Journal
from rltui.services.runs import catalog
from rltui.services.runs.evaluations import EvalFolder
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import change_metadata
from rltui.services.runs.references import find_run


@pytest.fixture
def place(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs `a` and `b`; `b` was forked from `a`, has another learning rate and comes further."""
    for name, steps in (("a", 3), ("b", 5)):
        record = write_finished_run(tmp_path / "out" / name, steps=steps)
        if name == "b":
            _edit(tmp_path / "out" / "b", r"^lr = .*$", "lr = 0.125  # more | of it")
            write_flat_run(tmp_path / "out" / "b", (1, 2))
            journal = Journal(record.control.journal_file, clock=lambda: 1.8e9 + 2)
            journal.note("looks *good*, <b>really</b>")
    index = RunIndex()
    catalog.catch_up(index)
    parent = find_run(index, "a")

    def forked(sheet: RunMetadata) -> RunMetadata:
        return replace(sheet, parent=parent.id, tags=("t|1",))

    change_metadata(tmp_path / "out" / "b" / ".rltui", forked)
    catalog.catch_up(index)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _edit(folder: Path, pattern: str, line: str) -> None:
    for path in folder.glob(".rltui/components/*/attempt-1/config/rl.toml"):
        text, count = re.subn(pattern, line, path.read_text(), count=1, flags=re.MULTILINE)
        assert count == 1
        path.write_text(text)


def test_runs_are_compared(place: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    found = cli.json("runs", "compare", "a", "b")
    key = next(iter(found["runs"][0]["config"]))
    assert [list(run["config"]) for run in found["runs"]] == [[key], [key]]
    assert key.endswith("lr")
    assert found["runs"][1]["config"][key] == 0.125
    reward = next(each for each in found["metrics"] if each["id"] == "reward")
    assert (reward["common_step"], reward["better"]) == (3, "higher")
    of_b = found["runs"][1]["metrics"]["reward"]
    assert (of_b["last"], of_b["common"]) == (0.5, 0.3)
    assert (of_b["best"], of_b["level"]["mean"]) == (pytest.approx(0.3), pytest.approx(0.3))
    assert of_b["common_level"]["steps"] == 3
    assert "to know which run is better" in found["remark"]

    rows = list(csv.DictReader(io.StringIO(cli("runs", "compare", "a", "b", "--metric", "loss", "--csv"))))
    assert [row[key] for row in rows][1] == "0.125"
    assert float(rows[1]["loss.last"]) == pytest.approx(0.2)
    assert float(rows[1]["loss.level.mean"]) == pytest.approx(0.457, abs=1e-3)
    assert main(["runs", "compare", "a", "b"]) == 0
    table, remark = capsys.readouterr()
    assert "▲" not in table
    assert "± is the std over steps" in remark
    assert re.search(rf"^{re.escape(key)} +\S+ +0.125$", table, re.MULTILINE)
    assert re.search(r"^reward to step 3 +0.2 ± 0.1 +0.2 ± 0.1$", table, re.MULTILINE)
    assert main(["runs", "compare", "a", "b", "--md"]) == 0
    escaped = key.replace("_", r"\_")
    assert f"| {escaped} |" in capsys.readouterr().out
    assert main(["runs", "compare", "a"]) == 2
    assert main(["runs", "compare", "a", "bb"]) == 2


def test_a_verdict_on_two_groups_of_seeds(
    own_user: Path, tmp_path: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs of the same seed are one measurement; `b` is worse only once three seeds say so."""
    for name, seed, height in (
        *(("a0", 0, 9), ("a1", 1, 9.1), ("a2", 2, 9.2), ("again", 0, 9)),
        *(("b0", 0, 5), ("b1", 1, 5.1), ("b2", 2, 5.2)),
    ):
        write_finished_run(tmp_path / "out" / name, steps=12)
        _edit(tmp_path / "out" / name, r"^seed = 0", f"seed = {seed}")
        path = tmp_path / "out" / name / "metrics.jsonl"
        rows = [{**json.loads(line), "time": 1.8e9} for line in path.read_text().splitlines()]
        reward = "train/agg/effective/agent/reward/mean"
        lines = [json.dumps({**row, reward: height / 10} if reward in row else row) for row in rows]
        path.write_text("".join(f"{line}\n" for line in lines))
    catalog.catch_up(RunIndex())

    def verdict(*words: str) -> dict[str, Any]:
        text = cli("runs", "compare", *words, "--json")
        assert len(text) <= 400
        document: dict[str, Any] = json.loads(text)
        return document

    found = verdict("a0", "a1", "a2", "--with", "b0", "b1", "b2")
    assert (found["diff"], found["verdict"], found["n"], found["seeds"]) == (-0.4, "worse", 6, 3)
    assert found["ci95"] == [pytest.approx(-0.4 - 0.02267, abs=1e-4), pytest.approx(-0.4 + 0.02267, abs=1e-4)]
    assert (found["on"], found["next"]) == ("reward to step 12", "")
    assert verdict("b0", "b1", "b2", "--with", "a0", "a1", "a2")["verdict"] == "better"
    alike = verdict("a0", "again", "--with", "b0")
    assert (alike["verdict"], alike["n"], alike["seeds"]) == ("undistinguishable", 2, 1)
    assert "2 more" in alike["next"]
    without = verdict("a0", "--with", "b0", "b1", "--on", "eval")
    assert (without["diff"], without["next"]) == (
        None,
        "no eval of a0, b0 and b1: rltui eval run a0 --from last",
    )
    assert cli("runs", "compare", "a0", "a1", "--with", "b0", "b1").startswith("worse: -0.4 (95 %: ")
    assert "on both sides" in cli("runs", "compare", "a0", "a1", "--with", "a0", code=2)
    assert "no table" in cli("runs", "compare", "a0", "--with", "b0", "--md", code=2)
    assert "needs --with" in cli("runs", "compare", "a0", "b0", "--on", "eval", code=2)


def test_runs_are_compared_by_their_evaluations(
    place: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, shift, seed in (("a", 0.0, 0), ("b", 0.1, 0), ("b", 0.1, 1)):
        rewards = {f"{seed}-{at}": at / 10 + shift + at % 3 / 100 for at in range(8)}
        folder = EvalFolder(ControlFolder(place / "out" / name))
        folder.save(
            Evaluation(
                id=folder.new(folder.queue()), at=1.0 + seed, experiment=name, kind="checkpoint",
                label="checkpoint 5", env="x", num_examples=8, rollouts=8, rollouts_per_example=1,
                mean=0.4 + shift, stderr=0.1, verdict="ok", rewards=rewards,
            )
        )  # fmt: skip
        if seed == 0 and name == "b":
            (found,) = cli.json("runs", "compare", "a", "b")["evaluations"]
            assert [each["mean"] for each in found["of"]] == [0.4, 0.5]
            gap = found["differences"][1]
            assert (gap["standing"], gap["examples"]) == ("better", 8)
            assert gap["ci95"][0] <= gap["value"] == pytest.approx(0.1)
            assert main(["runs", "compare", "a", "b"]) == 0
            table, remark = capsys.readouterr()
            assert re.search(r"^x, against a +— +\+0.100 ± 0.000 ▲$", table, re.MULTILINE)
            assert remark == ""
    assert main(["runs", "compare", "a", "b"]) == 0
    table, remark = capsys.readouterr()
    assert "(other examples)" in table
    assert "their evaluations used different examples" in remark

    found = cli.json("eval", "--all")
    assert [each["id"] for each in found["evaluations"]] == ["a/1", "b/1", "b/2"]
    assert [(each["id"], each["to"], each["to_experiment"]) for each in found["differences"]] == [
        ("b/2", "b/1", "b")
    ], "what suggests itself is of the same run"
    (gap,) = cli.json("eval", "compare", "b", "a/1")["differences"][:1]
    assert (gap["id"], gap["experiment"], gap["to"], gap["standing"]) == ("1", "b", "a/1", "better")
    assert main(["eval", "compare", "b", "a/7"]) == 2


def test_two_runs_are_told_apart_key_by_key_and_line_by_line(place: Path, cli: CommandLine) -> None:
    found = cli.json("diff", "a", "b")
    assert (found["before"], found["after"]) == ("a", "b")
    assert [(each["key"].rpartition(".")[2], each["after"]) for each in found["keys"]] == [("lr", 0.125)]
    assert "+lr = 0.125  # more | of it\n" in cli("diff", "a", "b", "--text")
    assert "run not found: trainer" in cli("diff", "a", "trainer", code=2)
    cli("diff", "a", "b", "a", code=2)


def test_a_report_says_what_there_is_and_links_to_it(place: Path, cli: CommandLine) -> None:
    folder = Path(cli.json("runs", "export", "b", "--rollouts", "2")["folder"])
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
    assert main(["runs", "export", "b", "-o", str(folder)]) == 4
    again = Path(cli.json("runs", "export", "b")["folder"])
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
        code = main(["runs", "export", "b", "-o", "full"])
    assert code == 1
    told = capsys.readouterr().err
    assert "cannot write the report" in told
    assert "no partial report was left" in told
    assert sorted(path.name for path in place.iterdir() if "full" in path.name) == []
