"""Three components write as fast as they can: being watched does not slow them."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
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
from tests.bench.usage import cpu_percents, memory, middle
from tests.conftest import Box
from tests.keys import typed
from tests.waiting import retry_until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

LINES = int(os.environ.get("BENCH_LINES", 3_000_000))
ROUNDS = 6
CPUS = sorted(os.sched_getaffinity(0))
HALF = max(1, len(CPUS) // 2)
SPLIT = (CPUS[:HALF], CPUS[HALF:] or CPUS)
"""Producers on one half of the cores and the TUI on the other: what is left is the brake, not the rivalry."""
SHARED = (CPUS, CPUS)
BYTES_BUDGET = 60_000.0
STREAM = "3 × 100 k lines/s"
SETTLE_S, STEADY_S = 2.0, 15.0


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


@contextmanager
def producers(folder: Path, cpus: list[int]) -> Iterator[None]:
    """The peer: `cmd >> file`, three at once."""
    folder.mkdir()
    with ExitStack() as stack:
        for name in NAMES:
            file = stack.enter_context((folder / name).open("ab"))
            argv = command("flooder.py", name, folder, LINES, listed(cpus))
            # Sessions share the cores fairly (autogroups), so each producer has its own, as under rltui.
            process = subprocess.Popen(argv, stdout=file, start_new_session=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def watched_flood(running: Running, folder: Path, turn: int, cpus: list[int]) -> Watched:
    argv = ["taskset", "-c", listed(cpus), *running.tui]
    with opened(argv, *NAMES, "ready", cwd=running.box.work, env=running.box.env) as (terminal, _):
        terminal.expect(*(f"flood {turn} of {name} is over" for name in NAMES))
        time.sleep(SETTLE_S)
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
    folder, peer = box.work / "turns", box.work / "peer"
    folder.mkdir()
    running = experiments.start(box, "flooder.py", folder, LINES, listed(cpus[0]))
    turns = count()
    plain: list[float] = []
    alone: list[float] = []
    watched: list[Watched] = []

    with producers(peer, cpus[0]):
        ways: deque[Callable[[], None]] = deque(
            [
                lambda: plain.append(flood(peer, len(plain)).took_s),
                lambda: alone.append(flood(folder, next(turns)).took_s),
                lambda: watched.append(watched_flood(running, folder, next(turns), cpus[1])),
            ]
        )
        for _ in range(ROUNDS):
            for way in ways:
                os.sync()  # writing back would slow whatever comes next
                way()
            ways.rotate()
    add_rows(table, where, plain, alone, watched)
    if slack is not None:
        assert middle(alone) < slack * middle(plain)
        assert mean_of(watched, lambda run: run.flood.took_s) < slack * middle(plain)


def add_rows(
    table: list[Row], where: str, plain: list[float], alone: list[float], watched: list[Watched]
) -> None:
    peer = middle(plain)
    beside = ("cmd >> file", peer, 1.03 * peer)
    took = mean_of(watched, lambda run: run.flood.took_s)
    table += [
        Row(f"flood, nobody watching, {where}", middle(alone), "s", *beside),
        Row(f"flood, TUI open, {where}", took, "s", *beside),
        Row(f"lines followed, {where}", 3 * LINES / took, "/s", "cmd >> file", 3 * LINES / peer),
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
        table.extend(painting(terminal))
        delays = sorted(toggle_follow(terminal, pause_s=0.05 + 0.013 * turn) for turn in range(40))
    table.append(Row(f"key to paint, {STREAM}, median", middle(delays), "s"))
    table.append(Row(f"key to paint, {STREAM}, p97", delays[-2], "s", budget=0.05))


def toggle_follow(terminal: Terminal, *, pause_s: float) -> float:
    """Seconds from a key to what it shows, at another phase of the polls each time."""
    time.sleep(pause_s)
    terminal.expect("lines below")
    pressed = terminal.press(typed("log.follow"))
    painted = terminal.painted_at()
    terminal.expect_that(lambda screen: "lines below" not in screen)
    terminal.press(typed("log.follow"))
    terminal.painted_at()
    return painted - pressed


def painting(terminal: Terminal) -> list[Row]:
    """What goes over the line to the laptop while nobody can read along."""
    time.sleep(SETTLE_S)
    written = terminal.bytes_total
    (cpu,) = cpu_percents([terminal.process.pid], STEADY_S)
    rate = (terminal.bytes_total - written) / STEADY_S
    return [
        Row(f"bytes to the terminal, {STREAM}", rate, "B/s", budget=BYTES_BUDGET),
        Row(f"CPU, TUI, {STREAM}", cpu, "%"),
    ]
