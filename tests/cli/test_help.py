"""The pages of help, and the manual page."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from rltui import __version__
from rltui.cli.arguments import JOB
from rltui.cli.command import options_of
from rltui.cli.global_options import host_of, reason_of
from rltui.cli.help_pages import page, topics
from rltui.cli.overview import all_commands
from rltui.cli.parser import parse
from rltui.core.command_list import SENTENCES, VERBS
from rltui.core.experiment.states import COMPONENT_STATES, RUN_STATES, SHOWN_COMPONENT_STATES
from rltui.errors import EXIT_MEANINGS, ExitCode

WIDEST, LONGEST = 80, 60


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
    assert len(lines) <= LONGEST or topic == "reasons"  # a table to look things up in
    assert max(map(len, lines)) <= WIDEST
    assert lines[1] == ""
    found = list(commands_in(topic))
    assert found
    for command in found:
        words = itertools.takewhile(lambda word: word not in ("|", ">"), shlex.split(command)[1:])
        parse(reason_of(host_of([*words])[1])[1])  # raises, or exits


def test_pages_are_found_by_topic_and_by_command(cli: CommandLine) -> None:
    listed = cli("help")
    assert all(topic in listed for topic in topics())
    assert "--from 420" in cli("help", "resume")
    assert "\nUsage: rltui restart " in cli("help", "restart")
    assert "\nUsage: rltui queue add " in cli("help", "queue", "add")
    assert cli("help", "--ascii").isascii()


def test_a_name_of_a_command_and_a_page_shows_both(cli: CommandLine) -> None:
    both = topics().keys() & SENTENCES.keys()
    assert {"runs", "queue", "logs"} <= both
    for name in both:
        text, see_also = cli("help", name), f"See also: rltui help {name}"
        of_command = cli(name, "--help")
        assert of_command.endswith(f"\n{see_also}\n"), name
        assert text == f"{of_command.replace(see_also, '').rstrip()}\n\n{page(name)}", name
        assert all(verb in text for verb in VERBS.get(name, ())), name
    for name in SENTENCES.keys() - both:
        assert "See also" not in cli(name, "--help"), name


def test_the_page_of_states_is_the_tables(cli: CommandLine) -> None:
    lines = [line.split(maxsplit=3) for line in cli("help", "states").splitlines() if line[:2] == "  "]
    codes = {**dict.fromkeys(RUN_STATES, "0"), "failed": "5", "lost": "5"}
    runs = [[codes[state], badge.sign, badge.word, badge.meaning] for state, badge in RUN_STATES.items()]
    assert lines[: len(runs)] == runs
    of_components = [[sign, word, *text] for sign, word, *text in lines[len(runs) :]]
    assert of_components == [
        f"{badge.sign} {badge.word} {badge.meaning}".split(maxsplit=3) for badge in SHOWN_COMPONENT_STATES
    ]
    assert {badge.word for badge in COMPONENT_STATES.values()} <= {word for _, word, *_ in of_components}


def test_options_of_slurm_are_on_its_page_and_not_in_the_help_of_up(cli: CommandLine) -> None:
    options = [name for name in options_of([JOB]) if name != "--slurm"]
    page_text, help_of_up = cli("help", "slurm"), cli("help", "up")
    assert [name for name in options if f" {name} " not in page_text] == []
    assert [name for name in options if f" {name} " in help_of_up] == []
    assert help_of_up.endswith("\nSLURM job: rltui help slurm\n")


def test_exit_codes_are_the_same_in_help_page_and_manual(cli: CommandLine) -> None:
    texts = [cli("--help"), cli("help", "scripts"), cli("help", "--man")]
    for code, meaning in EXIT_MEANINGS.items():
        assert [text for text in texts if meaning not in " ".join(text.split())] == [], code
    assert set(EXIT_MEANINGS) == set(ExitCode)


def test_the_overview_names_every_command_once(cli: CommandLine) -> None:
    text = cli("--help")
    for name in SENTENCES:
        assert len(re.findall(rf"^  {name}(?:  |$)", text, re.MULTILINE)) == 1, name
    assert "--no-color" in text
    assert cli("--version") == f"rltui {__version__}\n"


def test_the_manual_has_every_command_and_option(cli: CommandLine) -> None:
    source = cli("help", "--man").replace("\\-", "-")
    for section in ("NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS", "FILES", "ENVIRONMENT"):
        assert f"\n.SH {section}\n" in source
    for top in all_commands():
        assert f"\n.SS rltui {top.name}\n" in source
    assert "\n\\fB--from best|last|STEP\\fR\n" in source
    assert "--entry" not in source, "is hidden"


@pytest.mark.parametrize(
    "check",
    [
        ["mandoc", "-Tlint", "-Wwarning"],
        ["groff", "-man", "-Tutf8", "-ww", "-Kutf8", "-z"],
        ["man", "--warnings", "-l"],
    ],
    ids=lambda check: check[0],
)
def test_the_manual_is_sound_and_rendered(check: list[str], tmp_path: Path, cli: CommandLine) -> None:
    if shutil.which(check[0]) is None:
        pytest.skip(f"there is no {check[0]} here")
    file = tmp_path / "rltui.1"
    file.write_text(cli("help", "--man"), encoding="utf-8")
    env = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([*check, str(file)], capture_output=True, text=True, check=False, env=env)
    assert done.stderr == ""
    if check[0] == "man":
        assert "\nEXIT STATUS\n       0      done\n" in done.stdout
    else:
        assert done.stdout == ""
