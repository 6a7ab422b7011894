"""Log lines: from raw bytes to text that is safe to display, with colours, level and filter.

Colours survive as spans. Every other escape sequence, control character, bidirectional override and invisible
character is dropped, so that nothing a log contains can act on the terminal or disguise other text.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from rltui.base.text import CONTROL_SEQUENCE, INVISIBLE

Colour = int | tuple[int, int, int]
"""A palette number 0–255 (0–15 are the terminal's own colours) or red, green, blue of 0–255 each."""


class SgrStyle(NamedTuple):
    """The requested look of a piece of log text. `None` as a colour means the default one."""

    fg: Colour | None = None
    bg: Colour | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False


PLAIN = SgrStyle()

_FLAGS: dict[int, dict[str, bool]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
}


@lru_cache(maxsize=1024)
def apply_sgr(style: SgrStyle, parameters: str) -> SgrStyle:
    """`style` after `ESC [ parameters m`. Unknown or malformed parameters change nothing."""
    groups = [_numbers(group) for group in parameters.split(";")]
    position = 0
    while position < len(groups):
        group = groups[position]
        position += 1
        code = group[0]
        if code in (38, 48):
            if len(group) == 1:
                colour, consumed = _colour([argument[0] for argument in groups[position : position + 4]])
                position += consumed
            else:
                colour, _ = _colour(_without_colour_space(group[1:]))
            if colour is not None:
                style = style._replace(fg=colour) if code == 38 else style._replace(bg=colour)
        elif code == 4 and group[1:] == [0]:
            style = style._replace(underline=False)
        else:
            style = _apply_code(style, code)
    return style


def _apply_code(style: SgrStyle, code: int) -> SgrStyle:
    if code == 0:
        return PLAIN
    if code in _FLAGS:
        return style._replace(**_FLAGS[code])
    tens, units = divmod(code, 10)
    match tens:
        case 3 | 9 if units < 8:
            return style._replace(fg=units + (8 if tens == 9 else 0))
        case 4 | 10 if units < 8:
            return style._replace(bg=units + (8 if tens == 10 else 0))
    if code == 39:
        return style._replace(fg=None)
    return style._replace(bg=None) if code == 49 else style


def _colour(arguments: list[int]) -> tuple[Colour | None, int]:
    """Read what follows 38 or 48: the colour, if it is a valid one, and how many arguments it took."""
    match arguments:
        case [5, index, *_]:
            return (index if index < 256 else None), 2
        case [2, red, green, blue]:
            return ((red, green, blue) if max(red, green, blue) < 256 else None), 4
    return None, len(arguments)


def _without_colour_space(arguments: list[int]) -> list[int]:
    """Drop the colour space of `2:<space>:r:g:b`, the long colon form."""
    return [2, *arguments[2:5]] if arguments[:1] == [2] and len(arguments) > 4 else arguments


def _numbers(group: str) -> list[int]:
    return [int(digits) if digits.isdecimal() and len(digits) < 6 else 0 for digits in group.split(":")]


class Level(StrEnum):
    """Levels in rising order of severity, under loguru's names."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def severity(self) -> int:
        """Rank among the levels, 0 for the least severe."""
        return _SEVERITY[self]


_SEVERITY = {level: rank for rank, level in enumerate(Level)}
_SYNONYMS = {"WARN": Level.WARNING, "FATAL": Level.CRITICAL, "EXCEPTION": Level.ERROR}
GLOG_LEVELS = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.CRITICAL}
"""Level by the first letter of a line of glog or torch."""
LEVEL_NAMES = r"TRACE|DEBUG|INFO|SUCCESS|WARN(?:ING)?|ERROR|EXCEPTION|CRITICAL|FATAL"
_RANK = r"(?:\[[A-Za-z_]\w*\]:\s?){0,3}"
"""Prefixes of torchrun and torch: `[trainer0]:`, `[rank0]:`."""
_PROCESS = r"(?:\([A-Za-z][^()]{0,80}\bpid=\d+[^()]{0,40}\)\s?)?"
"""Prefixes of vLLM, `(EngineCore_DP0 pid=12) `, and Ray, `(Worker pid=12, ip=10.0.0.1) `."""
_CLOCK = r"\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
_START = re.compile(
    rf"{_RANK}{_PROCESS}\s*(?:{_CLOCK}[\s|-]*(?:[\w.-]{{1,60}} - )?)?"
    rf"\[?\s*(?P<name>{LEVEL_NAMES})\s*(?=[\]:|,\s-]|$)"
)
_JSON = re.compile(rf'"level"\s*:\s*"(?P<name>{LEVEL_NAMES})"', re.IGNORECASE)
_GLOG_START = re.compile(rf"{_RANK}\[?(?P<letter>[IWEF])\d{{4}} \d\d:\d\d")
_EXCEPTION = re.compile(
    rf"{_RANK}{_PROCESS}\s*(?:Traceback \(most recent call last\)"
    r"|(?:[A-Za-z_]\w*\.)*[A-Za-z_]*(?:Error|Exception|Interrupt|ExitGroup)(?:: |:?$))"
)
_PYTHON_WARNING = re.compile(r"\S:\d{1,9}: [A-Za-z]{0,60}Warning: ")


def detect_level(text: str) -> Level | None:
    """The level of one sanitised line, or `None` if the line has none (a continuation)."""
    beginning = text[:400]
    if match := _START.match(beginning):
        return parse_level(match["name"])
    if match := _GLOG_START.match(beginning):
        return GLOG_LEVELS[match["letter"]]
    if _EXCEPTION.match(beginning):
        return Level.ERROR
    if '"level"' in beginning and (match := _JSON.search(beginning)):
        return parse_level(match["name"])
    return Level.WARNING if _PYTHON_WARNING.search(beginning) else None


def names_exception(text: str) -> bool:
    """True for the first and the last line of a traceback."""
    return _EXCEPTION.match(text) is not None


@lru_cache(maxsize=64)
def parse_level(name: str) -> Level | None:
    """The level called `name`, in any case and under common synonyms, or `None`."""
    upper = name.upper()
    if upper in _SYNONYMS:
        return _SYNONYMS[upper]
    return Level(upper.lower()) if upper in Level.__members__ else None


@dataclass(slots=True)
class LineFilter:
    """Accepts lines that match `pattern` anywhere and are of `level` or more severe; both are optional.

    Feed it the sanitised lines of one log in order: a line without a level, such as one of a traceback, has
    that of the line before. Lines before the first level count as `info`.
    """

    pattern: re.Pattern[str] | None = None
    level: Level | None = None
    _current: Level = field(default=Level.INFO, init=False)

    @property
    def is_open(self) -> bool:
        """Whether every line passes."""
        return self.pattern is None and self.level is None

    def accepts(self, text: str) -> bool:
        if self.level is not None:
            self._current = detect_level(text) or self._current
            if self._current.severity < self.level.severity:
                return False
        return self.pattern is None or self.pattern.search(text) is not None


_TAB_COLUMNS = 8
_TORCHRUN_RANK = re.compile(r"(?:\[[A-Za-z_]{1,40}\d{1,6}\]:\s?)?")
"""Prefix that torchrun adds to a line."""
_JSON_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_NEWLINES = re.compile(r"\s*[\r\n]\s*")
LINE_BREAK = " ⏎ "
"""Stands for a line break inside a message of JSON logging, such as of a traceback."""

_INVISIBLE_RANGES = f"{INVISIBLE}\ufe00-\ufe0f"
"""Includes the variation selectors, whose width terminals disagree on."""

_DIRTY = re.compile(f"[\t{_INVISIBLE_RANGES}]")
_TOKEN = re.compile(
    r"(?:\x1b\[|\x9b)(?P<sgr>[0-9;:]*)m"
    f"|{CONTROL_SEQUENCE}"
    r"|(?P<tabs>\t+)"
    f"|[{_INVISIBLE_RANGES}]"
)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line from index `start` up to but not including `stop`, and its look."""

    start: int
    stop: int
    style: SgrStyle


@dataclass(frozen=True, slots=True)
class Line:
    """A line as displayed: printable text, its coloured pieces in order, and its level if it names one."""

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
    """The text of one decoded line as `parse_line` would return it, for searching and printing."""
    if _DIRTY.search(raw) is None:
        return raw
    return _sanitise(raw)[0] if "\t" in raw else _TOKEN.sub("", raw)


def decode_line(data: bytes, *, complete: bool = True, folded: bool = True) -> str:
    """Decode one line, with U+FFFD for invalid UTF-8, and fold carriage returns.

    Of a progress bar redrawn with carriage returns, only the last visible state is returned, or, unless
    `folded`, all of them, one after the other. A record of JSON logging becomes a line with time, level and
    message. `complete=False` says that `data` may end inside a character, whose bytes are then left out.
    """
    text, _ = codecs.utf_8_decode(data, "replace", complete)
    if "\r" in text:
        text = _fold_redraws(text) if folded else text.replace("\r", " ")
    return _as_line(text) if text.endswith("}") and '"level"' in text else text


def _fold_redraws(text: str) -> str:
    """The last piece between carriage returns that has visible text, or an empty string."""
    for piece in reversed(text.split("\r")):
        if plain_text(piece).strip():
            return piece
    return ""


def _as_line(text: str) -> str:
    """The line for a record of JSON logging, after torchrun's rank; any other text unchanged."""
    start = text.find("{")
    try:
        record = json.loads(text[start:]) if _TORCHRUN_RANK.fullmatch(text[:start]) else None
    except (ValueError, RecursionError):
        return text
    if not isinstance(record, dict):
        return text
    level, message = record.get("level"), record.get("message", record.get("desc"))
    if not isinstance(level, str) or not isinstance(message, str):
        return text
    time = _JSON_CLOCK.search(str(record.get("timestamp", "")))
    trace = record.get("exception") or record.get("traceback")
    content = message if not isinstance(trace, str) else f"{message}\n{trace}"
    one_line = _NEWLINES.sub(LINE_BREAK, content.strip())
    return f"{text[:start]}{time[0] if time else ''} {level:>7} {one_line}".lstrip()


def _sanitise(raw: str) -> tuple[str, tuple[Span, ...]]:
    pieces: list[str] = []
    spans: list[Span] = []
    style = PLAIN
    length = 0
    position = 0

    def append(piece: str) -> None:
        nonlocal length
        if not piece:
            return
        if style != PLAIN:
            spans.append(Span(length, length + len(piece), style))
        pieces.append(piece)
        length += len(piece)

    for token in _TOKEN.finditer(raw):
        append(raw[position : token.start()])
        position = token.end()
        if (parameters := token["sgr"]) is not None:
            style = apply_sgr(style, parameters)
        elif tabs := token["tabs"]:
            append(" " * (len(tabs) * _TAB_COLUMNS - length % _TAB_COLUMNS))
    append(raw[position:])
    return "".join(pieces), tuple(spans)
