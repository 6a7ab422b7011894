"""Markdown as GitHub renders it, of text that comes from outside: nothing in it acts as markup. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltui.base.text import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!$])")
_AT_BEGINNING = re.compile(r"^(?:[-+](?=\s|$)|[-=](?=[-=]*$)|\d(?=\d*[.)](?:\s|$)))")
"""Signs that make a list, a rule or a heading of a line; `-0.1` and `0.1` do not."""
_FENCE = re.compile(r"`{3,}")


def plain(text: str) -> str:
    """`text` in one line, without any effect as markup."""
    line = _MARKUP.sub(r"\\\1", visible(" ".join(text.split())))
    return _AT_BEGINNING.sub(lambda match: f"&#{ord(match[0])};", line)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: bool = False) -> str:
    """A table with a line feed at its end. All columns but the first are right-aligned if `numeric`."""
    rule = ["---", *["---:" if numeric else "---"] * (len(headings) - 1)]
    lines = [[*map(plain, headings)], rule, *([*map(plain, row)] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fenced(text: str, language: str = "") -> str:
    """`text` in lines of its own, whatever it holds."""
    fence = "`" * max(3, *(len(run) + 1 for run in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"
