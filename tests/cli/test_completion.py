"""What shells complete: from the parser, and from what there is."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.past_run import write_finished_run
from tests.terminal import Terminal

from rltui.cli import main
from rltui.cli.command import Argument, Command
from rltui.cli.completion import candidates, is_path, sources
from rltui.cli.overview import all_commands
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import AgentProposal
from rltui.services.actor import acting_as
from rltui.services.experiment.journal import Journal
from rltui.services.experiment.proposals import Proposals, save_proposals
from rltui.services.experiment.registry import find_experiment

FREE = {
    "ACCOUNT", "AGE", "BUDGET", "COMMAND", "CONDITION", "CONTEXT", "ENV", "FILTER", "GLOB", "GPUS", "ID",
    "JOBS", "KEY=VALUE", "KEY,…",
    "LIMIT", "NAME", "NAME='COMMAND'", "NAMESPACE", "NUMBER", "NUMBER|none", "OPTION", "PATTERN", "PID",
    "PLACE", "QOS", "REVISION", "RULE", "SECONDS", "STEP", "TEXT", "URL", "USER/NAME", "WHEN", "WORD",
    "WORDS",
}  # fmt: skip
"""Arguments of which nobody can say what they may be: numbers, texts, new names; files are the shell's."""


def every_argument() -> Iterator[tuple[Command, Argument]]:
    for command in all_commands():
        for one in (command, *command.verbs):
            yield from ((one, argument) for argument in one.arguments if argument.takes_value)


def test_every_argument_is_completed_or_known_to_be_free() -> None:
    forgotten = [
        (command.name, argument.dest, argument.metavar)
        for command, argument in every_argument()
        if not (argument.choices or argument.is_hidden)
        and not (hasattr(sources, argument.completes) if argument.completes else argument.metavar in FREE)
    ]
    assert not forgotten


