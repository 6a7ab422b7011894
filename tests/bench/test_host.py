"""`rltui --host` over a line of 150 ms each way and 50 kB/s: what is felt, and what goes over it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.bench import eight_gpus, experiments
from tests.bench.experiments import PROGRAMS, RLTUI, Running
from tests.bench.table import Row
from tests.bench.terminal import Terminal, opened
from tests.bench.usage import middle
from tests.conftest import Box
from tests.keys import typed
from tests.waiting import retry_until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

DELAY_S, BYTES_PER_S = 0.15, 50_000
LOG_BYTES = int(os.environ.get("BENCH_LOG_BYTES", 10**9))
LINE = "line of 150 ms, 50 kB/s"
SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))
SETTLE_S, KEYS, RUNS = 6.0, 20, 5


@contextmanager
def laptop(box: Box, *, slow: bool = True) -> Iterator[tuple[dict[str, str], Path]]:
    """Another user, who reaches the box over such a line; and where the bytes that go over it are counted."""
    kinds = ("STATE_HOME", "CONFIG_HOME", "RUNTIME_DIR")
    folders = {f"XDG_{kind}": box.root / f"laptop-{kind}" for kind in kinds}
    for folder in folders.values():
        folder.mkdir(mode=0o700, exist_ok=True)
    counts, way, settings = box.root / "counts", box.root / "way", folders["XDG_CONFIG_HOME"] / "rltui"
    names = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMUX_TMPDIR", "RLTUI_TMUX_SOCKET")
    variables = "".join(f"export {name}='{box.env[name]}'\n" for name in names)
    way.write_text(f'#!/bin/sh\n{variables}cd {box.work}\nexec sh -c "$1"\n')
    (box.root / "rltui").write_text(f'#!/bin/sh\nexec {sys.executable} -m rltui "$@"\n')
    for program in (way, box.root / "rltui"):
        program.chmod(0o700)
    line = [sys.executable, str(PROGRAMS / "slow_pipe.py"), str(DELAY_S), str(BYTES_PER_S), str(counts)]
    settings.mkdir(exist_ok=True)
    reach = [*line, str(way)] if slow else [str(way)]
    (settings / "settings.toml").write_text(
        f'tour = false\n[hosts.box]\nreach = {reach}\nrltui = "{box.root}/rltui"\n'
    )
    counts.write_text("0 0")
    yield box.env | {name: str(folder) for name, folder in folders.items()}, counts


def passed(counts: Path) -> int:
    """Bytes that have gone over it, both ways."""
    return sum(map(int, (retry_until(counts.read_text) or "0").split()))


def rate(counts: Path, seconds: float) -> float:
    before, began = passed(counts), time.monotonic()
    time.sleep(seconds)
    return (passed(counts) - before) / (time.monotonic() - began)


def moved(terminal: Terminal) -> float:
    """The median from a key that moves the cursor in the knobs to its paint."""
    terminal.press(typed("knob.focus"))
    terminal.wait_for("┃─max_steps")
    delays = []
    for turn in range(KEYS):
        time.sleep(0.3 + 0.037 * (turn % 11))
        shown = "─max_steps─" if turn % 2 else "─batch_size─"
        terminal.expect_that(lambda screen, shown=shown: shown in screen)  # type: ignore[misc]
        pressed = terminal.press("j" if turn % 2 == 0 else "k")
        delays.append(terminal.painted_at() - pressed)
    return middle(sorted(delays))


def test_an_experiment_over_a_slow_line(box: Box, table: list[Row]) -> None:
    with eight_gpus.loaded(box) as running:
        local = [first_frame(running.tui, box.env, box) for _ in range(RUNS)]
        remote = [*RLTUI, "--host", "box", "-n", "gpus"]
        with laptop(box, slow=False) as (env, _):
            near = [first_frame(remote, env, box) for _ in range(RUNS)]
        with laptop(box) as (env, counts):
            far = [first_frame(remote, env, box) for _ in range(RUNS)]
            table.append(Row(f"--host: first frame, {LINE}", middle(far), "s", "here", middle(local), 1.5))
            table.append(
                Row("--host: first frame, no line between", middle(near), "s", "here", middle(local))
            )
            with opened(running.tui, "logline", cwd=box.work, env=box.env) as (terminal, _):
                here = moved(terminal)
            with opened(remote, "logline", cwd=box.work, env=env) as (terminal, _):
                there = moved(terminal)
                time.sleep(SETTLE_S)
                figure = rate(counts, SECONDS)
            table.append(
                Row(f"--host: key to paint, {LINE}", there, "s", "here", here, max(0.05, 1.5 * here))
            )
            table.append(Row("--host: over the line, 8 GPUs, idle", figure, "B/s", budget=300))


def first_frame(argv: list[str], env: dict[str, str], box: Box) -> float:
    with opened(argv, "inference", "logline", cwd=box.work, env=env) as (_, seconds):
        return seconds


def test_huge_logs(box: Box, table: list[Row]) -> None:
    running: Running = experiments.start(box, "filler.py", LOG_BYTES)
    retry_until(
        lambda: all(log.stat().st_size > LOG_BYTES for log in running.logs), timeout_s=600, interval_s=0.2
    )
    size = f"{LOG_BYTES / 1e9:g} GB"
    with laptop(box) as (env, counts):
        argv = [*RLTUI, "--host", "box", "bench"]
        with opened(argv, "inference", "logline", cwd=box.work, env=env) as (terminal, seconds):
            table.append(Row(f"--host: first frame, 3 × {size}, {LINE}", seconds, "s", budget=1.5))
            time.sleep(SETTLE_S)
            table.append(
                Row(
                    "--host: over the line, 60 new lines a second",
                    rate(counts, SECONDS / 3),
                    "B/s",
                    budget=2000,
                )
            )
            before = passed(counts)
            terminal.press(typed("search"))
            time.sleep(1.0)
            terminal.press("needle")
            terminal.wait_for("needle")
            pressed = terminal.press("\r")
            terminal.expect_that(lambda screen: "“needle”" in screen and "searching" not in screen)
            table.append(Row(f"--host: search in {size}", terminal.painted_at() - pressed, "s"))
            time.sleep(1.0)
            table.append(
                Row("--host: over the line, that search", passed(counts) - before, "B", budget=30_000)
            )
            terminal.press("\x1b")
            terminal.expect_that(lambda screen: "“needle”" not in screen)
            terminal.painted_at()
            terminal.expect(" 0 of inference")
            pressed = terminal.press(typed("cursor.first"))
            table.append(
                Row(f"--host: to the start of {size}", terminal.painted_at() - pressed, "s", budget=5)
            )
