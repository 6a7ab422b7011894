"""`rltui runs`, and what people do with runs by the command line."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.fakes.past_run import write_finished_run

from rltui.cli import main
from rltui.core.runs import RunId, RunRow
from rltui.services import screen_state
from rltui.services.runs import catalog, organize
from rltui.services.runs.index import RunIndex
from rltui.services.runs.run_metadata import change_metadata
from rltui.views.run_list import RunView


@pytest.fixture
def place(own_user: Path, tmp_path: Path) -> Path:
    """Runs `low` and `high`, `high` a fork of `low` with the better reward, in the sweep `lr`."""
    for name, steps in (("low", 3), ("high", 5)):
        write_finished_run(tmp_path / "out" / name, steps=steps)
    index = RunIndex()
    catalog.catch_up(index)
    parent = catalog.find_run(index, "low").id
    change_metadata(tmp_path / "out/high/.rltui", lambda sheet: replace(sheet, parent=parent))
    for name in ("s0", "s1"):
        write_finished_run(tmp_path / "out" / name, steps=1)
        catalog.catch_up(index)
        change_metadata(tmp_path / "out" / name / ".rltui", lambda sheet: replace(sheet, group="sweep"))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What it prints, or says on stderr where it fails."""
    assert main(list(arguments)) == code
    out, err = capsys.readouterr()
    return str(err if code else out)


def test_the_list_in_all_shapes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def names(*arguments: str) -> list[str]:
        return [row["name"] for row in json.loads(told(capsys, "runs", "--json", *arguments))]

    lines = told(capsys, "runs").splitlines()
    assert lines[0].split() == [
        "NAME",
        "STATE",
        "STEP",
        "TREND",
        "REWARD(10)",
        "AGE",
        "DURATION",
        *lines[0].split()[7:],
    ]
    assert len(lines) == 5
    assert names("--sort", "reward")[:2] == ["high", "low"]
    assert names("--sort", "reward", "--reverse")[-2:] == ["low", "high"]
    assert names("--sort", "name") == ["high", "low", "s0", "s1"]
    assert names("--sort", "name", "--limit", "1") == ["high"]
    assert names("reward > 0.1 and max_steps > 1", "--sort", "name") == ["high", "low"]
    assert names("is:fork") == ["high"]
    assert names("parent:low") == ["high"]
    (row,) = json.loads(told(capsys, "runs", "high", "--json", "--columns", "reward.best,lr"))
    assert row["columns"]["reward.best"] == pytest.approx(0.3)
    assert isinstance(row["columns"]["lr"], float)
    rows = list(csv.DictReader(io.StringIO(told(capsys, "runs", "--csv", "--sort", "name"))))
    assert [each["name"] for each in rows] == ["high", "low", "s0", "s1"]
    assert (rows[0]["reward"], rows[0]["max_steps"]) == ("0.3", str(row["max_steps"]))
    assert told(capsys, "runs", "--csv", "--columns", "name,seed").splitlines()[0] == "name,seed"
    tree = told(capsys, "runs", "--group", "--sort", "name", "--columns", "name").splitlines()
    assert [line.strip() for line in tree[1:]] == ["low", "└ high", "sweep (2)", "├ s0", "└ s1"]
    assert "none of 4 runs is meant by: grpo" in told(capsys, "runs", "grpo")


def test_what_is_not_understood_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean reward?" in told(capsys, "runs", "rewrad > 1", code=2)
    assert "reward >\n          ^" in told(capsys, "runs", "reward >", code=2)
    assert "did you mean duration?" in told(capsys, "runs", "--sort", "durtion", code=2)
    assert "did you mean reward?" in told(capsys, "runs", "--columns", "name,rewrd", code=2)
    assert "--keep-last says nothing without --prune" in told(capsys, "runs", "--keep-last", "3", code=2)
    assert "would keep nothing" in told(capsys, "runs", "--prune", code=2)
    assert "'soon' is no age" in told(capsys, "runs", "--prune", "--older-than", "soon", code=2)
    assert "did you mean high?" in told(capsys, "tag", "hihg", "+x", code=2)
    assert "of which run?" in told(capsys, "tag", "+x", code=2)
    assert "did you mean high?" in told(capsys, "hihg", code=2)


