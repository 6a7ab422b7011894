"""Input of the terminal: keys, mouse, pastes. Answers that no code waits for are dropped as a whole."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from textual import events
from textual._xterm_parser import (
    _MAX_SEQUENCE_SEARCH_THRESHOLD,
    BRACKETED_PASTE_END,
    BRACKETED_PASTE_START,
    XTermParser,
)
from textual.constants import ESCAPE_DELAY
from textual.message import Message

from rltui.ui.terminal.contrast import BLACK, WHITE, Rgb, ratio

ANSWER_TIMEOUT_S = 3.0
"""After so long an answer, or the rest of one, is not expected any more."""
_ESC = "\x1b"


@dataclass
class BackgroundColorReported(Message):
    """The terminal has told its background, or that this has changed."""

    is_light: bool


_BACKGROUND = re.compile(
    r"\x1b\]11;rgba?:(?P<rgb>[\da-fA-F]{1,4}(?:/[\da-fA-F]{1,4}){2,3})(?:\x07|\x1b\\)"
    r"|\x1b\[\?997;(?P<scheme>[12])n"
)
_PARAMETERS = r"\[[0-?]*[ -/]*"
_STRING = r"(?:\](?=[\dlL])|P(?=[\d!>$+])|_(?=G))[^\x07\x1b\x9c]*"
"""OSC, DCS and APC, as terminals answer with them: a person who holds alt types other letters behind it."""
_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[M[\s\S]{3}"  # the mouse, of terminals that know no better way
    r"|\[\[[A-E]"  # function keys of the Linux console
    rf"|(?!\[[M\[]){_PARAMETERS}[@-~]"
    rf"|{_STRING}(?:[\x07\x9c]|\x1b\\)"
    r"|O[ -~]"
    r"|[^\x1b\[\]PO_]"  # alt and a key
    r")"
)
_INCOMPLETE = re.compile(rf"\x1b(?:\[M[\s\S]{{0,2}}|\[\[|{_PARAMETERS}|{_STRING}\x1b?|[O\]P_])?\Z")
"""The beginning of a sequence, at the end of what was read."""
_TRUNCATED = re.compile(rf"\x1b(?:\[[0-?]+[ -/]*|{_STRING})")

_TYPEABLE = ("\x1b", "\x1b[[", "\x1bO", "\x1b]", "\x1bP", "\x1b_")
"""Prefixes that a person can type, who has no other use for `alt+[`."""
_LATE_REST = re.compile(r"\[(?:[<-?][\d;]*[ -/]*[A-Za-z]|[\d;]+[A-Za-z~]|[A-DFH](?![ -~]))")
"""The rest of a sequence whose escape came long before, as from a machine that is busy."""


class Incoming:
    """Makes messages of what is read, at whatever places that is cut."""

    def __init__(self) -> None:
        self._pending = ""
        """The beginning of what may be a sequence or a paste."""
        self._was_escape = False
        """The last flush has made a key of an escape."""
        self._parser = XTermParser()

    @property
    def timeout_s(self) -> float | None:
        """How long to wait for the rest of what is pending, `None` where nothing is. What a person can type
        waits less than anybody notices.
        """
        if not self._pending:
            return None
        return ESCAPE_DELAY if self._pending in _TYPEABLE else ANSWER_TIMEOUT_S

    def feed(self, text: str) -> list[Message]:
        if self._was_escape and (rest := _LATE_REST.match(text)):
            text = text[rest.end() :]
        self._was_escape = False
        text = self._pending + text
        self._pending = ""
        messages: list[Message] = []
        position = 0
        while position < len(text):
            if text[position] != _ESC:
                end = text.find(_ESC, position)
                end = len(text) if end < 0 else end
                messages += self._parser.feed(text[position:end])
            elif text.startswith(BRACKETED_PASTE_START, position):
                start = position + len(BRACKETED_PASTE_START)
                end = text.find(BRACKETED_PASTE_END, position)
                if end < 0:
                    self._pending = text[position:]
                    break
                messages.append(_paste(text[start:end]))
                end += len(BRACKETED_PASTE_END)
            elif sequence := _SEQUENCE.match(text, position):
                messages += self._parse_sequence(sequence[0])
                end = sequence.end()
            elif _INCOMPLETE.match(text, position):
                self._pending = text[position:]
                break
            elif broken := _TRUNCATED.match(text, position):
                end = broken.end()
            else:
                end = position + 1 if text[position + 1] == _ESC else position + 2
                messages += self._to_keys(text[position:end])
            position = end
        return messages

    def flush(self) -> list[Message]:
        """Make keys of what is pending, as its rest has not come; nothing of half an answer."""
        is_typed = self.timeout_s == ESCAPE_DELAY
        pending, self._pending = self._pending, ""
        if pending.startswith(BRACKETED_PASTE_START):
            return [_paste(pending.removeprefix(BRACKETED_PASTE_START))]
        self._was_escape = pending == _ESC
        return self._to_keys(pending) if is_typed else []

    def _parse_sequence(self, sequence: str) -> Iterable[Message]:
        if report := _BACKGROUND.fullmatch(sequence):
            return [BackgroundColorReported(_is_light(report))]
        if _is_parsable(sequence):
            return self._parser.feed(sequence)
        return self._to_keys(sequence) if len(sequence) == 2 or sequence[1] == "O" else []

    def _to_keys(self, text: str) -> list[Message]:
        """The key escape, or a key with alt and what was typed behind it."""
        if text == _ESC:
            return [events.Key("escape", _ESC)]
        keys: list[Message] = []
        for key in self._parser._sequence_to_key_events(text[1], alt=True):  # noqa: SLF001
            name = key.key if "alt+" in key.key else f"alt+{key.key}"  # Textual drops it of `alt+[`
            keys.append(events.Key(name, key.character))
        return [*keys, *self._parser.feed(text[2:])] if text[2:] else keys


def _paste(text: str) -> events.Paste:
    return events.Paste(text.replace("\x00", ""))


@lru_cache
def _is_parsable(sequence: str) -> bool:
    """Whether Textual knows it: else it would make keys of it, together with what is typed next."""
    if len(sequence) > _MAX_SEQUENCE_SEARCH_THRESHOLD:
        return False
    parser = XTermParser()
    try:
        deque(parser.feed(sequence), maxlen=0)
    except (ValueError, OverflowError):  # a key or place by a number that there is not
        return False
    return parser._timeout_time is None  # noqa: SLF001 - else it waits for more


def _is_light(report: re.Match[str]) -> bool:
    if report["scheme"]:
        return report["scheme"] == "2"
    red, green, blue, *_ = (int(part, 16) * 255 // (16 ** len(part) - 1) for part in report["rgb"].split("/"))
    color: Rgb = (red, green, blue)
    return ratio(color, BLACK) > ratio(color, WHITE)
