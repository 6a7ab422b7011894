"""What the README and the pages of the examples tell people to type is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.house.walks import REPOSITORY

from rltui.cli.global_options import appearance_of, host_of
from rltui.cli.parser import parse
from rltui.ui import actions

README = REPOSITORY / "README.md"
PAGES = sorted((REPOSITORY / "examples").glob("*/README.md"))
DOCUMENTS = [README, *PAGES, REPOSITORY / "examples" / "TUTORIALS.md"]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


def commands(document: Path) -> Iterator[list[str]]:
    """Command lines of rltui in it, as words."""
    for block in BLOCK.findall(document.read_text()):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            for part in " ".join(map(shlex.quote, words)).split(" '&&' "):
                command = shlex.split(part)
                while command and "=" in command[0]:
                    del command[0]  # a variable
                if command[:1] == ["rltui"]:
                    yield command[1:]


def named(document: Path) -> str:
    return str(document.relative_to(REPOSITORY))


@pytest.mark.parametrize("document", [README, *PAGES], ids=named)
def test_commands_are_those_that_there_are(document: Path) -> None:
    typed = list(commands(document))
    assert typed or "reverse_text" in str(document)
    for words in typed:
        _, rest = appearance_of([word.replace("RUN", "run-1") for word in words])
        parse(host_of(rest)[1])


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    targets = LINK.findall(document.read_text())
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert [target for target in missing if not target.endswith(".svg")] == []


def test_each_page_is_short_and_linked() -> None:
    linked = LINK.findall(README.read_text())
    for page in PAGES:
        assert len(page.read_text().splitlines()) <= 120
        assert named(page) in linked or "reverse_text" in str(page)
    assert len(README.read_text().splitlines()) <= 150


@pytest.mark.parametrize("document", PAGES, ids=named)
def test_keys_in_tables_are_those_that_there_are(document: Path) -> None:
    known = {key for action in actions.ACTIONS for key in action.shown_keys.split(" / ")}
    tables = re.findall(r"^\| key \| \|\n\|---\|---\|\n((?:\|.*\n)+)", document.read_text(), re.MULTILINE)
    cells = [row.replace("\\|", "¦").split("|")[1] for table in tables for row in table.splitlines()]
    said = {key.replace("¦", "|") for cell in cells for key in re.findall(r"`([^`]+)`", cell)}
    assert said - known - set("123456789") == set()
