"""Declarations of commands."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import iter_modules

import pytest
from tests.cli.conftest import CommandLine

from rltui.cli import commands, main
from rltui.cli.command import load, split
from rltui.cli.command_list import INTERNAL, SENTENCES, VERBS
from rltui.cli.overview import all_commands


def test_every_module_of_commands_is_in_the_list() -> None:
    modules = {module.name.replace("_", "-") for module in iter_modules(commands.__path__)}
    assert modules == {*SENTENCES, *INTERNAL}


def test_a_module_declares_the_command_of_its_name_and_its_verbs() -> None:
    for top in all_commands():
        for one in (top, *top.verbs):
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
        known = each.parser()._option_string_actions
        assert each.options == {name: action.nargs != 0 for name, action in known.items()}, each.name


def test_of_exclusive_arguments_one_is_given_and_a_section_has_a_heading(
    cli: CommandLine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["runs", "--csv", "--json"], ["up", "--resume", "--new"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "not allowed with argument" in capsys.readouterr().err
    assert "\nwhat --prune keeps, besides the newest and the best:\n" in cli("help", "checkpoints")
