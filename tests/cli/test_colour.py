"""Colours only where they are wanted, and only ours."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.cli.conftest import CommandLine
from tests.cli.test_terminal import dangers, in_terminal
from tests.conftest import Box

from rltui.cli import main
from rltui.cli.colour import MARK, When, is_wanted, style, style_diff, style_line, switch

GREEN = "\x1b[32m"


@pytest.mark.parametrize(
    ("when", "is_terminal", "variables", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", False, {"CLICOLOR_FORCE": "1"}, True),
        ("auto", False, {"FORCE_COLOR": "0"}, False),
        ("auto", False, {"FORCE_COLOR": "3"}, True),
        ("auto", True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_who_decides(
    when: When, is_terminal: bool, variables: Mapping[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    assert is_wanted(when, is_terminal=is_terminal) is wanted


def test_nothing_is_painted_where_nobody_shows_it() -> None:
    assert style("ready", "good") == "ready"
    assert style_line("  ⚠ late") == "  ⚠ late"


def test_trouble_is_painted_whole_and_other_signs_alone() -> None:
    switch(is_on=True)
    try:
        marked = (
            style_line("  ⚠ late"),
            style_line("✓ done"),
            style_line("warning: odd"),
            *style_diff(["+a", "-b", " c", "+++ d"]),
        )
    finally:
        switch(is_on=False)
    assert [line.replace(MARK, "^") for line in marked] == [
        "  ^33m⚠ late^0m",
        "^32m✓^0m done",
        "^33mwarning^0m: odd",
        "^32m+a^0m",
        "^31m-b^0m",
        " c",
        "^1m+++ d^0m",
    ]


def test_colours_stand_before_and_behind_the_command(
    own_user: object, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--color=always", "help"], ["help", "--color", "always"]):
        main(words)
        assert "\x1b[36mstart\x1b[0m" in capsys.readouterr().out
        main([*words, "--no-color"])
        assert "\x1b" not in capsys.readouterr().out


def test_colours_of_others_stay_words(
    own_user: object, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--color=always", "status", f"{GREEN}evil\x1b[2J"])
    told = capsys.readouterr().err
    assert told.startswith("\x1b[31mrltui:\x1b[0m run not found")
    assert dangers(told.removeprefix("\x1b[31mrltui:\x1b[0m")) == set()
    assert "known: auto, always, never" in cli("--color=blue", "status", code=2)


def test_a_json_document_has_no_colours(own_user: object, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--color=always", "layouts", "--json"])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_terminal_is_asked(box: Box) -> None:
    assert GREEN in in_terminal(box, "doctor").decode()
    box.env["NO_COLOR"] = "1"
    assert "\x1b" not in in_terminal(box, "doctor").decode()
