"""Every example in the help of a command is tried in the recorded box, where it only looks or plans."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from tests.contracts.conftest import RecordedBox

from rltui.cli.command import Command
from rltui.cli.global_options import reason_of
from rltui.cli.overview import all_commands
from rltui.cli.parser import parse

LOOKING = {
    "check", "checkpoints list", "completion", "describe", "diff", "doctor", "eval compare", "eval list",
    "events list", "gpus list", "gpus orphans", "help", "keys", "knobs", "logs", "metrics", "queue list",
    "rollouts", "runs compare", "runs list", "runs show", "status",
}  # fmt: skip
"""Commands that change nothing; `runs note RUN` and others change something with a further word."""
STAYING = {"-f", "-w", "--end", "--nodes"}
"""Options of these commands with which they go on, act, or ask another machine."""
IN_THE_BOX = {
    "demo": "first", "demo/trainer": "first/trainer", "low-lr": "second",
    "a-0": "first", "a-1": "first", "a-2": "first", "b-0": "second", "b-1": "second", "b-2": "second",
}  # fmt: skip
"""Names of the examples → those of the recorded box."""
ELSEWHERE = {
    "convert --to prime-rl vf-rl.toml --plan": "has no such file",
    "convert --to prime-rl@D rl.toml --plan": "has a config of tinyrl; tried in test_convert_release.py",
    "checkpoints prune": "is recorded in test_cli.py",
    "k8s up my-exp --sft --plan": "has no cluster",
    "k8s upgrade my-exp -f values.yaml --plan": "has no cluster",
    "down demo --plan": "has nothing that lives",
    "promote demo --plan": "has no run with its own copy",
}
"""Examples that the recorded box has nothing for, and what it lacks."""


def commands() -> Iterator[Command]:
    for top in all_commands():
        yield from top.verbs or [top]


EXAMPLES = [(command.name, line) for command in commands() for line in command.examples]


def test_every_command_has_three_examples_and_every_verb_one() -> None:
    for top in all_commands():
        has_variants = [argument.dest for argument in top.arguments] != ["help"]
        assert len(top.examples) == (3 if has_variants else 1) or top.verbs, top.name
        assert top.verbs == [] or sum(len(verb.examples) for verb in top.verbs) >= 3, top.name
        assert [verb.name for verb in top.verbs if not verb.examples] == []


@pytest.mark.parametrize("line", [line for _, line in EXAMPLES])
def test_an_example_can_be_parsed(line: str) -> None:
    parse(reason_of(shlex.split(line.partition(" | ")[0]))[1])


def is_tried(name: str, line: str) -> bool:
    words = set(shlex.split(line))
    return line not in ELSEWHERE and ("--plan" in words or (name in LOOKING and words.isdisjoint(STAYING)))


@pytest.mark.xdist_group("contracts-documents")
@pytest.mark.parametrize("line", [line for name, line in EXAMPLES if is_tried(name, line)])
def test_an_example_that_changes_nothing_does_what_it_says(line: str, shared_box: RecordedBox) -> None:
    words = [IN_THE_BOX.get(word, word) for word in shlex.split(line.partition(" | ")[0])]
    output = shared_box.output(*words)
    assert "[exit 0]" in output, output
