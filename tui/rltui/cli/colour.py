"""Colours of the command line, by what a text means: of the sixteen that every terminal lets a person choose.

`style` puts marks around a text that nothing from outside can contain, since no two processes have the same;
the stream that it is printed to (`terminal.py`) makes control sequences of them, or leaves them out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Literal

from rltui.core.experiment.states import RUN_STATES, SHOWN_COMPONENT_STATES, AnyBadge, Role

When = Literal["auto", "always", "never"]

_CODES: dict[Role, str] = {
    "good": "32",
    "busy": "33",
    "bad": "31",
    "faint": "2",
    "key": "36",
    "head": "1",
    "added": "32",
    "removed": "31",
}
"""Parameters of SGR (ECMA-48)."""
_STATES: tuple[AnyBadge, ...] = (
    *SHOWN_COMPONENT_STATES,
    *RUN_STATES.values(),
)
_ROLES: dict[str, Role] = {
    **{badge.word: badge.role for badge in _STATES},
    **{badge.sign: badge.role for badge in _STATES if badge.sign != "?"},  # which says less before a line
    **dict.fromkeys(("growing", "valid"), "good"),
    **dict.fromkeys(("error", "not valid"), "bad"),
    **dict.fromkeys(("quiet", "–"), "faint"),
    "warning": "busy",
    **dict.fromkeys("→↗", "key"),
}
"""Role of a text, by the word of a state or severity that it is, or by the sign that it begins with."""
_WHOLE = "⚠✗"
"""Signs of lines that are told in one colour."""
_LABEL = re.compile(r"(\s*)(error|warning|note|memory)(?=:)")

MARK = f"\x1b{os.urandom(8).hex()}["
MARKED = re.compile(re.escape(MARK) + "([0-9]+)m")
_END = f"{MARK}0m"


class _State:
    is_on = False


def is_wanted(when: When, *, is_terminal: bool) -> bool:
    """Whether a stream gets colours: `auto` asks the terminal, and the variables that people set for that."""
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return is_terminal and os.environ.get("TERM", "dumb") != "dumb"


def switch(*, is_on: bool) -> None:
    """Turn painting on or off for all texts from here on; off where no stream shows it."""
    _State.is_on = is_on


def style(text: str, role: Role | None) -> str:
    if not _State.is_on or role is None or not text:
        return text
    return f"{MARK}{_CODES[role]}m{text}{_END}"


def strip_style(text: str) -> str:
    return MARKED.sub("", text) if MARK in text else text


def style_like(template: str, text: str) -> str:
    """Return `text` in the colour that all of `template` has."""
    match = MARKED.match(template) if MARK in template else None
    return text if match is None else f"{match[0]}{text}{_END}"


def role_of(text: str) -> Role | None:
    """Role of a state, a severity or a sign; also of a text that begins with one: `failed: trainer`, `✓
    done`.
    """
    return _ROLES.get(text) or next(
        (_ROLES[item] for item in re.split(r"[ :·]+", text) if item in _ROLES), None
    )


def style_line(line: str) -> str:
    """A line with the sign or label that it begins with painted, or all of it where it tells of trouble."""
    if not _State.is_on or not (text := line.lstrip()):
        return line
    space = line[: len(line) - len(text)]
    if text[0] in _WHOLE:
        return f"{space}{style(text, role_of(text[0]))}"
    if text[0] in _ROLES:
        return f"{space}{style(text[0], role_of(text[0]))}{text[1:]}"
    if (label := _LABEL.match(line)) is not None:
        return f"{label[1]}{style(label[2], role_of(label[2]) or 'faint')}{line[label.end() :]}"
    return line


def style_diff(lines: Iterable[str]) -> list[str]:
    return [style(line, _role_in_diff(line)) for line in lines]


def _role_in_diff(line: str) -> Role | None:
    if line.startswith(("+++", "---")):
        return "head"
    return {"+": "added", "-": "removed", "@": "key"}.get(line[:1])  # type: ignore[return-value]
