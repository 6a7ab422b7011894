"""The pages of help, and the manual page."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from rltui.cli import main
from rltui.cli.command_list import SENTENCES
from rltui.cli.commands.help import page, topics
from rltui.cli.global_options import host_of
from rltui.cli.parser import parse

WIDEST, LONGEST = 100, 40


def commands_in(topic: str) -> Iterator[str]:
    """Lines that begin with a command, without what they do, and commands between backticks."""
    text = page(topic)
    for line in text.splitlines():
        if line.startswith("  rltui"):
            yield line.strip().partition("   ")[0]
    yield from (found for found in re.findall(r"`(rltui[^`]*)`", text))


@pytest.mark.parametrize("topic", topics())
def test_a_page_is_a_screenful_of_commands_that_there_are(topic: str, tmp_path: Path) -> None:
    lines = page(topic).splitlines()
    assert len(lines) <= LONGEST
    assert max(map(len, lines)) <= WIDEST
    assert lines[1] == ""
    found = list(commands_in(topic))
    assert found
    for command in found:
        words = itertools.takewhile(lambda word: word not in ("|", ">"), shlex.split(command)[1:])
        parse(host_of([*words])[1])  # raises, or exits


def test_pages_are_found_and_misspelt_ones_are_guessed(cli: CommandLine) -> None:
    listed = cli("help")
    assert all(topic in listed for topic in topics())
    assert "--resume-step" in cli("help", "resume")
    assert cli("help", "restart").startswith("usage: rltui restart")
    assert "did you mean memory?" in cli("help", "memroy", code=2)
    assert cli("help", "--ascii").isascii()


def test_the_overview_names_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    for name in SENTENCES:
        assert len(re.findall(rf"^  {name}(?:  |$)", told, re.MULTILINE)) == 1, name
    assert "--no-color" in told


def test_the_manual_has_every_command_and_option(cli: CommandLine) -> None:
    told = cli("man")
    for section in ("NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS", "FILES", "ENVIRONMENT"):
        assert f"\n{section}\n" in told
    assert "\n    rltui queue add\n" in told
    assert "    --resume-step STEP\n" in told
    assert "--entry" not in told, "is hidden"


@pytest.mark.parametrize(
    "check",
    [
        ["mandoc", "-Tlint", "-Wwarning"],
        ["groff", "-man", "-Tutf8", "-ww", "-Kutf8", "-z"],
    ],
    ids=["mandoc", "groff"],
)
def test_its_source_is_sound(check: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(check[0]) is None:
        pytest.skip(f"there is no {check[0]} here")
    assert main(["man", "--raw"]) == 0
    file = tmp_path / "rltui.1"
    file.write_text(capsys.readouterr().out)
    done = subprocess.run([*check, str(file)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_misspelt_option_is_guessed(cli: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["restart", "--from-scrach"],
        ["queue", "list", "--jsno"],
        ["eval", "--chekpoint=3", "--", "x"],
    ):
        assert main(words) == 2
        assert "did you mean --" in capsys.readouterr().err, words
    assert main(["queue", "lsit"]) == 2
    assert "did you mean list?" in capsys.readouterr().err
    assert "rltui status does not know b" in cli("status", "a", "b", code=2)
