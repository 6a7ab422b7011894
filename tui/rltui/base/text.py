"""Text for people: sanitised for a terminal or a JSON document, numbers and durations, guesses at names.

Names, titles, values, comments and error texts come from outside. Characters that would act on a terminal or
disguise other text (control characters, bidirectional overrides, invisible characters) get a visible
replacement. Not so logs: `core/logs/lines.py` drops their escape sequences and keeps their colours.

Imports little: `rltui status` uses it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from rltui.errors import UsageError

INVISIBLE = (
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 without the tab, DEL, C1
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e01ef"
)
"""Categories Cc, Cf, Zl, Zp and Cs, for a character class; the tab is for each user to decide on."""

CONTROL_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # also cut ones
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]*[0-Z\\^-~]?"  # what is left of ESC: two or three characters, or cut
)
"""Pattern of a sequence of characters that act on a terminal."""
_ACTING = re.compile(f"{CONTROL_SEQUENCE}|(?!\n)[{INVISIBLE}]")

BLOCKS = "▁▂▃▄▅▆▇█"
"""Heights of a cell, the lowest first."""
_TO_REPLACE = re.compile(f"(?!\n)[{INVISIBLE}]")
_NOT_UTF8 = range(0xDC80, 0xDD00)
"""Code points for bytes of file names and arguments that are no UTF-8 (PEP 383)."""

_ASCII = {
    **dict.fromkeys("─┄┈╌╴╶▔", "-"),
    **dict.fromkeys("│┃║┆┇┊┋╎╏╵╷╹╻╽╿▏▎▍▐▕‖▥", "|"),
    **dict(zip(BLOCKS, "_.-=+*%#", strict=True)),
    **dict.fromkeys("■▉▊▋▰◆", "#"),
    **dict.fromkeys("–—−▱", "-"),
    **dict.fromkeys("━═┅┉╍╸╺╼╾▌▤≡", "="),
    **dict.fromkeys("▦✓", "+"),
    **dict.fromkeys("●✦★⚒°•", "*"),
    **dict.fromkeys("▞▨÷", "/"),
    **dict.fromkeys("‹«←⌫⏎◂≤", "<"),
    **dict.fromkeys("›»→⇒↗▸≥", ">"),
    **dict.fromkeys("↑▲▴", "^"),
    **dict.fromkeys("↓▼▾", "v"),
    **dict.fromkeys("‘’▀", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("≈±◐◑…∞", "~"),
    **dict.fromkeys("×✗", "x"),
    "·": "-",
    "◌": ".",
    "○": "o",
    "◉": "O",
    "░": ".",
    "▒": ":",
    "▓": "&",
    "▚": "X",
    "✂": "%",
    "⚠": "!",
    "↻": "@",
}
"""Replacements of our own signs if the terminal lacks them: one cell for one."""
_ASCII_WORDS = {
    **dict.fromkeys("→↗", "->"),
    "…": "...",
    "←": "<-",
    "⇒": "=>",
    "±": "+/-",
    "≤": "<=",
    "≥": ">=",
    "°": " deg",
    "⏎": "<-",
    "∞": "inf",
    "ß": "ss",
    "␡": "^?",
}
"""The same if a sign may take more room."""


def visible(text: str) -> str:
    """`text` with a visible replacement for each invisible character; line feeds and tabs stay.

    `␛` for an escape, `‹U+202E›` for a bidirectional override, `‹0xFF›` for a byte that is no UTF-8.
    """
    return text if text.isprintable() else _TO_REPLACE.sub(_stand_in, text)


def escape_json(document: str) -> str:
    r"""The same JSON document, with each such character, which can only be in a string, as `\uXXXX`."""
    if document.removesuffix("\n").isprintable():
        return document
    return _TO_REPLACE.sub(lambda match: _utf16(match[0]), document)


def to_encoding(text: str, encoding: str) -> str:
    """`text` in characters that `encoding` has: `->` for `→`, `a` for `ä`, `?` if nothing resembles it."""
    return _encodable(text, encoding, _resembling)


def json_to_encoding(document: str, encoding: str) -> str:
    """The same JSON document in characters that `encoding` has."""
    return _encodable(document, encoding, _utf16)


def _stand_in(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"‹0x{code - 0xDC00:02X}›" if code in _NOT_UTF8 else f"‹U+{code:04X}›"


def _utf16(sign: str) -> str:
    data = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[offset : offset + 2].hex()}" for offset in range(0, len(data), 2))


def _encodable(text: str, encoding: str, stand_in: Callable[[str], str]) -> str:
    if _can_encode(encoding, text):
        return text
    return "".join(sign if _can_encode(encoding, sign) else stand_in(sign) for sign in text)


def _can_encode(encoding: str, text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _resembling(sign: str) -> str:
    import unicodedata  # rarely needed

    if replacement := _ASCII_WORDS.get(sign) or _ASCII.get(sign) or _drawing(sign):
        return replacement
    if "\u2400" <= sign < "\u2420":
        return f"^{chr(ord(sign) - 0x2400 + 0x40)}"
    return "".join(letter for letter in unicodedata.normalize("NFKD", sign) if letter.isascii()) or "?"


def _drawing(sign: str) -> str:
    """Replacement of box corners and crossings, and of braille dots; empty for all else."""
    if "\u2500" <= sign < "\u2580":
        return "+"
    if "\u2800" <= sign < "\u2900":
        dots = ord(sign)
        return " '.:"[bool(dots & 0b00011011) + 2 * bool(dots & 0b11100100)]
    return ""


def ascii_cell(sign: str) -> str:
    """A similar ASCII sign of one cell: `>` for `→`, `a` for `ä`; `?` if there is none."""
    return sign if sign.isascii() else (_ASCII.get(sign) or _resembling(sign))[0]


_SSH_OPTIONS_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
"""Source: ssh(1)."""
_FOLDERS = re.compile(r"(?<!\S)/\S*/(?=[^/\s])")
_COMMAND_WIDTH = 40


def short_command(command: str, width: int = _COMMAND_WIDTH) -> str:
    """`python3 -m train.py`: paths without their folders, no control characters, at most `width` in all."""
    text = _FOLDERS.sub("", "".join(letter if letter.isprintable() else " " for letter in command)).strip()
    return truncate(text, width)


def truncate(text: str, width: int) -> str:
    """At most `width` characters, the last one an ellipsis if something was cut."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def untrusted_text(text: str, most: int | None = None) -> str:
    """A text that a model, a program or somebody else wrote, as data: without what acts on a terminal or
    hides other text (lines and tabs stay), and at most `most` characters of it, the middle cut out.

    JSON has it below the key `untrusted`.
    """
    text = _ACTING.sub("", text)
    if most is None or len(text) <= most:
        return text
    half, omitted_count = most // 2, len(text) - most
    gap = f"\n[… {group_digits(omitted_count)} characters left out …]\n"
    return f"{text[:half]}{gap}{text[half + omitted_count :]}"


