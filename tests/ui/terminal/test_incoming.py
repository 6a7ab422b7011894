"""Whatever a terminal answers, and wherever that is cut: keys are keys, and an answer is none."""

from __future__ import annotations

import pytest
from tests.params import slow_but
from textual import events
from textual.constants import ESCAPE_DELAY
from textual.message import Message

from rltui.ui.terminal.incoming import ANSWER_TIMEOUT_S, BackgroundColorReported, Incoming

ANSWERS = {
    "device attributes": "\x1b[?62c",
    "of xterm": "\x1b[?64;1;2;6;9;15;16;17;18;21;22;28c",
    "of more levels": "\x1b[>41;388;0c",
    "third": "\x1bP!|00000000\x1b\\",
    "version": "\x1bP>|XTerm(388)\x1b\\",
    "setting": "\x1bP1$r0;1m\x1b\\",
    "capability": "\x1bP1+r544e=787465726d\x1b\\",
    "colour": "\x1b]4;1;rgb:cdcd/0000/0000\x07",
    "foreground": "\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    "title": "\x1b]lrltui: s x R q\x1b\\",
    "clipboard": "\x1b]52;c;" + "eHJT" * 3000 + "\x07",
    "is well": "\x1b[0n",
    "place with page": "\x1b[?25;80;1R",
    "size of the text": "\x1b[8;24;80t",
    "kitty's keys": "\x1b[?1u",
    "kitty's pictures": "\x1b_Gi=31;OK\x1b\\",
    "mode": "\x1b[?2027;0$y",
    "longer than any that is known": "\x1b[" + "1;" * 60 + "c",
    "a key of no number": "\x1b[99999999u",
}
KEYS = {
    "\x1b[A": ["up"],
    "\x1b[1;5C": ["ctrl+right"],
    "\x1bOP": ["f1"],
    "\x1b[[A": ["f1"],
    "\x1b[Z": ["shift+tab"],
    "\x1bxjj": ["alt+x", "j", "j"],
    "\x1b[97;5u": ["ctrl+a"],
    "jé@[?62c": ["j", "é", "at", "left_square_bracket", "question_mark", "6", "2", "c"],
    "\x1b[1;\x1b[B": ["down"],
    "\x1b\x1b[B": ["escape", "down"],
    "\x1b]x\x1bPq": ["alt+right_square_bracket", "x", "alt+shift+p", "q"],
}
SIZES = (1, 2, 3, 5, 7, 4096)


def keys(messages: list[Message]) -> list[str]:
    return [message.key for message in messages if isinstance(message, events.Key)]


def read(text: str, size: int) -> list[Message]:
    """In pieces of `size`."""
    incoming = Incoming()
    found = [each for at in range(0, len(text), size) for each in incoming.feed(text[at : at + size])]
    return found + incoming.flush()


@pytest.mark.parametrize("name", slow_but(list(ANSWERS), *(name for name in ANSWERS if name != "clipboard")))
def test_an_answer_is_no_key_wherever_it_is_cut(name: str) -> None:
    for size in SIZES:
        assert keys(read(f"j{ANSWERS[name]}k\r{ANSWERS[name]}", size)) == ["j", "k", "enter"]


def test_half_an_answer_is_no_key() -> None:
    for answer in ANSWERS.values():
        incoming = Incoming()
        assert incoming.feed(answer[:3]) == []
        assert incoming.timeout_s == ANSWER_TIMEOUT_S
        assert incoming.flush() == []
        assert keys(incoming.feed("j")) == ["j"]


@pytest.mark.parametrize("typed", KEYS, ids=repr)
def test_keys_are_keys_wherever_they_are_cut(typed: str) -> None:
    for size in SIZES:
        assert keys(read(typed, size)) == KEYS[typed]


def test_escape_waits_less_than_anybody_notices() -> None:
    for text, meaning in (("\x1b", ["escape"]), ("\x1b]", ["alt+right_square_bracket"])):
        incoming = Incoming()
        assert incoming.feed(text) == []
        assert incoming.timeout_s == ESCAPE_DELAY
        assert keys(incoming.flush()) == meaning
        assert incoming.timeout_s is None


def test_what_comes_long_after_its_escape_is_no_key() -> None:
    for rest in ("[?62c", "[>41;388;0c", "[8;24;80t", "[A", "[1;5C", "[6~"):
        incoming = Incoming()
        incoming.feed("\x1b")
        assert keys(incoming.flush()) == ["escape"]
        assert keys(incoming.feed(f"{rest}")) == [], rest
        assert keys(incoming.feed("[A")) == ["left_square_bracket", "A"], "it was typed"
    for typed in ("[[[", "[", "[x", "[Ax", "?6", "j"):
        incoming = Incoming()
        incoming.feed("\x1b")
        incoming.flush()
        assert len(keys(incoming.feed(typed))) == len(typed), typed
    incoming = Incoming()
    incoming.feed("\x1b[")
    assert incoming.timeout_s == ANSWER_TIMEOUT_S, "the rest may be late"
    assert keys(incoming.feed("?62cj")) == ["j"]


def test_what_we_ask_for_is_told() -> None:
    for size in SIZES:
        found = read("\x1b[3;4Ra\x1b]11;rgb:ffff/FFFF/ffff\x1b\\b\x1b[?997;1n\x1b[?2026;2$y", size)
        assert keys(found) == ["a", "b"]
        assert [type(each).__name__ for each in found if not isinstance(each, events.Key)] == [
            "CursorPosition", "BackgroundColorReported", "BackgroundColorReported",
            "TerminalSupportsSynchronizedOutput",
        ]  # fmt: skip
        assert [each.is_light for each in found if isinstance(each, BackgroundColorReported)] == [True, False]


@pytest.mark.parametrize("size", SIZES)
def test_a_paste_is_one_text_whatever_is_in_it(size: int) -> None:
    pasted = "q\x1b[?62cx\x1b\nR[A"
    found = read(f"j\x1b[200~{pasted}\x1b[201~k", size)
    assert keys(found) == ["j", "k"]
    assert [each.text for each in found if isinstance(each, events.Paste)] == [pasted]


def test_a_paste_that_does_not_end_is_still_no_keys() -> None:
    assert [type(each) for each in read("\x1b[200~qx", 3)] == [events.Paste]
