"""Commands that lose work, delete, or touch a person's files act only where somebody agrees to it.

Trials are made of a table: command × state of the run × who is there to be asked × form of the answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pytest
from tests.conftest import Box, temporary_box
from tests.engine import EXAMPLE
from tests.following import follow
from tests.terminal import Terminal
from tests.waiting import retry_until
from tests.walker import CONFIG, WALKED, has_walked, start_walk, walking

from rltui.core import hints
from rltui.core.experiment.api import Loss

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(400)]


def goes_on_from(box: Box, name: str, step: int) -> bool:
    command = ("logs", name, "-c", "trainer")
    return retry_until(lambda: box.run(*command).stdout.startswith(f"goes on from {step}\n"))


# --- a loss, and back --------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_restart_set_aside_is_brought_back_and_trains_on(box: Box) -> None:
    walking(box, "one")
    before = (box.work / "out-one/metrics.jsonl").read_text()
    assert box.run("restart", "--from-scratch").returncode == 2
    assert box.run("restart", "--from-scratch", "--yes", "--wait").returncode == 0
    has_walked(box, "one")
    (first,) = [folder for folder in box.json("checkpoints")["set_aside"] if folder["steps"]]
    assert first["steps"] == [5, 10, 15, 20]
    assert f"rltui checkpoints restore one {first['name']}" in box.run("checkpoints").stdout
    living = box.run("checkpoints", "restore", first["name"])
    assert (living.returncode, "rltui down one" in living.stderr) == (4, True), living.stderr
    unknown = box.run("checkpoints", "restore", "2020")
    assert (unknown.returncode, first["name"] in unknown.stderr) == (2, True)

    assert box.run("down", "one").returncode == 0
    since = (box.work / "out-one/metrics.jsonl").read_text()
    assert since != before
    back = box.json("checkpoints", "restore", "one", first["name"])
    assert (box.work / "out-one/metrics.jsonl").read_text() == before
    assert [folder["step"] for folder in back["checkpoints"]] == [5, 10, 15, 20]
    (second,) = [folder for folder in back["set_aside"] if folder["steps"]]
    repeated_restore = box.run("checkpoints", "restore", "one", second["name"])
    assert repeated_restore.returncode == 0, repeated_restore.stderr
    assert (box.work / "out-one/metrics.jsonl").read_text() == since, "there and back"
    (third,) = [folder for folder in box.json("checkpoints", "one")["set_aside"] if folder["steps"]]

    terminal = Terminal([sys.executable, "-m", "rltui", "one"], cwd=box.work, env=box.env)
    try:  # the same on the screen, whose supervisor is idle
        terminal.wait_for("Start everything?")
        terminal.press("n", "9")
        terminal.wait_for("u undo restart")
        terminal.press("u")
        terminal.wait_for("Restore what a restart set aside")
        terminal.press("Enter")
        terminal.wait_for(f"Restore {third['name']}?")
        terminal.press("y")
        terminal.wait_for(f"{third['name']} restored")
        assert (box.work / "out-one/metrics.jsonl").read_text() == before
        terminal.press("1", "S")
        terminal.wait_for("Start everything?")
        terminal.press("Enter")
        terminal.wait_for("trainer ● running")
        assert goes_on_from(box, "one", 20)
        terminal.press("9")
        terminal.wait_for("u undo restart")
        terminal.press("u")
        terminal.wait_for("Stop everything first: D")
    finally:
        terminal.close()
    assert box.run("down", "one").returncode == 0

    config = box.work / "one/walk.toml"
    config.write_text(CONFIG.replace("23", "31"))
    assert box.run("start", "one", "--wait").returncode == 0
    assert goes_on_from(box, "one", 20)
    has_walked(box, "one", 31)
    assert "restored" in box.run("events", "--kind", "restore").stdout


@pytest.mark.slow
def test_what_a_rewind_set_aside_is_brought_back(box: Box) -> None:
    walking(box, "one")
    assert box.run("restart", "--from", "10", "--yes", "--wait").returncode == 0
    has_walked(box, "one")
    (aside,) = [folder for folder in box.json("checkpoints")["set_aside"] if folder["steps"]]
    assert aside["steps"] == [15, 20]
    box.run("down", "one")
    (box.work / "out-one/checkpoints/step_20/STABLE").write_text("of the new line")
    assert box.run("checkpoints", "restore", "one", aside["name"]).returncode == 0
    assert (box.work / "out-one/checkpoints/step_20/STABLE").read_text() == "x" * 20
    assert box.run("start", "one", "--wait").returncode == 0
    assert goes_on_from(box, "one", 20)


@pytest.mark.slow
def test_one_command_undoes_the_rewind_of_a_running_run(box: Box) -> None:
    walking(box, "one")
    rewind = box.run("restart", "one", "--from", "10", "--yes", "--wait")
    has_walked(box, "one")
    follow(box, rewind, hints.GO_FORWARD, code=0, name="one")
    assert goes_on_from(box, "one", 20)
    assert [folder["step"] for folder in box.json("checkpoints", "one")["checkpoints"]][:4] == [5, 10, 15, 20]
    twice = box.run("checkpoints", "restore", "one", "20200101-000000", "--set-aside")
    assert (twice.returncode, "leave STAMP out" in twice.stderr) == (2, True)
    assert box.run("down", "one").returncode == 0


# --- trials ------------------------------------------------------------------------------------------

State = Literal["living", "stopped", "copied"]
"""State of the run that a command is about: `copied` has its own copy of a config."""


@dataclass(frozen=True)
class Trial:
    """A command without `--yes`."""

    state: State
    words: tuple[str, ...]
    loss: Loss
    """The loss by this command in that state."""
    shows: str
    """Text that its plan contains."""
    only: str = "--plan"
    """The option with which it only shows its plan."""

    def __str__(self) -> str:
        return f"{self.state}: {' '.join(self.words)}"


TRIALS = (
    Trial("living", ("restart", "--from-scratch"), Loss.MORE, "lose       23 steps"),
    Trial("living", ("restart", "-c", "trainer", "--from-scratch"), Loss.MORE, "lose       23 steps"),
    Trial("living", ("restart", "--from", "10"), Loss.MORE, "lose       13 steps"),
    Trial("living", ("restart", "--from", "5"), Loss.MORE, "lose       18 steps"),
    Trial("living", ("set", "lr=50"), Loss.MORE, "is that intended?", "--plan"),
    Trial("living", ("set", "lr=50", "--restart"), Loss.MORE, "is that intended?", "--plan"),
    Trial("living", ("set", "walk=24", "--restart", "--from", "10"), Loss.MORE, "lose       13", "--plan"),
    Trial("living", ("set", "output_dir=/tmp/elsewhere", "--force"), Loss.MORE, "output_dir", "--plan"),
    Trial("living", ("checkpoints", "prune", "--keep-last", "1"), Loss.FOR_GOOD, "checkpoint 5"),
    Trial("living", ("runs", "prune", "--keep-last", "1"), Loss.MORE, "old"),
    Trial("living", ("runs", "trash", "--empty"), Loss.FOR_GOOD, "gone", ""),
    Trial("stopped", ("start", "old", "--from-scratch"), Loss.MORE, "lose       23 steps"),
    Trial("stopped", ("start", "old", "--from", "10"), Loss.MORE, "lose       13 steps"),
    Trial("stopped", ("restart", "old", "--from-scratch"), Loss.MORE, "lose       23 steps"),
    Trial("stopped", ("set", "old", "lr=50"), Loss.MORE, "is that intended?", "--plan"),
    Trial(
        "stopped",
        ("set", "rl.toml", "lr=50"),
        Loss.MORE,
        "is that intended?",
        "--plan",
    ),
    Trial(
        "stopped", ("checkpoints", "prune", "old", "--set-aside", "--keep-last", "1"), Loss.FOR_GOOD, "free"
    ),
    Trial("copied", ("promote", "own"), Loss.MORE, "+lr = 0.002"),
    Trial("copied", ("set", "own", "lr=50"), Loss.MORE, "is that intended?", "--plan"),
    Trial("copied", ("checkpoints", "prune", "own", "--keep-last", "1"), Loss.FOR_GOOD, "checkpoint 5"),
)
"""Commands that lose too much for a script that does not agree to it."""
HARMLESS = (
    ("start", "--plan"), ("restart", "--plan"), ("stop", "--plan"), ("down", "--plan"),
    ("restart", "--from-scratch", "--plan"), ("set", "walk=99", "--plan"), ("promote", "own", "--plan"),
    ("runs", "prune", "--keep-last", "1", "--plan"), ("runs", "rm", "old", "--plan"),
    ("checkpoints", "prune", "--keep-last", "1", "--plan"), ("runs", "trash"), ("undo", "--plan"),
)  # fmt: skip


def fingerprint(box: Box) -> Mapping[str, str]:
    """All that must not change: run folders, trash, configs, and the acts in the journal."""
    fingerprints = {}
    for path in sorted(box.work.rglob("*")):
        name = str(path.relative_to(box.work))
        if path.name == "journal.jsonl":
            entries = map(json.loads, path.read_text().splitlines())
            acts = [
                entry for entry in entries if entry["kind"] in ("edit", "plan", "resume", "prune", "restore")
            ]
            fingerprints[name] = json.dumps(acts)
        elif path.is_file() and (".rltui/" not in name or "/archive/" in name or "/config/" in name):
            fingerprints[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return fingerprints


def refused_by_hand(box: Box, arguments: Sequence[str], answer: str) -> subprocess.CompletedProcess[str]:
    """Run it on a terminal, where somebody answers the question."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        return subprocess.run(
            [sys.executable, "-m", "rltui", *arguments], stdin=theirs, capture_output=True, text=True,
            env=box.env, cwd=box.work, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)


