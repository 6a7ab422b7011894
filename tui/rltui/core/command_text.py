"""Command lines, short enough for a line of a list. Imports little: `rltui status` uses it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SSH_OPTIONS_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
"""As in ssh(1)."""
_FOLDERS = re.compile(r"(?<!\S)/\S*/(?=[^/\s])")
WIDTH = 40


def short_command(command: str, width: int = WIDTH) -> str:
    """`python3 -m train.py`: paths without their folders, no control characters, at most `width` in all."""
    text = _FOLDERS.sub("", "".join(letter if letter.isprintable() else " " for letter in command)).strip()
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def ssh_host(argv: Sequence[str]) -> str | None:
    """The machine on which an ssh command runs something that cannot be seen from here; `None` for others."""
    if not argv or argv[0].rpartition("/")[2] != "ssh":
        return None
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word == "-":
            return word
        if len(word) == 2 and word[1] in _SSH_OPTIONS_WITH_VALUE:
            next(words, None)
    return None
