"""The clipboard of the person's own computer, through the terminal (OSC 52), over SSH and tmux too."""

from __future__ import annotations

import base64

_MOST_BYTES = 74_000
"""Terminals ignore more than 100,000 characters of base64."""


def clipboard_sequence(text: str, *, inside_tmux: bool) -> str | None:
    """What makes a terminal take `text` over; `None` where it is too much for that.

    Inside tmux both forms are sent: tmux takes the one where its option `set-clipboard` is on, and passes
    the other on where `allow-passthrough` is. Which of them it is cannot be learnt.
    """
    data = text.encode(errors="replace")
    if len(data) > _MOST_BYTES:
        return None
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if not inside_tmux:
        return sequence
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"{sequence}\x1bPtmux;{doubled}\x1b\\"
