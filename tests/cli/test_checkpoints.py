from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Box

from rltui.cli.completion import candidates
from rltui.cli.parser import parse
from rltui.core.checkpoints import Checkpoint, CheckpointReport, PrunePlan, SetAside
from rltui.core.text import GIB
from rltui.errors import UsageError
from rltui.views.checkpoint import checkpoint_cells, checkpoint_summary, checkpoint_words, prune_rows


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ("restart trainer --from-checkpoint 420", "rltui restart --from STEP"),
        ("start --from-checkpoint=420", "rltui start --from STEP"),
        ("up rl.toml --from-checkpoint 420", "rltui up --resume-step STEP"),
    ],
)
def test_what_was_called_otherwise_says_what_it_is_now(line: str, now: str) -> None:
    with pytest.raises(UsageError, match="any more") as caught:
        parse(line.split())
    assert now in caught.value.hint
    assert candidates(["up", "--from-"]) == candidates(["restart", "--from-c"]) == []


def test_a_step_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["restart", "--from", "0"]).begin == 0
    assert parse(["set", "lr=1", "--restart", "--from", "best"]).begin == "best"
    assert parse(["up", "rl.toml", "--resume-step", "420"]).resume_step == 420
    with pytest.raises(SystemExit):
        parse(["restart", "--from", "worst"])
    assert "'worst' is no checkpoint: the step of one, last, or best" in capsys.readouterr().err


def test_a_line_per_checkpoint() -> None:
    whole = Checkpoint(
        step=420, at=1000.0, size_bytes=2 * GIB, complete=True, parts=("trainer", "orchestrator"), attempt=2,
        reward=0.914, reward_std=0.02, reward_after=0.031, evals={"a": 0.5, "b": 0.6},
        notes=("highest reward",),
    )  # fmt: skip
    assert checkpoint_cells(whole, 1720.0) == (
        "420", "12m", "0.91±0.02 → 0.03", "0.50 +1", "trainer orchestrator", "2.0 GiB", "#2", "highest reward"
    )  # fmt: skip
    told = "12m ago · reward 0.91±0.02 → 0.03 · eval 0.50 +1 · highest reward"
    assert checkpoint_words(whole, 1720.0) == told
    half = Checkpoint(step=5, missing=("trainer/.metadata", "orchestrator"))
    assert checkpoint_cells(half, 0.0)[-1] == "incomplete: no trainer/.metadata or orchestrator"


def test_the_summary_says_what_fits_and_what_was_set_aside() -> None:
    report = CheckpointReport(
        experiment="x", checkpoints=(Checkpoint(step=1, complete=True), Checkpoint(step=2)),
        total_bytes=3 * GIB, free_bytes=9 * GIB, fits=4, to_come=8, archive_bytes=GIB,
        set_aside=(SetAside(name="20261125-163000", steps=(7,)),),
    )  # fmt: skip
    assert checkpoint_summary(report) == [
        "1 complete, 1 incomplete, 3.0 GiB",
        "9.0 GiB free: 4 more fit, 8 to come",
        "restarts have set 1.0 GiB aside, checkpoints 7 among it",
    ]
    assert checkpoint_summary(CheckpointReport(experiment="x")) == ["no checkpoint is complete yet"]


def test_a_plan_that_deletes_nothing_says_so() -> None:
    assert prune_rows(PrunePlan()) == [("delete", "nothing"), ("free", "0 MiB")]


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
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out", "--resume-step", "6")
    assert "from checkpoint 6; earlier files are in" in counters.run("events").stdout
    listed = counters.json("checkpoints")
    assert [(each["step"], each["complete"]) for each in listed["checkpoints"]] == [(3, True), (6, True)]
    assert listed["archived_steps"] == [9], "a plain resume would have taken it"
    refused = counters.run("restart", "--from", "5", "--yes")
    assert refused.returncode == 3
    assert "it has: 3, 6" in refused.stderr
    plan = counters.json("restart", "--from", "3", "--plan")
    assert plan["stop"] == ["trainer", "orchestrator"]
    assert plan["archived"] == [{"folder": "checkpoints", "steps": [6]}]
    asked = counters.run("checkpoints", "--prune", "--keep-last", "1")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "add --yes" in asked.stderr
    gone = counters.json("checkpoints", "--prune", "--keep-last", "1", "--yes")
    assert [each["step"] for each in gone["delete"]] == [3]
    assert "deleted checkpoint 3" in counters.run("events").stdout
    counters.run("down")
    text = counters.run("checkpoints").stdout
    assert text.startswith("STEP")
    assert "6 " in text.splitlines()[1]
    done = json.loads(counters.run("checkpoints", "--prune", "--set-aside", "--yes", "--json").stdout)
    assert done["done"] is True
    assert list((run / ".rltui" / "archive").iterdir()) == []
