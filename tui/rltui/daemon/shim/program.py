# ruff: noqa: PTH100, PTH118
"""The program: its place among the processes, its argument, its exit status."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from rltui.daemon.shim.attempt import WAKING, Attempt
from rltui.daemon.shim.spec import ForeignFileError, Spec, read_own

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
        attempt = Attempt(folder, Spec(read_own(os.path.join(folder, "spec.json"))))
    except (OSError, ValueError, TypeError, LookupError, ForeignFileError, RecursionError) as error:
        sys.stderr.write(f"shim: {folder}/spec.json: {error!r}\n")
        return 2
    attempt.run()
    return 0
