"""Why an attempt ended, from the end of its output and what the kernel counted."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from rltui.core.failure_cause import Cause, FailurePattern, find_cause
from rltui.core.lines import LINE_BREAK, decode_line, plain_text
from rltui.frameworks.failures import CHILD_KILLED

TAIL_BYTES = 64 * 1024
"""Read of the log. vLLM writes 20 kB between the root cause and its end."""
USAGE_ERROR = 2
"""What argparse, tyro and click exit with for wrong arguments."""
KILLED_CODE = 128 + 9
"""What a shell, or `uv run`, exits with when its child was killed by SIGKILL."""

_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Signals that others send: the output says nothing of why."""
_USAGE = re.compile(r"^\s*usage: |\berror: |^Error\b|^\W*Usage: ", re.MULTILINE | re.IGNORECASE)
_ERROR_LINE = re.compile(r"^.*?\berror: (?P<what>[^\n]+)$", re.MULTILINE | re.IGNORECASE)
_HOST_OOM = Cause("killed by the kernel: the machine ran out of memory", hopeless=True)


def cause_of_end(
    log: Path,
    *,
    exit_code: int | None,
    signal: str | None,
    patterns: Sequence[FailurePattern],
    host_oom: bool,
) -> Cause | None:
    """Why it failed, `None` where nothing says. Ask only of an attempt that nobody asked to end.

    `host_oom`: the kernel has killed a process for want of memory while the attempt ran. Reads at most
    `TAIL_BYTES` of `log`; one that cannot be read counts as empty.
    """
    if host_oom and (signal == "SIGKILL" or exit_code == KILLED_CODE):
        return _HOST_OOM
    if signal in _FROM_OUTSIDE:
        return None
    lines = last_lines(log)
    output = "\n".join(lines)
    if host_oom and re.search(CHILD_KILLED, output):
        return _HOST_OOM
    cause = find_cause(lines, patterns)
    if exit_code == USAGE_ERROR and not (cause and cause.hopeless) and _USAGE.search(output):
        return _usage_error(output)
    return cause


def last_lines(log: Path, *, end: int | None = None) -> list[str]:
    """The lines within the last `TAIL_BYTES`, sanitised, oldest first; one cut at its start is left out.

    `end`: where the file is taken to end.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            size = size if end is None else min(size, end)
            file.seek(max(0, size - TAIL_BYTES))
            data = file.read(min(size, TAIL_BYTES))
    except OSError:
        return []
    lines = data.split(b"\n")
    if size > TAIL_BYTES and len(lines) > 1:
        lines = lines[1:]
    return [piece for line in lines for piece in plain_text(decode_line(line)).split(LINE_BREAK)]


def _usage_error(output: str) -> Cause:
    errors = [match["what"] for match in _ERROR_LINE.finditer(output)]
    what = f": {' '.join(errors[-1].split())[:200]}" if errors else "; see the end of the log"
    return Cause(f"config error: wrong arguments{what}", hopeless=True)