def test_words_of_people(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "tag") == "no tags yet; add one: rltui tag RUN +baseline\n"
    assert told(capsys, "tag", "low", "high", "+a,b", "+c") == "low: a b c\nhigh: a b c\n"
    assert told(capsys, "tag", "high", "--remove", "a,c") == "high: b\n"
    assert told(capsys, "tag").split() == ["TAG", "RUNS", "a", "1", "b", "2", "c", "1"]
    assert json.loads(told(capsys, "tag", "--json")) == {"a": 1, "b": 2, "c": 1}
    assert told(capsys, "describe", "low", "too", "low") == "too low\n"
    assert told(capsys, "describe", "low") == "too low\n"
    assert told(capsys, "best", "high") == "high: marked as best\n"
    assert "★ high" in told(capsys, "runs", "tag:b", "is:best")
    assert told(capsys, "best", "--remove", "high") == "high: not marked any more\n"
    told(capsys, "archive", "low", "nothing", code=2)
    assert told(capsys, "archive", "low") == "low: archived; see: rltui runs --all\n"
    assert told(capsys, "runs").splitlines()[-1] == "1 archived, not listed: rltui runs --all"
    assert told(capsys, "runs", "--limit", "1").splitlines()[-2:] == [
        "2 more, beyond --limit 1",
        "1 archived, not listed: rltui runs --all",
    ]
    assert told(capsys, "runs", "--all", "--limit", "1").splitlines()[-1] == "3 more, beyond --limit 1"
    assert "low" in told(capsys, "runs", "--all")
    assert "low" in told(capsys, "runs", "is:archived")
    (row,) = json.loads(told(capsys, "unarchive", "low", "--json"))
    assert (row["archived_at"], row["note"]) == (None, "too low")


def test_old_ones_go_by_a_rule_and_come_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "tag", "s0", "+paper")
    plan = json.loads(
        told(capsys, "runs", "--prune", "--keep-best", "1", "--keep-tag", "paper", "--plan", "--json")
    )
    assert {each["name"] for each in plan["go"]} == {"low", "s1"}
    assert {each["name"]: each["why"] for each in plan["keep"]} == {"high": "the best", "s0": "tagged paper"}
    assert plan["frees_bytes"] == sum(each["bytes"] for each in plan["go"]) > 0
    assert (place / "out" / "low").is_dir()
    text = told(capsys, "runs", "group:sweep", "--prune", "--keep-tag", "paper", "--yes")
    assert text.startswith("s1 in the trash; back: rltui restore RUN; to free ")
    assert "rm" not in told(capsys, "rm", "low", "--yes")
    (s1,) = (each for each in json.loads(told(capsys, "trash", "--json")) if each["name"] == "s1")
    assert Path(s1["folder"]).is_dir()
    assert told(capsys, "restore", s1["id"]) == "s1: is back\n"
    assert (place / "out" / "s1").is_dir()
    assert told(capsys, "trash", "--older-than", "1h") == "the trash is empty\n"
    assert "add --yes if that is meant" in told(capsys, "trash", "--empty", code=2)
    assert told(capsys, "trash", "--empty", "--yes").startswith("deleted; ")
    assert not list((place / "out").glob(".rltui-trash*"))
    assert "low" not in told(capsys, "runs", "--all", "--columns", "name")


def test_the_view_is_kept_and_a_damaged_one_is_the_usual(own_user: Path) -> None:
    view = RunView(("name", "reward.best", "optim.lr"), "reward.best", is_reversed=True, is_grouped=True)
    screen_state.save_state("runs", asdict(view))
    assert RunView.of(screen_state.load_state("runs")) == view
    screen_state.state_file("runs").write_text('{"columns": ["na me"], "sort": "", "is_reversed": 1}')
    assert RunView.of(screen_state.load_state("runs")) == RunView()
    screen_state.state_file("runs").write_text("[1")
    assert screen_state.load_state("runs") == {}


def test_thousands_are_listed_in_no_time(own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        RunRow(
            id=RunId(f"r{at:09}"),
            created_at=float(at),
            name=f"n{at}",
            folder=f"/o/{at}",
            metrics={"reward": (at, at)},
        )
        for at in range(5000)
    ]
    index = RunIndex()
    index.put((row, {"optim.lr": 1e-6, "seed": 1}) for row in rows)
    begun = time.process_time()
    found = orjson.loads(told(capsys, "runs", "reward >= 4000 and lr < 1", "--sort", "reward", "--json"))
    assert [each["name"] for each in found[:2]] == ["n4999", "n4998"]
    assert len(found) == 1000
    assert time.process_time() - begun < 20, "seconds on a loaded box; it takes half of one on an idle one"


def test_a_name_in_the_trash_is_not_the_one_that_is_meant(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "rm", "low", "--yes")
    write_finished_run(place / "out" / "low")
    catalog.catch_up(index := RunIndex())
    assert not organize.is_in_trash(catalog.find_run(index, "low"))
    documents: list[dict[str, Any]] = json.loads(told(capsys, "trash", "--json"))
    assert "something else is at" in told(capsys, "restore", documents[0]["id"], code=4)
