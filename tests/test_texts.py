"""The list of all texts is what a user can meet, and each reads as the field writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import texts

SOURCE = '''"""A docstring is not shown."""
import re

CSS = "a rule of style"
_COLUMNS = (Column("reward"), Column("key", title="Reward"))
"""Nor is that of a constant."""


class Model:
    name: Annotated[str, "no text at all"]
    text: str = "a default that is shown"

    def act(self, mode: Literal["not a text"] = "no") -> str:
        """Not shown either."""
        log.debug("for the developer of it")
        re.compile("some (?:pattern|expression)")
        self.connection.execute("SELECT name FROM runs")
        if self.state == "stopped":
            raise ConfigError(f"not a number: {self.value}", hint="integer")
        notify("done", "the run has ended")
        return f"step {step:>5} of {self.table['a_key']}" + (" and more" if more else "x")
'''


def test_finds_what_is_shown_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert [text.text for text in texts.of_python(path, "module.py")] == [
        *("reward", "key", "Reward"),
        "a default that is shown",
        *("not a number: {value}", "integer"),
        *("done", "the run has ended"),
        *("step {step} of {…}", " and more"),
    ]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("tui/rltui/cli", "unknown"),
        ("tui/rltui/cli/help", "rltui"),
        ("tui/rltui/frameworks", "memory"),
        ("layouts", "[[component]]"),
        ("README.md", "rltui"),
    ],
)
def test_reads_each_kind_of_file(place: str, words: str) -> None:
    collected = texts.collect([place])
    assert any(words in text.text for text in collected)
    assert all(text.line and (texts.ROOT / text.file).is_file() for text in collected)


PLACES = [
    *(folder for folder in texts.FOLDERS if folder != "tui"),
    *("tui/README.md", "tui/facts"),
    *(str(path.relative_to(texts.ROOT)) for path in sorted((texts.ROOT / "tui/rltui").glob("[!_]*"))),
]


@pytest.mark.parametrize("place", PLACES)
def test_each_text_reads_as_the_field_writes(place: str) -> None:
    assert "\n".join(map(str, texts.dialect(texts.collect([place])))) == ""


@pytest.mark.parametrize(
    "text",
    [
        *("'x' is no number", "what it did is told below", "the run goes on", "nothing of it runs"),
        *("the option behind it", "the pod is made anew", "so many steps", "charts, or no more"),
    ],
)
def test_a_habit_is_found(text: str) -> None:
    assert texts.dialect([texts.Text("module.py", 1, text)])


@pytest.mark.parametrize(
    "text",
    [
        *(
            "not a number: x",
            "there is no checkpoint",
            "{name} stands for its file",
            "the run is no longer visible",
        ),
        "what is running",
    ],
)
def test_what_the_field_writes_is_none(text: str) -> None:
    assert texts.dialect([texts.Text("module.py", 1, text)]) == []
