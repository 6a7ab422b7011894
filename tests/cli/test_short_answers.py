"""What programs are answered is short unless they ask for more, and says what is missing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.past_run import write_finished_run
from tests.params import slow_but

from rltui.cli import main, output

LISTS = {
    "events one": "events",
    "logs one/trainer": "lines",
    "logs one --grep line": "lines",
    "metrics one": "series",
    "knobs one": "knobs",
    "knobs one --all": "knobs",
    "keys": "keys",
    "runs": "runs",
    "runs --columns +lr": "runs",
    "status --all": "runs",
}
FEW = {"events one", "metrics one", "runs"}
DOCUMENTS = (
    "status one", "status", "status --brief", "describe one", "why one", "diff one", "gpus",
    "gpus orphans one", "doctor", "queue", "eval one", "checkpoints one", "runs show one", "runs trash",
    "runs compare one past-1", "runs compare one past-1 --all-keys", "runs prune --keep-last 1 --plan",
    "down --all --plan", "logs one", "metrics one --all", "rollouts one", "init --list",
)  # fmt: skip


def answer(line: str, capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    code = main([*shlex.split(line), "--json"] if "--json" not in line else shlex.split(line))
    out, err = capfd.readouterr()
    assert code in (0, 1), (line, err)
    return out


def write_runs(folder: Path, *, runs: int, steps: int) -> None:
    """The run `one`, with as many events and lines of a log as steps, and others."""
    for number in range(runs):
        write_finished_run(folder / f"past-{number}")
    record = write_finished_run(folder / "one", steps=steps)
    events = (
        {"at": 1.8e9 + step, "kind": "checkpoint", "text": f"checkpoint {step}"} for step in range(steps)
    )
    record.control.journal_file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    lines = "".join(f"12:00:00    INFO line {step} of the trainer\n" for step in range(steps))
    record.control.log_file("trainer", 1).write_text(lines)


@pytest.mark.parametrize("lines", slow_but({"few": FEW, "all": LISTS.keys() - FEW}, "few"))
def test_a_list_says_what_is_missing_and_the_command_for_all(
    lines: Collection[str],
    own_user: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output, "MOST_BYTES", 3_000)
    write_runs(tmp_path / "out", runs=7, steps=60)
    for line in lines:
        name = LISTS[line]
        short = answer(line, capfd)
        assert len(short.encode()) <= output.MOST_BYTES or len(json.loads(short)[name]) == 1, line
        left_out: dict[str, Any] = json.loads(short)["left_out"]
        whole = json.loads(answer(left_out.pop("all").removeprefix("rltui "), capfd))
        assert "left_out" not in whole, line
        things = "points" if "points" in left_out else name
        count = sum(len(row["values"]) if things == "points" else 1 for row in json.loads(short)[name])
        every = sum(len(row["values"]) if things == "points" else 1 for row in whole[name])
        assert count + left_out[things] == every, line
        (first, *_), key = whole[name], next(iter(whole[name][0]))
        limited = json.loads(answer(f"{line} --limit 1 --fields {key}", capfd))[name]
        assert all(row.keys() == {key} for row in limited), line
        assert json.loads(answer(f"{line} --limit 1 --full", capfd)) == whole, line
        assert first


@pytest.mark.slow
def test_no_answer_is_above_20_kb(own_user: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "out", runs=100, steps=600)
    sizes = {line: len(answer(line, capfd).encode()) for line in (*LISTS, *DOCUMENTS)}
    assert {line: size for line, size in sizes.items() if size > output.MOST_BYTES} == {}
    assert len(answer("status one --brief", capfd).encode()) <= 1000