@pytest.fixture
def place(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The experiments `low` and `high`, and config files in the folder that we are in."""
    for name in ("low", "high"):
        record = write_finished_run(tmp_path / "out" / name, steps=3)
        (record.control.path / "components/$(touch HACKED)/attempt-1").mkdir(parents=True)
    (tmp_path / "rl.toml").write_text("max_steps = 5\n[trainer]\nlr = 1e-5\nfast = true\n")
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    return tmp_path


def words(*typed: str) -> list[str]:
    return [word for word, _ in candidates(typed)]


def test_commands_options_and_choices_come_from_the_parser(place: Path) -> None:
    assert words("stat") == ["status"]
    assert {"restart", "rerun", "rl.toml", "runs"} <= set(words("r"))
    assert {"low", "high", "out/"} <= set(words(""))
    assert words("restart", "--from-") == ["--from-scratch"]
    assert words("restart", "--from-scratch", "--plan", "--y") == ["--yes"]
    assert words("--no-color", "statu") == ["status"]
    assert words("status", "--color=a") == ["--color=auto", "--color=always"]
    assert words("status", "--color", "n") == ["never"]
    assert words("queue", "mo") == ["move"]
    assert words("queue", "add", "--pri") == ["--priority"]
    assert words("completion", "f") == ["fish"]
    assert words("help", "rest") == ["restarts"]
    assert words("--read") == ["--readonly"]
    assert words("up", "--from-checkpoint") == words("eval", "run", "--", "--x") == []
    assert dict(candidates(["status", "--wat"])) == {"--watch": "repeat every SECONDS"}


def test_values_come_from_what_there_is(place: Path) -> None:
    record = find_experiment("low")
    assert record is not None
    night = Actor(kind="agent", user="ada", name="night-1", pid=7)
    with acting_as(night):
        Journal(record.control.journal_file).add("run", "tags +x")
    proposal = AgentProposal(id="p1", verb="start", text="start", by=night, at=1.8e9)
    save_proposals(record.control.path, Proposals(proposals=(proposal,), count=1))
    assert words("status", "l") == ["low"]
    assert words("status", "-w", "h") == ["high"]
    assert set(words("logs", "")) == {"low", "high", "@best"}
    assert words("logs", "low/t") == ["low/trainer"]
    assert words("logs", "out/l") == ["out/low/"]
    assert words("logs", "low", "--component=t") == ["--component=trainer"]
    assert words("logs", "low", "-c", "trainer#") == ["trainer#1"]
    assert words("metrics", "low", "reward_s") == words("metrics", "reward_s") == ["reward_std"]
    assert words("set", "l")[:2] == ["low", "lr="]
    assert {"add", "low"} <= set(words("events", ""))
    assert words("runs", "compare", "low", "h") == ["high"]
    assert words("restart", "-c", "t") == ["trainer"]
    assert words("restart", "-c", "trainer", "-c", "t") == []
    assert "tinyrl" in words("up", "-l", "t")
    assert "tinyrl" in words("check", "--framework", "t")
    assert words("up", "r") == ["rl.toml"]
    assert words("up", "notes") == []
    assert words("watch", "ou") == ["out/"]
    assert words("watch", "out/l") == ["out/low/"]
    assert words("set", "rl.toml", "l") == ["lr="]
    assert words("set", "rl.toml", "trainer.f") == ["trainer.fast="]
    assert words("set", "rl.toml", "trainer.fast=") == ["trainer.fast=true", "trainer.fast=false"]
    assert words("set", "rl.toml", "max_steps=") == ["max_steps=5"]
    assert words("events", "--kind", "crash,ed") == ["crash,edit"]
    assert words("events", "low", "--by", "ni") == ["night-1"]
    assert words("agents", "rights", "low", "pro") == ["propose"]
    assert words("agents", "accept", "low", "p") == words("agents", "decline", "low", "p") == ["p1"]
    assert words("logs", "-c", "trainer", "--level", "err") == ["error"]
    assert words("metrics", "reward_s") == ["reward_std"]
    assert words("runs", "--columns", "name,fram") == ["name,framework"]
    assert words("fork", "low", "--from", "b") == ["best"]
    assert words("up", "rl.toml", "--set", "l") == ["lr="], "a file is no value of --set"
    assert words("up", "rl.toml", "--set", "trainer.fast=") == ["trainer.fast=true", "trainer.fast=false"]
    assert words("up", "rl.toml", "--set", "r") == []
    assert words("runs", "--columns", "+fram") == ["+framework"]
    assert words("runs", "--columns", "+seed,+fram") == ["+seed,+framework"]
    assert words("metrics", "reward", "--svg", "no") == ["notes.txt"]
    assert not [word for word in words("logs", "-c", "") if "HACKED" in word], "a shell would run it"


def test_a_component_is_offered_with_the_word_of_its_state(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `status` has it: a job is not `ready`, and what nobody saw end is not `failed`."""
    components = [
        {"id": "inference", "kind": "service", "state": "ready"},
        {"id": "trainer", "kind": "job", "state": "ready"},
        {"id": "sft", "kind": "job", "state": "failed", "lost": True},
    ]
    monkeypatch.setattr(sources, "_answer", lambda *_: {"components": components})
    offered = dict(sources.components("", {"run": ["low"]}))
    states = [offered[name] for name in ("inference", "trainer", "sft")]
    assert states == ["ready", "running", "lost"]


def test_a_shell_completes_names_of_files_only_where_a_file_may_be(place: Path) -> None:
    for line in ("check 'odd na", "watch 'odd", "runs export low -o 'odd", "metrics --svg='odd"):
        assert (words(*line.split()), is_path(line.split())) == ([], True), line
    for line in ("up rl.toml --set rl", "restart -c nosuch", "status nosuch", "logs --grep x", "nosuch"):
        assert (words(*line.split()), is_path(line.split())) == ([], False), line


PRESS_TAB = """
rltui() { "$PYTHON" -m rltui "$@"; }
source <(rltui completion bash)
press() { COMP_WORDS=(rltui "$@"); COMP_CWORD=$#; _rltui; echo "${COMPREPLY[@]}"; }
"""


def test_bash_gets_them(place: Path) -> None:
    """It hands over words as it splits them."""
    tabs = {
        "restart -c t": "trainer",
        "set rl.toml trainer.fast = t": "true",
        "set rl.toml trainer.fast =": "true false",
        "status --color = ne": "never",
        "logs -c ''": None,
    }
    script = PRESS_TAB + "".join(f"press {words}\n" for words in tabs)
    env = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    for answer, expected in zip(done.stdout.splitlines(), tabs.values(), strict=True):
        assert expected in (None, answer)
    assert not (place / "HACKED").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_understood_by_their_shell(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    path = tmp_path / "script"
    path.write_text(capsys.readouterr().out)
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    subprocess.run([shell, "-n", str(path)], check=True)


@pytest.mark.tmux
@pytest.mark.parametrize(
    ("shell", "source"),
    [
        (("bash", "--norc"), "source <(rltui completion bash)"),
        (("zsh", "-f"), "source <(rltui completion zsh)"),
        (("fish", "--no-config"), "rltui completion fish | source"),
    ],
    ids=["bash", "zsh", "fish"],
)
def test_a_tab_in_a_real_shell(box: Box, shell: tuple[str, ...], source: str) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]} here")
    program = box.work / "bin/rltui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rltui "$@"\n')
    program.chmod(0o755)
    (box.work / "rl.toml").write_text("max_steps = 5\n[trainer]\nfast = true\n")
    env = {**box.env, "PATH": f"{program.parent}:{box.env['PATH']}", "PS1": "$ "}
    terminal = Terminal(shell, cwd=box.work, env=env, columns=100, rows=20)
    try:
        terminal.press(f"{source}; echo sour''ced", "Enter")
        terminal.wait_for("\nsourced")
        terminal.press("rltui runs resto", "Tab")
        terminal.wait_for("rltui runs restore")
        terminal.press("C-u", "rltui set rl.toml trainer.f", "Tab")
        terminal.wait_for("trainer.fast=")
        terminal.press("t", "Tab")
        terminal.wait_for("trainer.fast=true")
        terminal.press("C-u", "rltui check r", "Tab")
        terminal.wait_for("rltui check rl.toml")
        terminal.press("C-u", "rltui up rl.toml --set r", "Tab", "x", "Enter")
        terminal.wait_for("not KEY=VALUE: rx")
    finally:
        terminal.close()


@pytest.mark.bench
def test_a_tab_takes_little(place: Path) -> None:
    command = [sys.executable, "-m", "rltui", "completion", "zsh", "--"]
    for typed in (["sta"], ["restart", "-c", ""], ["set", "l"], ["up", "-l", ""], ["runs", "--columns", ""]):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, *typed], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{' '.join(typed)}: {took:.3f} s")
        assert took < 0.2, typed