def made_town(box: Box) -> None:
    """A run that lives, an older one that does not, one with its own copy, and one in the trash."""
    for name in ("gone", "old", "own", "living"):
        start_walk(box, name, *(("--set", "lr=0.002") if name == "own" else ()))
    for name in ("gone", "old", "own"):
        has_walked(box, name)
        assert box.run("down", name).returncode == 0
    assert box.run("runs", "rm", "gone").returncode == 0
    has_walked(box, "living")
    (box.work / "rl.toml").write_text((EXAMPLE / "rl.toml").read_text())


@pytest.fixture(scope="module")
def town() -> Iterator[Box]:
    with temporary_box() as box:
        made_town(box)
        yield box


def attempt(town: Box, trial: Trial, *more: str) -> None:
    """It is refused, with its plan, and nothing is lost."""
    before = fingerprint(town)
    result = town.run(*trial.words, *more)
    assert result.returncode == 2, (result, more)
    if "--json" in more:
        assert json.loads(result.stdout)["exit_code"] == 2
    assert trial.shows in result.stderr or trial.shows in result.stdout, result
    assert "add --yes" in result.stderr
    assert fingerprint(town) == before


TWELFTH_TASK = [
    trial
    for trial in TRIALS
    if str(trial)
    in (
        "living: restart --from-scratch", "living: set lr=50 --restart", "living: runs trash --empty",
        "stopped: start old --from 10", "copied: promote own",
        "copied: checkpoints prune own --keep-last 1",
    )
]  # fmt: skip
"""That of an agent: from scratch, lr=50, promote, prune, empty. The slow tests have all of them."""


