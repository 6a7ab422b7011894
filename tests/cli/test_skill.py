"""The skill for coding agents: every line of it is true of this parser, and installed without harm."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from rltui.cli.commands.skill import skill_text
from rltui.cli.global_options import reason_of
from rltui.cli.parser import parse
from rltui.core.command_list import SENTENCES
from rltui.core.experiment.cursor import Cursor
from rltui.core.experiment.reason_codes import GROUPS

FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`rltui ([a-z]+)[^`]*`")
VALUES = {"KEY=VALUE": "trainer.optim.lr=5e-4", "CURSOR": str(Cursor("events")), "proposal:ID": "proposal:p1"}


def command_lines() -> Iterator[list[str]]:
    """The words of every command that the skill shows, without `rltui`."""
    for block in FENCED.findall(skill_text()):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[0] == "rltui":
                yield words[1:]


def front_matter() -> dict[str, Any]:
    """Its keys; a nested one is indented in YAML."""
    head = skill_text().split("---\n")[1]
    lines = [re.sub(r"^(\s*)([\w-]+): ?(.*)$", r"\2 = '''\3'''", line) for line in head.splitlines()]
    return tomllib.loads("\n".join(line for line in lines if "metadata" not in line))


def test_it_keeps_the_convention() -> None:
    keys = front_matter()
    assert list(keys) == ["name", "description", "license", "compatibility", "version", "digest"]
    assert re.fullmatch(r"[a-z0-9-]{1,64}", keys["name"])
    assert len(keys["description"]) <= 1024
    assert len(keys["compatibility"]) <= 500
    text = skill_text()
    assert len(text.splitlines()) <= 250
    assert max(map(len, text.splitlines()[10:])) <= 400
    assert len(text.encode()) < 20_000, "about 5,000 tokens"


def test_every_command_that_it_shows_is_parsed() -> None:
    lines = [*command_lines()]
    assert len(lines) > 40
    for words in lines:
        parse(reason_of([VALUES.get(word, word) for word in words])[1])
    named = INLINE.findall(skill_text())
    assert set(named) - {"help"} <= SENTENCES.keys()
    assert all(f"\n  {code} " in skill_text() for code in GROUPS["errors and refusals"])
    assert "{" not in FENCED.sub("", skill_text()).replace('{"', "")


def test_it_is_installed_but_over_nothing_that_was_changed(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("skill", "--install") == ".agents/skills/rltui/SKILL.md\n"
    path = tmp_path / ".agents/skills/rltui/SKILL.md"
    assert path.read_text() == skill_text() == cli("skill")
    older = path.read_text().replace("Operate RL runs", "Operate runs")
    digest = front_matter()["digest"]
    path.write_text(older)
    assert "not confirmed" in cli("skill", "--install", code=2)
    assert path.read_text() == older
    cli("skill", "--install", "--yes")
    assert path.read_text() == skill_text()
    cli("skill", "--install")  # the same again
    assert digest in path.read_text()
    assert cli("skill", "--install", ".claude/skills/rltui").strip() == ".claude/skills/rltui/SKILL.md"
