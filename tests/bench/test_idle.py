"""What rltui costs while nothing happens: three sleeping components, eight GPUs read once a second."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.bench import eight_gpus, experiments
from tests.bench.experiments import NAMES, Running
from tests.bench.table import Row
from tests.bench.terminal import BARE_APP, BARE_TEXT, Terminal, opened
from tests.bench.usage import cpu_percents, memory
from tests.conftest import Box
from tests.fakes.nvml import double
from tests.waiting import retry_until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))
SETTLE_S = 10.0
"""Shims look at their tree ever more seldom in their first seconds, and Python starts up."""
FIRST_MINUTE_S = 55.0
"""Until the titles count minutes instead of seconds."""
CPU_BUDGETS = (0.3, 0.2, 0.05)
MEMORY_BUDGETS_MB = (75.0, 45.0, 12.0)
BYTES_BUDGET = 1000.0
WITHOUT = "without GPUs"


def test_idle(box: Box, table: list[Row]) -> None:
    with (
        eight_gpus.loaded(box) as running,
        opened(running.tui, "inference", "logline", cwd=box.work, env=box.env) as (tui, _),
        opened_without_gpus(box) as (without, without_tui),
        opened(BARE_APP, BARE_TEXT, cwd=box.work, env=box.env) as (bare, _),
    ):
        retry_until(lambda: holds(box, running), timeout_s=30)
        time.sleep(SETTLE_S)
        pids = [tui.process.pid, running.supervisor, *running.shims]
        early = tui.bytes_total
        (early_cpu,) = cpu_percents([tui.process.pid], FIRST_MINUTE_S)
        written = tui.bytes_total
        peers = [without_tui.process.pid, without.supervisor]
        *cpu, peer, tui_peer, supervisor_peer = cpu_percents([*pids, bare.process.pid, *peers], SECONDS)
        rate = (tui.bytes_total - written) / SECONDS
        add_cpu(table, cpu, peer)
        table.append(Row("the same, TUI", cpu[0], "%", WITHOUT, tui_peer))
        table.append(Row("the same, supervisor", cpu[1], "%", WITHOUT, supervisor_peer))
        add_memory(table, pids, bare)
        for what, pid, other in zip(("TUI", "supervisor"), pids[:2], peers, strict=True):
            table.append(Row(f"the same, {what}", memory(pid).rss_mb, "MB", WITHOUT, memory(other).rss_mb))
        early_rate = (written - early) / FIRST_MINUTE_S
        table.append(Row("bytes to the terminal, idle, first minute", early_rate, "B/s", budget=BYTES_BUDGET))
        table.append(Row("idle CPU, first minute, TUI", early_cpu, "%", budget=CPU_BUDGETS[0]))
        table.append(Row("bytes to the terminal, idle", rate, "B/s", budget=BYTES_BUDGET))
    # Not a ratio: an idle peer is often at 0.
    assert cpu[0] < peer + 8
    assert cpu[1] < supervisor_peer + 2


@contextmanager
def opened_without_gpus(box: Box) -> Iterator[tuple[Running, Terminal]]:
    """The same experiment where there is no driver, and its TUI."""
    (folder := box.root / "no-driver").mkdir()
    library = double.environment_without_driver(folder)["LD_LIBRARY_PATH"]
    env = box.env | {"LD_LIBRARY_PATH": library}
    running = experiments.start(replace(box, env=env), "sleeper.py", name="without")
    with opened(running.tui, "inference", "logline", cwd=box.work, env=box.env) as (tui, _):
        yield running, tui


def holds(box: Box, running: Running) -> bool:
    """The supervisor has seen who holds what on all eight."""
    devices = box.json("gpus", running.name)["devices"]
    owners = [share["owner"] for device in devices for share in device["shares"]]
    return len(devices) == 8 and owners.count("component") >= 2 and owners.count("mine") == 8


def labels() -> list[tuple[str, int]]:
    """Each process, and which budget it has."""
    return [("TUI", 0), ("supervisor", 1), *((f"shim {name}", 2) for name in NAMES)]


def add_cpu(table: list[Row], cpu: list[float], peer: float) -> None:
    for (label, kind), percent in zip(labels(), cpu, strict=True):
        table.append(row(f"idle CPU, {label}", percent, "%", peer, CPU_BUDGETS[kind]))


def add_memory(table: list[Row], pids: list[int], bare: Terminal) -> None:
    peer = memory(bare.process.pid)
    for (label, kind), pid in zip(labels(), pids, strict=True):
        used = memory(pid)
        table.append(row(f"RSS, {label}", used.rss_mb, "MB", peer.rss_mb, MEMORY_BUDGETS_MB[kind]))
        table.append(row(f"PSS, {label}", used.pss_mb, "MB", peer.pss_mb, MEMORY_BUDGETS_MB[kind]))


def row(what: str, figure: float, unit: str, peer: float, budget: float) -> Row:
    """Only the TUI has a peer."""
    if what.endswith("TUI"):
        return Row(what, figure, unit, "bare Textual app", peer, budget)
    return Row(what, figure, unit, budget=budget)
