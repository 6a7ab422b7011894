from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Box

from rltui.cli.parser import parse
from rltui.errors import UsageError


def test_a_step_is_a_number() -> None:
    assert parse(["restart", "--from", "0"]).begin == 0
    assert parse(["set", "lr=1", "--restart", "--from", "best"]).begin == "best"
    assert parse(["up", "rl.toml", "--from", "420"]).begin == 420
    with pytest.raises(UsageError, match="not a checkpoint: worst; use a step, last or best"):
        parse(["restart", "--from", "worst"])


@pytest.fixture
def run(counters: Box) -> Path:
    """The folder of an experiment that is stopped, with three checkpoints."""
    out = counters.work / "out"
    for step in (3, 6, 9):
        (out / "checkpoints" / f"step_{step}").mkdir(parents=True)
        (out / "checkpoints" / f"step_{step}" / "STABLE").write_text("x" * 100)
    return out


@pytest.mark.e2e
@pytest.mark.tmux
def test_a_life_with_checkpoints(counters: Box, run: Path) -> None:
    """Listed, pruned and gone back to, with a supervisor and without."""
    up = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    assert counters.json(*up, "--from", "last", "--plan")["archived"] == []
    planned = counters.json(*up, "--from", "6", "--plan")
    assert planned["start"] == ["inference", "orchestrator", "trainer"]
    assert planned["archived"] == [{"folder": "checkpoints", "steps": [9]}]
    assert not (run / ".rltui").exists(), "nothing is left of a plan"
    assert counters.json("runs") == {"runs": []}
    counters.json(*up, "--from", "6")
    assert "from checkpoint 6; earlier files are in" in counters.run("events").stdout
    listed = counters.json("checkpoints")
    assert [(each["step"], each["complete"]) for each in listed["checkpoints"]] == [(3, True), (6, True)]
    assert listed["archived_steps"] == [9], "a plain resume would have taken it"
    refused = counters.run("restart", "--from", "5", "--yes")
    assert refused.returncode == 3
    assert "complete: 3, 6" in refused.stderr
    plan = counters.json("restart", "--from", "3", "--plan")
    assert plan["stop"] == ["trainer", "orchestrator"]
    assert plan["archived"] == [{"folder": "checkpoints", "steps": [6]}]
    asked = counters.run("checkpoints", "prune", "--keep-last", "1")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "add --yes" in asked.stderr
    gone = counters.json("checkpoints", "prune", "--keep-last", "1", "--yes")
    assert [each["step"] for each in gone["delete"]] == [3]
    assert "deleted checkpoint 3" in counters.run("events").stdout
    counters.run("down")
    text = counters.run("checkpoints").stdout
    assert text.startswith("STEP")
    assert "6 " in text.splitlines()[1]
    done = json.loads(counters.run("checkpoints", "prune", "--set-aside", "--yes", "--json").stdout)
    assert done["done"] is True
    assert list((run / ".rltui" / "archive").iterdir()) == []
