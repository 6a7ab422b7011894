"""The person's own programs: editor, pager, browser."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from rltui.base.interpreter import bare_command
from rltui.errors import RltuiError, UsageError
from rltui.services.processes import subprocesses
from rltui.services.processes.subprocesses import in_terminal

_TAKE_A_LINE = frozenset(
    {"vi", "vim", "nvim", "view", "nano", "pico", "emacs", "emacsclient", "micro", "joe", "kak", "ne", "mg"}
)
"""Editors that begin at the line of an argument `+LINE`."""


def edit_text(path: str, text: str, *, line: int = 1) -> str:
    """Let a person edit `text` in `$VISUAL`, `$EDITOR` or vi, and return what was saved. Takes the terminal.

    `path` only gives the copy its name. It begins at `line`, counted from 1, in editors that are told how.

    Raises:
        UsageError: if there is no such editor.
        RltuiError: if it failed, or left something that is no UTF-8 text.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="rltui-edit-") as folder:
        copy = Path(folder) / Path(path).name
        try:
            copy.write_bytes(text.encode())
            argv = shlex.split(command)
            begins = [f"+{line}"] if line > 1 and argv and Path(argv[0]).name in _TAKE_A_LINE else []
            if code := in_terminal([*argv, *begins, str(copy)]):
                raise RltuiError(f"the editor ended with code {code}: {command}", hint="nothing was written")
            return copy.read_bytes().decode()
        except ValueError as error:  # no closing quotation, or no UTF-8
            raise RltuiError(f"{command}: {error}", hint="nothing was written") from error
        except FileNotFoundError as error:
            raise UsageError(
                f"editor not found: {command!r}", hint="set VISUAL or EDITOR to one that is installed"
            ) from error
        except OSError as error:
            raise RltuiError(
                f"cannot edit a copy of {path}: {error.strerror}", hint="nothing was written"
            ) from error


def pager_command(path: str) -> list[str]:
    """The pager of `$PAGER`, or less, for a file.

    Raises:
        UsageError: if there is no such program.
    """
    command_line = os.environ.get("PAGER") or "less"
    try:
        argv = shlex.split(command_line)
    except ValueError as error:
        raise UsageError(f"$PAGER {command_line!r}: {error}") from None
    if not argv or shutil.which(argv[0]) is None:
        raise UsageError(f"pager not found: {command_line!r}", hint="set PAGER to one that is installed")
    return [*argv, path]


def copy_to_tmux(text: str) -> bool:
    """Have the tmux that we run in keep `text` as its newest buffer, and pass it on to the clipboards of the
    terminals that it is seen in, as far as its options let it. False where we run in none, or it refuses.

    Before tmux 3.2 it can keep it only.
    """
    if "TMUX" not in os.environ:
        return False
    for options in (["-w"], []):
        with suppress(RltuiError):
            command = ["tmux", "load-buffer", *options, "-"]
            subprocesses.check_output(command, timeout_s=2.0, stdin=text.encode(errors="replace"))
            return True
    return False


_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Variables of which one is set where a browser can be seen; an editor's terminal sets the last one."""
_BROWSER_TIMEOUT_S = 10.0
_BROWSE = """
import os, sys, webbrowser
nothing = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(nothing, number)
sys.exit(not webbrowser.open(sys.argv[1]))
"""
"""A browser that goes on must not write where nobody reads any more."""


async def open_url(url: str) -> bool:
    """Have a browser show a page, without a word on this terminal; false where there is none to be seen."""
    if sys.platform != "darwin" and not any(map(os.environ.get, _DISPLAYS)):
        return False
    try:
        process = await subprocesses.run(bare_command("-c", _BROWSE, url), timeout_s=_BROWSER_TIMEOUT_S)
    except RltuiError:
        return False
    return process.code == 0
