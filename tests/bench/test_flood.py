"""Three components write as fast as they can: being watched does not slow them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import mean

import pytest
from tests.bench import experiments
from tests.bench.experiments import NAMES, Running, command
from tests.bench.table import Row
from tests.bench.terminal import Terminal, opened
from tests.bench.usage import memory, middle
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

LINES = int(os.environ.get("BENCH_LINES", 3_000_000))
ROUNDS = 3
CPUS = sorted(os.sched_getaffinity(0))
HALF = max(1, len(CPUS) // 2)
SPLIT = (CPUS[:HALF], CPUS[HALF:] or CPUS)
"""Producers on one half of the cores and the TUI on the other: what is left is the brake, not the rivalry."""
SHARED = (CPUS, CPUS)
BYTES_BUDGET = 60_000.0


@dataclass(frozen=True, slots=True)
class Flood:
    took_s: float
    """Mean of the three producers."""
    ended_at: float
    """When the last one was done, on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Watched:
    flood: Flood
    bytes_per_s: float
    behind_s: float
    """From the last line's writing to its painting."""
    rss_mb: float


def listed(cpus: list[int]) -> str:
    return ",".join(map(str, cpus))


def flood(folder: Path, turn: int) -> Flood:
    """Let the three waiting producers run once."""
    (folder / f"go-{turn}").touch()
    files = [folder / f"took-{turn}-{name}" for name in NAMES]
    retry_until(lambda: all(file.exists() for file in files), timeout_s=300)
    ends, spans = zip(*(map(float, file.read_text().split()) for file in files), strict=True)
    return Flood(mean(spans), max(ends))


def plain_flood(folder: Path, cpus: list[int]) -> Flood:
    """`cmd > file`, three at once."""
    folder.mkdir()
    with producers(folder, cpus):
        done = flood(folder, 0)
    for name in NAMES:
        (folder / name).unlink()
    return done


@contextmanager
def producers(folder: Path, cpus: list[int]) -> Iterator[None]:
    with ExitStack() as stack:
        for name in NAMES:
            file = stack.enter_context((folder / name).open("wb"))
            process = subprocess.Popen(command("flooder.py", name, folder, LINES, listed(cpus)), stdout=file)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def watched_flood(running: Running, folder: Path, turn: int, cpus: list[int]) -> Watched:
    argv = ["taskset", "-c", listed(cpus), *running.tui]
    with opened(argv, *NAMES, "ready", cwd=running.box.work, env=running.box.env) as (terminal, _):
        terminal.expect(*(f"flood {turn} of {name} is over" for name in NAMES))
        before, started = terminal.bytes_total, time.monotonic()
        done = flood(folder, turn)
        written = terminal.bytes_total - before
        painted = terminal.painted_at()
        rss_mb = memory(terminal.process.pid).rss_mb
        return Watched(done, written / (done.ended_at - started), painted - done.ended_at, rss_mb)


def mean_of(runs: list[Watched], value: Callable[[Watched], float]) -> float:
    return middle([value(run) for run in runs])


@pytest.mark.parametrize(
    ("where", "cpus", "slack"), [("cores apart", SPLIT, 1.25), ("cores shared", SHARED, None)]
)
def test_producers_are_not_slowed(
    box: Box, table: list[Row], where: str, cpus: tuple[list[int], list[int]], slack: float | None
) -> None:
    folder = box.work / "turns"
    folder.mkdir()
    running = experiments.start(box, "flooder.py", folder, LINES, listed(cpus[0]))
    turns = count()
    plain: list[float] = []
    alone: list[float] = []
    watched: list[Watched] = []
    for number in range(ROUNDS):
        os.sync()
        plain.append(plain_flood(box.work / f"plain-{number}", cpus[0]).took_s)
        alone.append(flood(folder, next(turns)).took_s)
        watched.append(watched_flood(running, folder, next(turns), cpus[1]))
    add_rows(table, where, plain, alone, watched)
    if slack is not None:
        assert middle(alone) < slack * middle(plain)
        assert mean_of(watched, lambda run: run.flood.took_s) < slack * middle(plain)


def add_rows(
    table: list[Row], where: str, plain: list[float], alone: list[float], watched: list[Watched]
) -> None:
    peer = middle(plain)
    beside = ("cmd > file", peer, 1.03 * peer)
    took = mean_of(watched, lambda run: run.flood.took_s)
    table += [
        Row(f"flood, nobody watching, {where}", middle(alone), "s", *beside),
        Row(f"flood, TUI open, {where}", took, "s", *beside),
        Row(f"lines followed, {where}", 3 * LINES / took, "/s", "cmd > file", 3 * LINES / peer),
        Row(f"screen behind the end, {where}", mean_of(watched, lambda run: run.behind_s), "s"),
        Row(f"TUI memory after, {where}", mean_of(watched, lambda run: run.rss_mb), "MB", budget=90.0),
        Row(
            f"bytes to the terminal, {where}",
            mean_of(watched, lambda run: run.bytes_per_s),
            "B/s",
            budget=BYTES_BUDGET,
        ),
    ]


def test_key_to_paint_while_flooded(box: Box, table: list[Row]) -> None:
    running = experiments.start(box, "stream.py", 100_000)
    with opened(running.tui, *NAMES, "logline", cwd=box.work, env=box.env) as (terminal, _):
        delays = sorted(toggle_follow(terminal, pause_s=0.05 + 0.013 * turn) for turn in range(40))
    table.append(Row("key to paint, 3 × 100 k lines/s, median", middle(delays), "s"))
    table.append(Row("key to paint, 3 × 100 k lines/s, p97", delays[-2], "s", budget=0.05))


def toggle_follow(terminal: Terminal, *, pause_s: float) -> float:
    """Seconds from a key to what it shows, at another phase of the polls each time."""
    time.sleep(pause_s)
    terminal.expect("lines below")
    pressed = terminal.press("f")
    painted = terminal.painted_at()
    terminal.expect("logline")
    terminal.press("f")
    terminal.painted_at()
    return painted - pressed
