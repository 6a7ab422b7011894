"""`gpus`: the GPUs of this box and who holds their memory, once or again and again; no experiment needed."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager

from rltui.cli.gpu_text import report_lines, title
from rltui.core.gpu.report import GpuReport
from rltui.errors import RltuiError, UsageError
from rltui.services.gpu_once import ANSWER_S, readings

EARLY_S = 0.2
"""A report may come so much before its time: the supervisor's clock is not ours."""
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""To the other screen, without a cursor, and back (xterm's private modes)."""
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
"""Go to the first cell; empty the rest of the line, of the screen. Nothing is emptied that is drawn again."""


def gpus(arguments: argparse.Namespace) -> int:
    """Print every GPU and who holds its memory."""
    reports = readings(arguments.watch) if arguments.name is None else _of(arguments.name, arguments.watch)
    with closing(reports):
        if arguments.json:
            for report in reports:
                print(report.model_dump_json(), flush=True)
        elif arguments.watch is None:
            for report in reports:
                print("\n".join(_lines(report)))
        elif sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            _redraw(reports, arguments.watch)
        else:
            for report in reports:
                head = title(report, interval_s=arguments.watch, now=time.time())
                print("\n".join([head, *_lines(report), ""]), flush=True)
    return 0


def _of(name: str, interval_s: float | None) -> Generator[GpuReport, None, None]:
    """What the supervisor of an experiment knows: once, or whenever it is new, `interval_s` apart at least.

    Raises:
        UsageError: if the experiment is unknown or does not run.
    """
    from rltui.client import launch

    record = launch.choose(name)
    wire = launch.connect(record)
    if wire is None:
        raise UsageError(f"{name} does not run", hint="without -n, `rltui gpus` reads the GPUs itself")
    with wire:
        if interval_s is None:
            yield GpuReport.model_validate(wire.call("gpus", timeout_s=2 * ANSWER_S))
            return
        due = time.monotonic()
        for kind, data in wire.events():
            if kind == "gpus" and time.monotonic() >= due:
                due = time.monotonic() + interval_s - EARLY_S
                yield GpuReport.model_validate(data)
    raise RltuiError(f"the supervisor of {name} ended", hint=f"look with `rltui status {name}`")


def _lines(report: GpuReport) -> list[str]:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return report_lines(report, width=width, now=time.time())


def _redraw(reports: Iterable[GpuReport], interval_s: float) -> None:
    """Always the newest, in place, on a screen of its own."""
    with _other_screen():
        for report in reports:
            head = title(report, interval_s=interval_s, now=time.time())
            sys.stdout.write(frame([head, *_lines(report)], height=shutil.get_terminal_size().lines))
            sys.stdout.flush()


@contextmanager
def _other_screen() -> Iterator[None]:
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def frame(lines: list[str], *, height: int) -> str:
    """What draws `lines` over the frame before; what there is no room for is counted on the last line."""
    if len(lines) > height:
        lines = [*lines[: height - 1], f"… {len(lines) - height + 1} more lines"]
    return _HOME + "\r\n".join(f"{line}{_END_OF_LINE}" for line in lines) + _BELOW
