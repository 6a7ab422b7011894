"""What a terminal's environment says of it."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem

from rltui.ui.terminal.abilities import abilities


@pytest.mark.parametrize(
    ("environ", "colors"),
    [
        ({"TERM": "xterm"}, ColorSystem.STANDARD),
        ({"TERM": "linux"}, ColorSystem.STANDARD),
        ({"TERM": "vt100"}, ColorSystem.STANDARD),
        ({"TERM": "nobody-knows-it"}, ColorSystem.STANDARD),
        ({}, ColorSystem.STANDARD),
        ({"TERM": "xterm-256color"}, ColorSystem.EIGHT_BIT),
        ({"TERM": "tmux-256color", "COLORTERM": "truecolor"}, ColorSystem.TRUECOLOR),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, ColorSystem.TRUECOLOR),
        ({"TERM": "xterm-direct"}, ColorSystem.TRUECOLOR),
        ({"TERM": "xterm-256color", "TEXTUAL_COLOR_SYSTEM": "standard"}, ColorSystem.STANDARD),
    ],
)
def test_colours(environ: dict[str, str], colors: ColorSystem) -> None:
    assert abilities(environ, encoding="utf-8").colors is colors


@pytest.mark.parametrize(
    ("value", "is_light"),
    [
        ("15;0", False),
        ("15;default;0", False),
        ("7;8", False),
        ("15;default", False),
        ("", False),
        ("0;15", True),
        ("0;default;15", True),
        ("0;7", True),
    ],
)
def test_background(value: str, is_light: bool) -> None:
    assert abilities({"COLORFGBG": value}, encoding="utf-8").is_light is is_light


@pytest.mark.parametrize(
    ("encoding", "is_ascii"), [("utf-8", False), ("UTF8", False), ("ascii", True), ("latin-1", True)]
)
def test_encoding(encoding: str, is_ascii: bool) -> None:
    assert abilities({}, encoding=encoding).is_ascii is is_ascii
