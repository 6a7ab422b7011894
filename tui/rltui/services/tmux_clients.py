"""Show a line to people who are attached to a tmux server, theirs or ours. Nothing else of it is touched."""

from __future__ import annotations

import fnmatch
import logging
import os
from collections.abc import Sequence

from rltui.core.lines import plain_text
from rltui.errors import RltuiError
from rltui.services import outside

logger = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""For each call: a tmux server that is stopped must not hold up the others."""
_FORMAT = "#{client_name} #{client_tty} #{session_name}"
"""Only the last may hold spaces. A tab would not arrive: tmux replaces it where the locale is not UTF-8."""


async def show_message(
    server: str,
    text: str,
    *,
    duration_s: float,
    session: str | None = None,
    patterns: Sequence[str] = ("*",),
) -> int:
    """Show `text` on one line until a key is pressed or `duration_s` is over. Returns to how many clients.

    `server` is a name (`tmux -L NAME`) or, with a `/`, the path of a socket; none is started. Only clients
    of `session` where it is given, and whose tty or session one of the `patterns` matches.
    """
    tmux = _tmux(server)
    lines = await _output(*tmux, "list-clients", "-F", _FORMAT)
    wanted = [name for line in lines if (name := _wanted(line, session, patterns)) is not None]
    shown = _message(text)
    for client in wanted:
        delay = str(int(duration_s * 1000))
        await _output(*tmux, "display-message", "-d", delay, "-c", client, "--", shown)
    return len(wanted)


def _tmux(server: str) -> tuple[str, ...]:
    if "/" in server:
        return "tmux", "-S", os.path.expanduser(server)  # noqa: PTH111
    return "tmux", "-L", server


def _wanted(line: str, session: str | None, patterns: Sequence[str]) -> str | None:
    name, tty, attached_to = line.split(" ", 2)
    if session is not None and attached_to != session:
        return None
    matches = any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns for value in (tty, attached_to))
    return name if matches else None


def _message(text: str) -> str:
    """One line that tmux expands to the text: neither a format, nor a time, nor the end of a command."""
    line = " ".join(plain_text(part).strip() for part in text.splitlines())
    line = line.replace("#", "##").replace("%", "%%")
    return f"{line[:-1]}\\;" if line.endswith(";") else line


async def _output(*command: str) -> list[str]:
    """Lines of its output; none where it fails, which is no news where a server or client is gone."""
    try:
        done = await outside.run(command, timeout_s=TIMEOUT_S)
    except RltuiError as error:
        logger.warning("%s", error.title)
        return []
    if done.code is None:
        logger.warning("%s does not answer", " ".join(command[:3]))
        return []
    if done.code:
        logger.info("%s: %s", " ".join(command[:4]), done.errors.decode(errors="replace").strip())
        return []
    return done.output.decode(errors="replace").splitlines()
