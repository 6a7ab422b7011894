"""From the raw bytes of a log line to text that is safe to show.

Colours survive as spans. Every other escape sequence, control character, bidirectional override and invisible
character is dropped, so that nothing a log contains can act on the terminal or disguise other text.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass

from rltui.core.levels import Level, detect_level
from rltui.core.sgr import PLAIN, SgrStyle, apply_sgr
from rltui.core.terminal_text import INVISIBLE

TAB_COLUMNS = 8
_RANK = re.compile(r"(?:\[[A-Za-z_]{1,40}\d{1,6}\]:\s?)?")
"""What torchrun puts before a line."""
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_NEWLINES = re.compile(r"\s*[\r\n]\s*")
LINE_BREAK = " ⏎ "
"""Stands for one inside a message of JSON logging, such as of a traceback."""

_INVISIBLE = f"{INVISIBLE}\ufe00-\ufe0f"
"""With the variation selectors, whose width terminals disagree on."""

_DIRTY = re.compile(f"[\t{_INVISIBLE}]")
_TOKEN = re.compile(
    r"(?:\x1b\[|\x9b)(?P<sgr>[0-9;:]*)m"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # other control sequences, also cut ones
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]*[0-Z\\^-~]?"  # what is left of ESC: two or three characters, or cut
    r"|(?P<tabs>\t+)"
    f"|[{_INVISIBLE}]"
)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line from index `start` up to but not including `stop`, and its look."""

    start: int
    stop: int
    style: SgrStyle


@dataclass(frozen=True, slots=True)
class Line:
    """A line as shown: printable text, its coloured pieces in order, and its level where it names one."""

    text: str
    spans: tuple[Span, ...]
    level: Level | None


def parse_line(raw: str) -> Line:
    """Sanitise one decoded line. Brackets and other markup in it stay literal text."""
    if _DIRTY.search(raw) is None:
        return Line(raw, (), detect_level(raw))
    text, spans = _sanitise(raw)
    return Line(text, spans, detect_level(text))


def plain_text(raw: str) -> str:
    """Return the text of one decoded line as `parse_line` would show it, for searching and printing."""
    if _DIRTY.search(raw) is None:
        return raw
    return _sanitise(raw)[0] if "\t" in raw else _TOKEN.sub("", raw)


def decode_line(data: bytes, *, complete: bool = True) -> str:
    """Decode one line, with U+FFFD for invalid UTF-8, and fold carriage returns.

    Of a progress bar redrawn with carriage returns, only the last state that shows something is returned. A
    record of JSON logging becomes the line that it stands for: time, level and message.
    `complete=False` says that `data` may end inside a character, whose bytes are then left out.
    """
    text, _ = codecs.utf_8_decode(data, "replace", complete)
    if "\r" in text:
        text = fold_redraws(text)
    return _as_line(text) if text.endswith("}") and '"level"' in text else text


def fold_redraws(text: str) -> str:
    """Return the last piece between carriage returns that has visible text, or an empty string."""
    for piece in reversed(text.split("\r")):
        if plain_text(piece).strip():
            return piece
    return ""


def _as_line(text: str) -> str:
    """What a record of JSON logging says, behind torchrun's rank; any other text as it is."""
    start = text.find("{")
    try:
        record = json.loads(text[start:]) if _RANK.fullmatch(text[:start]) else None
    except (ValueError, RecursionError):
        return text
    if not isinstance(record, dict):
        return text
    level, message = record.get("level"), record.get("message", record.get("desc"))
    if not isinstance(level, str) or not isinstance(message, str):
        return text
    time = _CLOCK.search(str(record.get("timestamp", "")))
    trace = record.get("exception") or record.get("traceback")
    said = message if not isinstance(trace, str) else f"{message}\n{trace}"
    whole = _NEWLINES.sub(LINE_BREAK, said.strip())
    return f"{text[:start]}{time[0] if time else ''} {level:>7} {whole}".lstrip()


def _sanitise(raw: str) -> tuple[str, tuple[Span, ...]]:
    pieces: list[str] = []
    spans: list[Span] = []
    style = PLAIN
    length = 0
    position = 0

    def put(piece: str) -> None:
        nonlocal length
        if not piece:
            return
        if style != PLAIN:
            spans.append(Span(length, length + len(piece), style))
        pieces.append(piece)
        length += len(piece)

    for token in _TOKEN.finditer(raw):
        put(raw[position : token.start()])
        position = token.end()
        if (parameters := token["sgr"]) is not None:
            style = apply_sgr(style, parameters)
        elif tabs := token["tabs"]:
            put(" " * (len(tabs) * TAB_COLUMNS - length % TAB_COLUMNS))
    put(raw[position:])
    return "".join(pieces), tuple(spans)
