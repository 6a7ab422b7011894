"""`gpus`: the GPUs of this box and who holds their memory, once or again and again; no experiment needed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from rltui.cli.terminal import control, while_read
from rltui.core.text import visible
from rltui.errors import RltuiError, UsageError

if TYPE_CHECKING:
    from rltui.core.gpu.report import GpuReport

ANSWER_S = 20.0
"""For a supervisor, whose driver may be busy."""
EARLY_S = 0.2
"""A report may come so much before its time: the supervisor's clock is not ours."""
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""To the other screen, without a cursor, and back (xterm's private modes)."""
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
"""Go to the first cell; empty the rest of the line, of the screen. Nothing is emptied that is drawn again."""


def gpus(arguments: argparse.Namespace) -> int:
    """Print every GPU and who holds its memory."""
    with nullcontext() if arguments.watch is None else while_read():
        if arguments.json:
            _print_json(arguments)
        else:
            _print(arguments)
    return 0


def _print_json(arguments: argparse.Namespace) -> None:
    """What a supervisor says, as it comes."""
    if arguments.name is not None:
        with closing(_of(arguments.name, arguments.watch)) as documents:
            for document in documents:
                print(json.dumps(document, ensure_ascii=False), flush=True)
        return
    with closing(_readings(arguments.watch)) as reports:
        for report in reports:
            print(report.model_dump_json(), flush=True)


def _print(arguments: argparse.Namespace) -> None:
    from rltui.core.gpu.report import GpuReport  # pydantic takes 60 ms

    if arguments.name is None:
        reports = _readings(arguments.watch)
    else:
        reports = (GpuReport.model_validate(each) for each in _of(arguments.name, arguments.watch))
    with closing(reports):
        if arguments.watch is None:
            for report in reports:
                print("\n".join(_lines(report)))
        elif sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            _redraw(reports, arguments.watch)
        else:
            for report in reports:
                print("\n".join([*_lines(report, arguments.watch), ""]), flush=True)


def _readings(interval_s: float | None) -> Generator[GpuReport, None, None]:
    from rltui.services.gpu_once import readings

    return readings(interval_s)


def _of(name: str, interval_s: float | None) -> Generator[dict[str, Any], None, None]:
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
            yield wire.call("gpus", timeout_s=ANSWER_S)
            return
        due = time.monotonic()
        for kind, data in wire.events():
            if kind == "gpus" and time.monotonic() >= due:
                due = time.monotonic() + interval_s - EARLY_S
                yield data
    raise RltuiError(f"the supervisor of {name} ended", hint=f"look with `rltui status {name}`")


def _lines(report: GpuReport, interval_s: float | None = None) -> list[str]:
    """Under a title where it is repeated."""
    from rltui.cli.gpu_text import report_lines, title

    width, now = shutil.get_terminal_size().columns if sys.stdout.isatty() else None, time.time()
    head = [] if interval_s is None else [title(report, interval_s=interval_s, now=now)]
    return [*head, *report_lines(report, width=width, now=now)]


def _redraw(reports: Iterable[GpuReport], interval_s: float) -> None:
    """Always the newest, in place, on a screen of its own."""
    with _other_screen():
        for report in reports:
            height = shutil.get_terminal_size().lines
            control(frame([*map(visible, _lines(report, interval_s))], height=height))
            sys.stdout.flush()


@contextmanager
def _other_screen() -> Iterator[None]:
    control(_ENTER)
    try:
        yield
    finally:
        control(_LEAVE)
        sys.stdout.flush()


def frame(lines: list[str], *, height: int) -> str:
    """What draws `lines` over the frame before; what there is no room for is counted on the last line."""
    if len(lines) > height:
        lines = [*lines[: height - 1], f"… {len(lines) - height + 1} more lines"]
    return _HOME + "\r\n".join(f"{line}{_END_OF_LINE}" for line in lines) + _BELOW
