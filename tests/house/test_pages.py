"""What the README and the pages of the examples tell people to type is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.house.walks import REPOSITORY

from rltui.cli.global_options import appearance_of, host_of, reason_of
from rltui.cli.parser import parse
from rltui.errors import UsageError
from rltui.ui import actions

README = REPOSITORY / "README.md"
PAGES = sorted((REPOSITORY / "examples").glob("*/README.md"))
DOCUMENTS = [README, *PAGES, REPOSITORY / "examples" / "TUTORIALS.md"]
WRITTEN = [
    *DOCUMENTS,
    *(
        REPOSITORY / name
        for name in ("CONTRIBUTING.md", "tui/README.md", "layouts/README.md", "layouts/FRAMEWORKS.md")
    ),
    *(path for folder in ("examples", "layouts") for path in sorted((REPOSITORY / folder).rglob("*.toml"))),
]
EXAMPLE_NAMES = {"COMMAND", "STEP", "rl-7"}
"""Words of printed commands that stand for something."""
LACKS_AN_ARGUMENT = r"missing: |--host takes|@ needs a file"
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
        parse(reason_of(host_of(rest)[1])[1])


def inline_commands(document: Path) -> Iterator[list[str]]:
    """Commands in a sentence or a comment, up to what is left out (`…`)."""
    for command in re.findall(r"`rltui ([^`]+)`", document.read_text()):
        with suppress(ValueError):  # a quote that what is left out would close
            yield shlex.split(command.partition("…")[0])


@pytest.mark.parametrize("document", WRITTEN, ids=named)
def test_commands_in_sentences_are_those_that_there_are(document: Path) -> None:
    """An argument may be missing where only the command is meant."""
    for words in inline_commands(document):
        if not EXAMPLE_NAMES.isdisjoint(words):
            continue
        _, rest = appearance_of(words)
        assert _usage_error(rest) == "" or re.match(LACKS_AN_ARGUMENT, _usage_error(rest)), words


def _usage_error(words: list[str]) -> str:
    try:
        parse(host_of(words)[1])
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("document", [path for path in WRITTEN if path.suffix == ".md"], ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    targets = LINK.findall(document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_every_picture_is_on_a_page() -> None:
    pictures = {path.name for path in (REPOSITORY / ".github" / "screenshots").iterdir()}
    assert (
        pictures
        == {Path(target).name for page in DOCUMENTS for target in LINK.findall(page.read_text())} & pictures
    )


def test_each_page_is_short_and_linked() -> None:
    linked = LINK.findall(README.read_text())
    for page in PAGES:
        assert len(page.read_text().splitlines()) <= 120
        assert named(page) in linked or "reverse_text" in str(page)
    assert len(README.read_text().splitlines()) <= 150


def keys_in_tables(document: Path) -> Iterator[str]:
    """What is in the column `key` of its tables."""
    column = None
    for line in document.read_text().replace("\\|", "¦").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 1:
            column = None
        elif "key" in cells:
            column = cells.index("key")
        elif column is not None:
            yield from (key.replace("¦", "|") for key in re.findall(r"`([^`]+)`", cells[column]))


@pytest.mark.parametrize("document", [*PAGES, REPOSITORY / "examples" / "TUTORIALS.md"], ids=named)
def test_keys_in_tables_are_those_that_there_are(document: Path) -> None:
    known = {key for action in actions.ACTIONS for key in action.shown_keys.split(" / ")}
    assert set(keys_in_tables(document)) - known - set("123456789") == set()


def test_keys_are_found() -> None:
    assert len({key for page in PAGES for key in keys_in_tables(page)}) > 40
