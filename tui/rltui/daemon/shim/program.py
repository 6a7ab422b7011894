# ruff: noqa: PTH100, PTH118, PTH123
"""The program: its place among the processes, its argument, its exit status."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

from rltui.daemon.shim.attempt import WAKING, Attempt
from rltui.daemon.shim.spec import Spec

PR_SET_CHILD_SUBREAPER = 36
"""From `linux/prctl.h`."""

IGNORED = (signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""A lost terminal, or a key pressed in the attached pane, must not end or freeze a trainer's supervision."""


def become_reaper() -> None:
    """Orphans below us become our children; signals wait until we look at them."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by a parent, it would swallow exit codes
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def main(arguments: list[str]) -> int:
    """Exit status: 0 when the attempt is recorded to its end, 2 when there was nothing to run."""
    become_reaper()
    if len(arguments) != 1:
        sys.stderr.write("usage: shim ATTEMPT_DIR\n")
        return 2
    folder = os.path.abspath(arguments[0])
    try:
        with open(os.path.join(folder, "spec.json"), encoding="utf-8") as file:
            attempt = Attempt(folder, Spec(json.load(file)))
    except (OSError, ValueError, TypeError, LookupError) as error:
        sys.stderr.write(f"shim: {folder}/spec.json: {error!r}\n")
        return 2
    attempt.run()
    return 0
