"""Markdown as GitHub renders it, of text that comes from outside: nothing in it acts as markup. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rltui.core.text import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!$])")
_AT_BEGINNING = re.compile(r"^(?:[-+](?=\s|$)|[-=](?=[-=]*$)|\d(?=\d*[.)](?:\s|$)))")
"""What makes a list, a rule or a heading of a line; `-0.1` and `0.1` do not."""
_FENCE = re.compile(r"`{3,}")


def plain(text: str) -> str:
    """`text` in a line, as it is."""
    line = _MARKUP.sub(r"\\\1", visible(" ".join(text.split())))
    return _AT_BEGINNING.sub(lambda match: f"&#{ord(match[0])};", line)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, figures: bool = False) -> str:
    """With a line feed at its end. All columns but the first may be `figures`, which end below each other."""
    rule = ["---", *["---:" if figures else "---"] * (len(head) - 1)]
    lines = [[*map(plain, head)], rule, *([*map(plain, row)] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fenced(text: str, language: str = "") -> str:
    """`text` in lines of its own, whatever it holds."""
    fence = "`" * max(3, *(len(found) + 1 for found in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"
