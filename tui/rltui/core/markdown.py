"""Markdown as GitHub renders it, of text that comes from outside: nothing in it acts as markup. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltui.core.text import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!$])")
_AT_BEGINNING = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))")
"""What makes a list, a rule or a heading of a line."""
_FENCE = re.compile(r"`{3,}")


def plain(text: str) -> str:
    """`text` in a line, as it is."""
    line = _MARKUP.sub(r"\\\1", visible(" ".join(text.split())))
    return _AT_BEGINNING.sub(lambda match: f"{match[1]}&#{ord(match[2][0])};{match[2][1:]}", line)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """With a line feed at its end. Figures stand to the right; the first column is the label."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [[*map(plain, head)], rule, *([*map(plain, row)] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fenced(text: str, language: str = "") -> str:
    """`text` in lines of its own, whatever it holds."""
    fence = "`" * max(3, *(len(found) + 1 for found in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"
