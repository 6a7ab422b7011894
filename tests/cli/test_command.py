"""Declarations of commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules

import pytest
from tests.cli.conftest import CommandLine

from rltui.cli import commands, main
from rltui.cli.command import CommandParser, load, split
from rltui.cli.command_help import help_text
from rltui.cli.overview import all_commands
from rltui.core.command_list import FORMER, INTERNAL, SENTENCES, VERBS


def test_every_module_of_commands_is_in_the_list() -> None:
    modules = {module.name.replace("_", "-") for module in iter_modules(commands.__path__)}
    assert modules == {*SENTENCES, *INTERNAL}


def test_a_module_declares_the_command_of_its_name_and_its_verbs() -> None:
    for top in all_commands():
        for one in top.verbs or [top]:
            module = f"rltui.cli.commands.{one.name}".replace("-", "_")
            assert module.replace(" ", ".").startswith(one.handler.__module__), one.name


def test_a_command_with_verbs_does_what_its_first_verb_does() -> None:
    for noun, verbs in VERBS.items():
        assert load(noun).handler is load(f"{noun} {next(iter(verbs))}").handler
    assert split(["queue", "add", "rl.toml"])[1] == ["rl.toml"]
    assert split(["queue", "--json"]) == (load("queue"), ["--json"])


def test_modules_of_commands_import_little_for_a_tab_and_help_read_them() -> None:
    code = (
        "import sys\nfrom rltui.cli.overview import all_commands\nall_commands()\n"
        "print([name for name in ('pydantic', 'textual', 'asyncio', 'tomlkit') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_options_of_a_declaration_are_those_of_its_parser() -> None:
    for each in (one for top in all_commands() for one in (top, *top.verbs)):
        known = CommandParser(each)._option_string_actions
        assert each.options == {name: action.nargs != 0 for name, action in known.items()}, each.name


def test_of_exclusive_arguments_one_is_given_and_a_section_has_a_heading(
    cli: CommandLine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["runs", "--csv", "--json"], ["up", "--resume", "--new"]):
        assert main(words) == 2
        assert f"{words[-1]} cannot be combined with {words[-2]}" in capsys.readouterr().err
    assert "\nKeep, in addition to the newest and the best:\n" in cli("help", "checkpoints", "prune")


WIDEST, LONGEST = 80, 40


def test_help_of_every_command_is_a_screenful_of_sentence_usage_examples_and_options() -> None:
    for each in (one for top in all_commands() for one in (top, *top.verbs)):
        lines = help_text(each).splitlines()
        assert len(lines) <= LONGEST, (each.name, len(lines))
        assert [line for line in lines if len(line) > WIDEST] == [], each.name
        assert any(line.startswith(f"Usage: rltui {each.name}") for line in lines), each.name
        assert [item.metavar for item in each.arguments if len(item.metavar) == 1] == [], each.name


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("logs --frob", "unknown option: --frob\n→ rltui logs --help"),
        ("restart --from-scrach", "unknown option: --from-scrach\n→ did you mean --from-scratch?"),
        ("queue list --jsno", "unknown option: --jsno\n→ did you mean --json?"),
        ("eval run --exmaples=3 -- x", "unknown option: --exmaples\n→ did you mean --examples?"),
        (
            "up rl.toml --frob",
            "unknown option: --frob\n→ to set a config key, put it after --: rl.toml -- --frob …",
        ),
        (
            "queue nosuch",
            "unknown verb: nosuch\n→ known: list, add, wait, cancel, pause, resume, move, retry and 1 more",
        ),
        ("queue lsit", "unknown verb: lsit\n→ did you mean list?"),
        ("up rl.toml --ressume", "unknown option: --ressume\n→ did you mean --resume?"),
        ("logs --tail 5", "unknown option: --tail\n→ did you mean --limit?"),
        ("restart --dry-run", "unknown option: --dry-run\n→ did you mean --plan?"),
        ("eval rn", "unknown verb: rn\n→ did you mean run?"),
        ("runs compar a b", "unknown verb: compar\n→ did you mean compare?"),
        ("completion", "missing: SHELL\n→ rltui completion --help"),
        (
            "logs --level loud",
            "unknown level: loud\n→ known: trace, debug, info, success, warning, error, critical",
        ),
        ("up rl.toml -- lr=1", "not a config key: lr=1\n→ after --: --KEY VALUE"),
        ("queue ad", "unknown verb: ad\n→ did you mean add?"),
        ("queue rm x", "unknown verb: rm\n→ did you mean rltui queue cancel?"),
        ("checkpoints --prune", "unknown option: --prune\n→ did you mean rltui checkpoints prune?"),
        ("status a b", "unexpected argument: b\n→ rltui status --help"),
        ("runs rm", "missing: RUN\n→ rltui runs rm --help"),
        ("logs --level", "--level needs a value\n→ rltui logs --help"),
        ("runs --limit x", "--limit: not a number ≥ 1: x\n→ rltui runs --help"),
        ("keys --keymap emacs", "unknown value of --keymap: emacs\n→ known: vim, k9s"),
        ("completion tcsh", "unknown value of SHELL: tcsh\n→ known: bash, zsh, fish"),
        ("help nosuch", "unknown topic or command: nosuch\n→ rltui help"),
        ("help memroy", "unknown topic or command: memroy\n→ did you mean memory?"),
        ("help queue ad", "unknown verb: ad\n→ did you mean add?"),
    ],
)
def test_a_usage_error_is_one_line_and_one_suggestion(line: str, refusal: str, cli: CommandLine) -> None:
    assert cli(*line.split(), code=2) == f"rltui: {refusal}\n"


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("check no.toml", "no.toml"),
        ("up no.toml", "no.toml"),
        ("up @ no.toml", "no.toml"),
        ("no.toml", "no.toml"),
        ("set no.toml lr=1", "no.toml"),
        ("knobs no.toml", "no.toml"),
        ("convert --to prime-rl no.toml", "no.toml"),
        ("queue add no.toml", "no.toml"),
        ("up -l ./no.toml", "./no.toml"),
        ("up rl.toml --workspace no", "no"),
        ("watch no", "no"),
        ("runs add no", "no"),
        ("trust no", "/no"),
    ],
)
def test_a_path_that_does_not_exist_has_one_refusal_and_one_code(
    line: str, path: str, cli: CommandLine, own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding U30: no such file was 3, no such folder 2 or 1, and `watch` asked for a terminal first."""
    monkeypatch.chdir(own_user)
    (own_user / "rl.toml").write_text("max_steps = 3\n")
    first = cli(*line.split(), code=2).splitlines()[0]
    assert re.fullmatch(rf"rltui: (file|folder) not found: \S*{re.escape(path)}", first), first


def test_there_are_36_commands_and_a_former_name_leads_to_one(
    cli: CommandLine, own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_user)
    assert len(SENTENCES) <= 36 + 6  # those for agents
    for words, now in FORMER.items():
        assert f"did you mean rltui {now}?" in cli(*words.split(), code=2), words
        command = split(now.split())[0]
        name, _, option = now.partition(" --")
        assert command.name == name
        assert not option or f"--{option}" in command.options
        assert words not in SENTENCES
