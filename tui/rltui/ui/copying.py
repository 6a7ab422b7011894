"""Text goes to the clipboard of the computer that the person sits at, or to a file."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import Protocol, runtime_checkable

from textual.message import Message

from rltui.base.text import truncate
from rltui.ui.state import AppState
from rltui.ui.styles import CURSOR_SIGN
from rltui.ui.text import clean_line

_MOST_COPIED_BYTES = 74_000
"""Terminals ignore more than 100,000 characters of base64."""
_DEAF = ("linux", "dumb", "vt100", "vt220")
"""Terminals, by the first word of TERM, that have no clipboard: the console and its kin."""
_OF_TMUX = ("tmux", "screen")
"""First words of tmux's names for a terminal, also beyond an ssh connection."""
TMUX = "tmux"
_WORDS_OF_A_COPY = 40
"""Characters of what was copied, to be recognised."""


@dataclass
class CopyRequested(Message):
    """A person wants this text in the clipboard, or in a file."""

    text: str
    what: str = ""
    """A name for the text; empty: its first line stands for it."""
    name: str = ""
    """Name of a file beside the run that it is written to; empty: it goes to the clipboard."""


@runtime_checkable
class Copyable(Protocol):
    def copied(self) -> CopyRequested | None:
        """The text to copy; `None`: there is nothing."""
        ...


def rows_text(lines: Iterable[str]) -> str:
    """The sign of the cursor and padding are left out."""
    return dedent("\n".join(line.replace(CURSOR_SIGN, " ", 1).rstrip() for line in lines)).strip()


def clipboard_sequence(text: str, *, inside_tmux: bool) -> str | None:
    """The sequence that sets the clipboard of one's own computer (OSC 52); `None`: `text` is too long.

    Inside tmux both forms are sent: tmux takes the one where its option `set-clipboard` is on, and passes
    the other on where `allow-passthrough` is. Which of them it is cannot be learnt.
    """
    data = text.encode(errors="replace")
    if len(data) > _MOST_COPIED_BYTES:
        return None
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    return f"{sequence}{passed_through(sequence)}" if inside_tmux else sequence


def passed_through(sequence: str) -> str:
    """`sequence` in the wrapping that tmux takes off, to send what is in it to the terminal around it."""
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"


def is_inside_tmux(environ: Mapping[str, str] = os.environ) -> bool:
    """A tmux at the other end of an ssh connection counts."""
    return "TMUX" in environ or ("STY" not in environ and _first_word(environ) in _OF_TMUX)


def _first_word(environ: Mapping[str, str]) -> str:
    return environ.get("TERM", "").partition("-")[0]


def may_keep_it(environ: Mapping[str, str] = os.environ) -> str:
    """The program that may withhold a copy from the system's clipboard; empty: none that we know of."""
    if is_inside_tmux(environ):
        return TMUX
    if "STY" in environ:
        return "screen"
    if environ.get("TERM_PROGRAM") == "Apple_Terminal":
        return "Apple's Terminal"
    if "VTE_VERSION" in environ:  # GNOME Terminal and its kin: off in all, or not there at all
        return "this terminal"
    return "this terminal" if _first_word(environ) in _DEAF else ""


async def copy(request: CopyRequested, app_state: AppState, write: Callable[[str], object] | None) -> str:
    """Put a text into a named file; else into the clipboard, and into tmux or a file if that may not arrive.

    `write`: writes to the terminal, if there is one. Returns where the text is now, in words.

    Raises:
        RltuiError: if a file cannot be written.
    """
    name = request.what or f"“{truncate(clean_line(request.text), _WORDS_OF_A_COPY)}”"
    if request.name and app_state.current is not None:
        path = app_state.current.experiment.save(request.name, f"{request.text}\n" if request.text else "")
        return f"Wrote {name} to {clean_line(path)}"
    sequence = clipboard_sequence(request.text, inside_tmux=is_inside_tmux())
    if sequence is not None and write is not None:
        write(sequence)
    message = f"Copied {name}" if sequence is not None else f"Too large for the clipboard: {name}"
    other_clipboard, runs = may_keep_it(), app_state.runs
    if other_clipboard == TMUX and await asyncio.to_thread(runs.copy_to_tmux, request.text):
        return f"{message}; also in tmux's buffer"
    if sequence is not None and not other_clipboard:
        return message
    preposition = "written to" if sequence is None else f"if {other_clipboard} blocks the clipboard, see"
    return f"{message}; {preposition} {clean_line(await asyncio.to_thread(runs.save_copy, request.text))}"
