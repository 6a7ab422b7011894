"""`rltui runs`, and what people do with runs by the command line."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine
from tests.fakes.past_run import write_finished_run

from rltui.core.runs.row import RunId, RunRow
from rltui.services import screen_state
from rltui.services.runs import catalog, organize
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import change_metadata
from rltui.services.runs.references import find_run
from rltui.views.run_list import RunView


@pytest.fixture
def place(own_user: Path, tmp_path: Path) -> Path:
    """Runs `low` and `high`, `high` a fork of `low` with the better reward, in the sweep `lr`."""
    for name, steps in (("low", 3), ("high", 5)):
        write_finished_run(tmp_path / "out" / name, steps=steps)
    index = RunIndex()
    catalog.catch_up(index)
    parent = find_run(index, "low").id
    change_metadata(tmp_path / "out/high/.rltui", lambda sheet: replace(sheet, parent=parent))
    for name in ("s0", "s1"):
        write_finished_run(tmp_path / "out" / name, steps=1)
        catalog.catch_up(index)
        change_metadata(tmp_path / "out" / name / ".rltui", lambda sheet: replace(sheet, group="sweep"))
    return tmp_path


def test_the_list_in_all_shapes(place: Path, cli: CommandLine) -> None:
    def names(*arguments: str) -> list[str]:
        return [row["name"] for row in cli.json("runs", *arguments)["runs"]]

    lines = cli("runs").splitlines()
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
    (row,) = cli.json("runs", "high", "--columns", "reward.best,lr")["runs"]
    assert row["columns"]["reward.best"] == pytest.approx(0.3)
    assert isinstance(row["columns"]["lr"], float)
    rows = list(csv.DictReader(io.StringIO(cli("runs", "--csv", "--sort", "name"))))
    assert [each["name"] for each in rows] == ["high", "low", "s0", "s1"]
    assert (rows[0]["reward"], rows[0]["max_steps"]) == ("0.3", str(row["max_steps"]))
    assert cli("runs", "--csv", "--columns", "name,seed").splitlines()[0] == "name,seed"
    tree = cli("runs", "--group", "--sort", "name", "--columns", "name").splitlines()
    assert [line.strip() for line in tree[1:]] == ["low", "└ high", "sweep (2)", "├ s0", "└ s1"]
    assert "no run of 4 matches grpo\n" in cli("runs", "grpo")
    assert "(did you mean show?)" in cli("runs", "shwo", "high")


def test_what_is_not_understood_is_said(place: Path, cli: CommandLine) -> None:
    assert "did you mean reward?" in cli("runs", "rewrad > 1", code=2)
    assert "reward >\n          ^" in cli("runs", "reward >", code=2)
    assert "did you mean duration?" in cli("runs", "--sort", "durtion", code=2)
    assert "did you mean reward?" in cli("runs", "--columns", "name,rewrd", code=2)
    assert "prune needs a rule" in cli("runs", "prune", code=2)
    assert "not an age: soon" in cli("runs", "prune", "--older-than", "soon", code=2)
    assert "did you mean high?" in cli("runs", "tag", "hihg", "+x", code=2)
    assert "no run named" in cli("runs", "tag", "+x", code=2)
    assert "did you mean high?" in cli("hihg", code=2)


def test_words_of_people(place: Path, cli: CommandLine) -> None:
    assert cli("runs", "tag") == "no tags yet; add one: rltui runs tag RUN +baseline\n"
    assert cli("runs", "tag", "low", "high", "+a,b", "+c") == "low: a b c\nhigh: a b c\n"
    assert cli("runs", "tag", "high", "--remove", "a,c") == "high: b\n"
    assert cli("runs", "tag").split() == ["TAG", "RUNS", "a", "1", "b", "2", "c", "1"]
    assert cli.json("runs", "tag") == {"a": 1, "b": 2, "c": 1}
    assert cli("runs", "note", "low", "too", "low") == "too low\n"
    assert cli("runs", "note", "low") == "too low\n"
    assert cli("runs", "star", "high") == "high: ★\n"
    assert "★ high" in cli("runs", "tag:b", "is:best")
    assert cli("runs", "star", "--off", "high") == "high: star removed\n"
    cli("runs", "archive", "low", "nothing", code=2)
    assert cli("runs", "archive", "low") == "low: archived; listed by: rltui runs --all\n"
    assert cli("runs").splitlines()[-1] == "1 archived, not listed: rltui runs --all"
    assert cli("runs", "--limit", "1").splitlines()[-2:] == [
        "2 more than --limit 1",
        "1 archived, not listed: rltui runs --all",
    ]
    assert cli("runs", "--all", "--limit", "1").splitlines()[-1] == "3 more than --limit 1"
    assert "low" in cli("runs", "--all")
    assert "low" in cli("runs", "is:archived")
    (row,) = cli.json("runs", "unarchive", "low")
    assert (row["archived_at"], row["note"]) == (None, "too low")


def test_a_run_is_shown_whole_and_renamed(place: Path, cli: CommandLine) -> None:
    cli("runs", "note", "high", "the better one")
    lines = cli("runs", "show", "high").splitlines()
    assert lines[0].startswith("high · ")
    assert "note       the better one" in lines
    assert "from       forked from low" in lines
    assert any(line.startswith("config     ") for line in lines)
    document = cli.json("runs", "show", "high")
    assert (document["name"], document["note"]) == ("high", "the better one")
    assert f"config     {min(document['config'])}=" in "\n".join(lines)
    assert cli("runs", "rename", "high", "better") == "high is now better\n"
    assert "not found" in cli("status", "high", code=2)
    assert "better" in cli("status", "better")
    assert "is taken by" in cli("runs", "rename", "better", "low", code=4)


def test_old_ones_go_by_a_rule_and_come_back(place: Path, cli: CommandLine) -> None:
    cli("runs", "tag", "s0", "+paper")
    plan = json.loads(cli("runs", "prune", "--keep-best", "1", "--keep-tag", "paper", "--plan", "--json"))
    assert {each["name"] for each in plan["go"]} == {"low", "s1"}
    assert {each["name"]: each["why"] for each in plan["keep"]} == {"high": "the best", "s0": "tagged paper"}
    assert plan["frees_bytes"] == sum(each["bytes"] for each in plan["go"]) > 0
    assert (place / "out" / "low").is_dir()
    text = cli("runs", "prune", "group:sweep", "--keep-tag", "paper", "--yes")
    assert text.startswith("s1 in the trash; to restore: rltui runs restore s1; to free ")
    assert "rm" not in cli("runs", "rm", "low", "--yes")
    (s1,) = (each for each in cli.json("runs", "trash")["runs"] if each["name"] == "s1")
    assert Path(s1["folder"]).is_dir()
    assert cli("runs", "restore", s1["id"]) == "s1: restored\n"
    assert (place / "out" / "s1").is_dir()
    assert cli("runs", "trash", "--older-than", "1h") == "the trash is empty\n"
    assert "to confirm, add --yes" in cli("runs", "trash", "--empty", code=2)
    assert cli("runs", "trash", "--empty", "--yes").startswith("deleted; ")
    assert not list((place / "out").glob(".rltui-trash*"))
    assert "low" not in cli("runs", "--all", "--columns", "name")


def test_the_view_is_kept_and_a_damaged_one_is_the_usual(own_user: Path) -> None:
    view = RunView(("name", "reward.best", "optim.lr"), "reward.best", is_reversed=True, is_grouped=True)
    screen_state.save_state("runs", asdict(view))
    assert RunView.of(screen_state.load_state("runs")) == view
    screen_state.state_file("runs").write_text('{"columns": ["na me"], "sort": "", "is_reversed": 1}')
    assert RunView.of(screen_state.load_state("runs")) == RunView()
    screen_state.state_file("runs").write_text("[1")
    assert screen_state.load_state("runs") == {}


def test_thousands_are_listed_in_no_time(own_user: Path, cli: CommandLine) -> None:
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
    found = cli.json("runs", "reward >= 4000 and lr < 1", "--sort", "reward", "--full")["runs"]
    assert [each["name"] for each in found[:2]] == ["n4999", "n4998"]
    assert len(found) == 1000
    assert time.process_time() - begun < 20, "seconds on a loaded box; it takes half of one on an idle one"


def test_a_name_in_the_trash_is_not_the_one_that_is_meant(place: Path, cli: CommandLine) -> None:
    cli("runs", "rm", "low", "--yes")
    write_finished_run(place / "out" / "low")
    catalog.catch_up(index := RunIndex())
    assert not organize.is_in_trash(find_run(index, "low"))
    documents: list[dict[str, Any]] = cli.json("runs", "trash")["runs"]
    assert "already exists" in cli("runs", "restore", documents[0]["id"], code=4)