def test_too_much_is_refused_where_nobody_can_be_asked(town: Box) -> None:
    assert len(TWELFTH_TASK) == 6
    for trial in TWELFTH_TASK:
        attempt(town, trial)
    assert town.json("status", "living")["step"] == WALKED


@pytest.mark.slow
@pytest.mark.parametrize("trial", TRIALS, ids=str)
def test_too_much_is_refused_in_json_and_by_a_no(town: Box, trial: Trial) -> None:
    attempt(town, trial)
    attempt(town, trial, "--json")
    before = fingerprint(town)
    refusal = refused_by_hand(town, trial.words, "n\n")
    assert refusal.returncode == 2, refusal
    assert "[y/N]" in refusal.stderr
    assert trial.shows in refusal.stderr + refusal.stdout
    assert fingerprint(town) == before
    if trial.only:
        for more in ((), ("--json",)):
            result = town.run(*trial.words, trial.only, *more)
            assert result.returncode == 0, result
            assert fingerprint(town) == before


@pytest.mark.slow
@pytest.mark.parametrize("arguments", HARMLESS, ids=" ".join)
def test_a_look_changes_nothing(town: Box, arguments: tuple[str, ...]) -> None:
    before = fingerprint(town)
    command, *options = arguments
    for more in ((), ("--json",), ("living",) if command in ("start", "restart", "stop") else ()):
        town.run(command, *more, *options)
        assert fingerprint(town) == before


ACTS = (
    ("set", "lr=50"), ("restart", "--from", "10", "--wait"), ("checkpoints", "prune", "--keep-last", "1"),
    ("restart", "--from-scratch", "--wait"), ("promote", "own"), ("runs", "trash", "--empty"),
    ("runs", "prune", "--keep-last", "1"),
)  # fmt: skip


@pytest.mark.slow
def test_all_of_it_is_done_where_somebody_says_so() -> None:
    with temporary_box() as box:
        made_town(box)
        for command in ACTS:
            before = fingerprint(box)
            result = box.run(*command, "--yes")
            assert result.returncode == 0, (command, result)
            assert fingerprint(box) != before, command
            has_walked(box, "living")
        with (box.work / "out-living/.rltui/journal.jsonl").open() as file:
            entries = [json.loads(line) for line in file]
        acts = [entry for entry in entries if entry["kind"] in ("edit", "plan")]
        assert len(acts) >= 4
        assert all(entry["by"]["pid"] for entry in acts), acts
