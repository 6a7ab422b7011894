"""What comes from the terminal: keys, the mouse, pastes. Answers that nobody waits for are dropped whole."""

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

PATIENCE_S = 3.0
"""What has not come by then does not come at all: an answer, or the rest of one."""
_ESC = "\x1b"


@dataclass
class BackgroundColorReported(Message):
    """The terminal says what it looks like, or that this has changed."""

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
_BEGUN = re.compile(rf"\x1b(?:\[M[\s\S]{{0,2}}|\[\[|{_PARAMETERS}|{_STRING}\x1b?|[O\]P_])?\Z")
"""The beginning of one, at the end of what has come so far."""
_BROKEN_OFF = re.compile(rf"\x1b(?:\[[0-?]+[ -/]*|{_STRING})")

_TYPED = ("\x1b", "\x1b[[", "\x1bO", "\x1b]", "\x1bP", "\x1b_")
"""What a person can type, who has no other use for `alt+[`."""
_REST = re.compile(r"\[(?:[<-?][\d;]*[ -/]*[A-Za-z]|[\d;]+[A-Za-z~]|[A-DFH](?![ -~]))")
"""Of a sequence whose escape came too long before, as from a machine that is busy."""


class Incoming:
    """Makes messages of what is read, at whatever places that is cut."""

    def __init__(self) -> None:
        self._held = ""
        """May go on."""
        self._was_escape = False
        """That is what was taken last, for want of more."""
        self._parser = XTermParser()

    @property
    def patience_s(self) -> float | None:
        """How long to wait for the rest of what is held back, `None` where nothing is. What a person can type
        waits less than anybody notices.
        """
        if not self._held:
            return None
        return ESCAPE_DELAY if self._held in _TYPED else PATIENCE_S

    def take(self, text: str) -> list[Message]:
        if self._was_escape and (rest := _REST.match(text)):
            text = text[rest.end() :]
        self._was_escape = False
        text = self._held + text
        self._held = ""
        found: list[Message] = []
        at = 0
        while at < len(text):
            if text[at] != _ESC:
                end = text.find(_ESC, at) if _ESC in text[at:] else len(text)
                found += self._parser.feed(text[at:end])
            elif text.startswith(BRACKETED_PASTE_START, at):
                start, end = at + len(BRACKETED_PASTE_START), text.find(BRACKETED_PASTE_END, at)
                if end < 0:
                    self._held = text[at:]
                    break
                found.append(_paste(text[start:end]))
                end += len(BRACKETED_PASTE_END)
            elif sequence := _SEQUENCE.match(text, at):
                found += self._understood(sequence[0])
                end = sequence.end()
            elif _BEGUN.match(text, at):
                self._held = text[at:]
                break
            elif broken := _BROKEN_OFF.match(text, at):
                end = broken.end()
            else:
                end = at + 1 if text[at + 1] == _ESC else at + 2
                found += self._typed(text[at:end])
            at = end
        return found

    def release(self) -> list[Message]:
        """The rest has not come: keys, or nothing, as half an answer is no key."""
        is_typed = self.patience_s == ESCAPE_DELAY
        held, self._held = self._held, ""
        if held.startswith(BRACKETED_PASTE_START):
            return [_paste(held.removeprefix(BRACKETED_PASTE_START))]
        self._was_escape = held == _ESC
        return self._typed(held) if is_typed else []

    def _understood(self, sequence: str) -> Iterable[Message]:
        if told := _BACKGROUND.fullmatch(sequence):
            return [BackgroundColorReported(_is_light(told))]
        if _is_understood(sequence):
            return self._parser.feed(sequence)
        return self._typed(sequence) if len(sequence) == 2 or sequence[1] == "O" else []

    def _typed(self, text: str) -> list[Message]:
        """Escape, or a key with alt and what was typed behind it."""
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
def _is_understood(sequence: str) -> bool:
    """Textual knows what it means. Else it would take it for keys, together with what is typed next."""
    if len(sequence) > _MAX_SEQUENCE_SEARCH_THRESHOLD:
        return False
    parser = XTermParser()
    try:
        deque(parser.feed(sequence), maxlen=0)
    except (ValueError, OverflowError):  # a key or place by a number that there is not
        return False
    return parser._timeout_time is None  # noqa: SLF001 - else it waits for more


def _is_light(told: re.Match[str]) -> bool:
    if told["scheme"]:
        return told["scheme"] == "2"
    red, green, blue, *_ = (int(part, 16) * 255 // (16 ** len(part) - 1) for part in told["rgb"].split("/"))
    color: Rgb = (red, green, blue)
    return ratio(color, BLACK) > ratio(color, WHITE)