def join_words(names: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else "".join(names)


def join_some(names: Sequence[str], most: int) -> str:
    """Name at most `most` and count the rest: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def join_first(names: Sequence[str], most: int, last: str = "and") -> str:
    """`a, b and 7 more`: as `join_words`, of at most `most` names; a single further one is named itself."""
    more = len(names) - most
    return join_words([*names[:most], f"{more} more"] if more > 1 else names, last)


def count_text(count: int, noun: str, *, is_grouped: bool = False) -> str:
    """Put the noun into the plural unless `count` is 1: `1 step`, `3 steps`; grouped: `3,000 steps`."""
    number = f"{count:,}" if is_grouped else f"{count}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def numbered(name: str) -> Iterator[str]:
    """Yield `name`, `name-2`, `name-3` … without end."""
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def ssh_host(argv: Sequence[str]) -> str | None:
    """The machine on which an ssh command runs something that is invisible here; `None` for other
    commands.
    """
    if not argv or argv[0].rpartition("/")[2] != "ssh":
        return None
    arguments = iter(argv[1:])
    for argument in arguments:
        if not argument.startswith("-") or argument == "-":
            return argument
        if len(argument) == 2 and argument[1] in _SSH_OPTIONS_WITH_VALUE:
            next(arguments, None)
    return None


def duration(seconds: float) -> str:
    """At most two units: `41s`, `1m40s`, `41m`, `2h05m`, `3d04h`."""
    total = max(0, int(seconds))
    minutes, rest = divmod(total, 60)
    hours, rest_minutes = divmod(minutes, 60)
    days, rest_hours = divmod(hours, 24)
    if days:
        return f"{days}d{rest_hours:02d}h"
    if hours:
        return f"{hours}h{rest_minutes:02d}m"
    if minutes >= 10:
        return f"{minutes}m"
    if minutes:
        return f"{minutes}m{rest:02d}s"
    return f"{rest}s"


def age(seconds: float) -> str:
    """Format a duration in steps of 5 s, and of a minute from one minute on, so that a title does not
    flicker.
    """
    step = 5 if seconds < 60 else 60
    return duration(seconds // step * step).removesuffix("00s")


GIB = 1 << 30


def gib(size_bytes: float) -> str:
    """`71.2`, or `141` from a hundred on."""
    value = size_bytes / GIB
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def size_text(size_bytes: int) -> str:
    """`3.2 GiB`, or MiB below one."""
    return f"{gib(size_bytes)} GiB" if size_bytes >= GIB else f"{size_bytes / (1 << 20):.0f} MiB"


_NAMED_STEPS = 3
"""Up to this many are named one by one."""


def steps_text(steps: Sequence[int]) -> str:
    """`430`, `430 and 440`, `430 to 500 (8)`, for ascending steps."""
    if len(steps) <= _NAMED_STEPS:
        return join_words(tuple(map(str, steps)))
    return f"{steps[0]} to {steps[-1]} ({len(steps)})"


def format_number(value: float, unit: str = "") -> str:
    """A measured value in few characters: `0.934`, `1.2e-06`, `82.1k`; in `display_unit(unit)`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    value *= _DISPLAY_UNITS.get(unit, ("", 1.0))[1]
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if limit <= abs(value) < 1e15:
            return f"{value / (limit if suffix != 'k' else 1e3):.3g}{suffix}"
    return f"{value:.4g}" if abs(value) >= 1e3 else f"{value:.3g}"


_PLURAL = re.compile(r"(?<=[a-z]{2})s(?=/|$)")
_DISPLAY_UNITS = {"bytes": ("GiB", 1 / 1024**3), "frac": ("%", 100.0)}
"""Unit → the unit that people read, and its factor."""


def display_unit(unit: str) -> str:
    """The unit in which `format_number` tells values of `unit`."""
    return _DISPLAY_UNITS.get(unit, (unit, 1.0))[0]


def format_measured(value: float, unit: str) -> str:
    """A measured value and its unit: `1 step`, `2 steps`, `45 %`."""
    number, noun = format_number(value, unit), display_unit(unit)
    if number == "1":
        noun = _PLURAL.sub("", noun)
    return f"{number} {noun}".rstrip()


def group_digits(value: float) -> str:
    """`262,144`, `12,610`, `0.394`: thousands apart, below a thousand four significant digits."""
    if isinstance(value, int) or value >= 1000:
        return f"{round(value):,}"
    return f"{value:.4g}"


def value_text(value: object) -> str:
    """A value as a person writes it: text without quotes, `none` for nothing, lists in TOML."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        short = f"{value:g}"
        exact = short if float(short) == value else repr(value)
        return exact.replace("e-0", "e-").replace("e+0", "e+")
    if isinstance(value, list):
        from rltui.base.toml.values import format_value  # rarely needed

        return format_value(value)
    return str(value)


def sparkline(values: tuple[float, ...], width: int) -> str:
    """The newest `width` values as blocks, scaled to all of them. Gaps (NaN) are spaces.

    A run that fell is drawn low, however it wavers there.
    """
    newest = values[-width:] if width > 0 else ()
    finite = [value for value in values if math.isfinite(value)]
    if not any(math.isfinite(value) for value in newest):
        return ""
    low, high = min(finite), max(finite)
    span = high - low
    top = len(BLOCKS) - 1
    return "".join(
        " " if not math.isfinite(value) else BLOCKS[round((value - low) / span * top) if span else top // 2]
        for value in newest
    )


_MOST_DIGITS = 15


def parse_whole_number(text: str) -> int | None:
    """The number that a text of digits stands for; `None` for any other text, and for very long ones."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def parse_number(text: str) -> float:
    """The number that a person typed; NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def parse_amount(text: str) -> float | None:
    """Value of `0.8`, `1e-5`, `50%`, `10k`, `2M`; `None` for other texts."""
    factor = {"%": 0.01, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}.get(text[-1:], 1.0)
    value = parse_number(text if factor == 1.0 else text[:-1])
    return None if value != value else value * factor


_CLOSE = 0.7
_CLOSE_KEY = 0.8
"""Stricter for the last segments of dotted keys: long tables before them resemble each other anyway."""


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that most resembles `name`, ignoring case and the difference of `-` and `_`."""
    import difflib  # rarely needed

    query = _normalized(name)
    plain = {_normalized(candidate): candidate for candidate in names}
    if "." in query:
        ends = {_last(key) for key in plain}
        alike = {end for end in ends if _ends_alike(_last(query), end)}
        plain = {key: candidate for key, candidate in plain.items() if _last(key) in alike}
    matches = difflib.get_close_matches(query, plain, n=1, cutoff=_CLOSE)
    return plain[matches[0]] if matches else None


_MOST_NAMES = 8


def unknown_name(what: str, name: str, names: Iterable[str]) -> UsageError:
    """The error for an unknown typed name. Its hint is the closest existing one, else the first ones."""
    names = list(names)
    known = f"known: {join_some(names, _MOST_NAMES)}" if names else "none yet"
    return UsageError(f"unknown {what}: {name}", hint=did_you_mean(name, names) or known)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean X?`, or an empty text if nothing is close."""
    match = closest(name, names)
    return f"did you mean {match}?" if match else ""


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _ends_alike(one: str, other: str) -> bool:
    import difflib

    matcher = difflib.SequenceMatcher(None, one, other)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # each closer, and slower
    return all(ratio() >= _CLOSE_KEY for ratio in bounds)


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_")


QUIET_S = 60.0
"""A log without a new byte for this long counts as quiet."""


def quiet_s(changed_at: float | None, now: float) -> float | None:
    """Time since which it has been quiet; `None` while it grows, or if there is no file."""
    if changed_at is None or now - changed_at < QUIET_S:
        return None
    return now - changed_at
