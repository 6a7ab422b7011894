"""Command lines, short enough for a line of a list. Imports little: `rltui status` uses it."""

from __future__ import annotations

import re

_FOLDERS = re.compile(r"(?<!\S)/\S*/(?=[^/\s])")
WIDTH = 40


def short_command(command: str, width: int = WIDTH) -> str:
    """`python3 -m train.py`: paths without their folders, no control characters, at most `width` in all."""
    text = _FOLDERS.sub("", "".join(letter if letter.isprintable() else " " for letter in command)).strip()
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
