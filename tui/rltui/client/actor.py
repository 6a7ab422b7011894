"""The person and process that ask for something, as the journal saves them."""

from __future__ import annotations

import os
import pwd


def actor() -> str:
    """The person and this process for display, such as `ada, pid 4711 on pts/3 from 10.0.0.5`."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    terminal = next((os.ttyname(number) for number in (0, 1, 2) if os.isatty(number)), "")
    where = f" on {terminal.removeprefix('/dev/')}" if terminal else ""
    host = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
    return f"{name}, pid {os.getpid()}{where}{f' from {host}' if host else ''}"
