"""What goes to the terminal while the demo trains, and how long a key takes over a slow line, beside htop."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles

import pytest
from tests.bench.experiments import RLTUI
from tests.bench.table import Row
from tests.bench.terminal import NEAR, Line, Terminal, opened
from tests.bench.usage import middle
from tests.conftest import Box
from tests.engine import write_example
from tests.keys import typed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SIZE = {"columns": 120, "rows": 36}
SLOW = Line(delay_s=0.15, bytes_per_s=50_000)
SETTLE_S, STEADY_S, PAUSE_S = 6.0, 20.0, 0.7
KEYS = 40
AT = "120×36"
HTOP = ["htop", "-d", "10"]
SCREENS = {
    "screen.metrics": "demo · Metrics",
    "screen.rollouts": "demo · Rollouts",
    "screen.logs": "all merged",
    "screen.events": "demo · Events",
    "screen.checkpoints": "demo · Checkpoints",
}
"""Action → what its screen begins with."""


@pytest.fixture
def training(box: Box, free_port: int) -> Box:
    """The demo, with more steps than anybody waits for."""
    pytest.importorskip("torch")
    write_example(box.work, port=free_port, steps=100000)
    assert box.run("up", "rl.toml", "-n", "demo", "-o", "out", timeout_s=300).returncode == 0
    return box


@contextmanager
def watched(box: Box, line: Line = NEAR) -> Iterator[Terminal]:
    argv = [*RLTUI, "-n", "demo"]
    with opened(argv, "trainer ● running", " S Step", cwd=box.work, env=box.env, line=line, **SIZE) as (
        terminal,
        _,
    ):
        time.sleep(SETTLE_S)
        yield terminal


def rate(terminal: Terminal) -> float:
    written, started = terminal.bytes_total, time.monotonic()
    time.sleep(STEADY_S)
    return (terminal.bytes_total - written) / (time.monotonic() - started)


def cost(terminal: Terminal, key: str) -> float:
    """Bytes of what a key changes, with what changes by itself meanwhile."""
    written = terminal.bytes_total
    terminal.press(key)
    time.sleep(PAUSE_S)
    return terminal.bytes_total - written


def knob(screen: str) -> str:
    """The knob that is explained, which is the one under the cursor."""
    found = re.search(r"[│┃]─([\w.]+)─", screen)
    return found[1] if found else ""


def delay(terminal: Terminal, key: str, shown: Callable[[str], bool]) -> float:
    """Seconds from a key to what it shows."""
    terminal.expect_that(shown)
    pressed = terminal.press(key)
    return terminal.painted_at() - pressed


def key_delays(terminal: Terminal) -> list[float]:
    terminal.press(typed("knob.focus"))
    terminal.wait_for("▸" if not knob(terminal.text) else knob(terminal.text))
    delays = []
    for turn in range(KEYS):
        time.sleep(0.3 + 0.037 * (turn % 11))  # at another phase of the frames each time
        if turn % 10 == 9:
            delays.append(delay(terminal, typed("help"), lambda screen: "Detaching stops nothing" in screen))
            terminal.press(typed("help.close"))
            terminal.expect_that(lambda screen: "Detaching stops nothing" not in screen)
            terminal.painted_at()
        else:
            before = knob(terminal.text)
            delays.append(
                delay(
                    terminal,
                    typed("cursor.next" if turn % 20 < 10 else "cursor.previous"),
                    lambda screen, before=before: knob(screen) not in ("", before),  # type: ignore[misc]
                )
            )
    return sorted(delays)


def test_while_the_demo_trains(training: Box, table: list[Row]) -> None:
    htop: dict[Line, float] = {}
    if shutil.which("htop"):
        for line in (NEAR, SLOW):
            with opened(HTOP, "Mem", cwd=training.work, env=training.env, line=line, **SIZE) as (peer, _):
                time.sleep(SETTLE_S)
                htop[line] = rate(peer)
    with watched(training) as terminal:
        table.append(
            Row(
                f"bytes to the terminal, training, {AT}",
                rate(terminal),
                "B/s",
                "htop",
                htop.get(NEAR),
                10_000,
            )
        )
        opening = [cost(terminal, key) for key in (typed("help"), typed("help.close")) * 3][::2]
        table.append(Row(f"bytes of ?, training, {AT}", max(opening), "B", budget=12_000))
        focus = [cost(terminal, typed("pane.next")) for _ in range(5)]
        table.append(Row(f"bytes of a focus change, training, {AT}", middle(focus), "B", budget=4_000))
    with watched(training, SLOW) as terminal:
        table.append(
            Row("the same, line of 150 ms, 50 kB/s", rate(terminal), "B/s", "htop", htop.get(SLOW), 4_000)
        )
        delays = key_delays(terminal)
    table.append(Row("key to paint, line of 150 ms, 50 kB/s, median", middle(delays), "s", budget=0.5))
    table.append(
        Row("key to paint, line of 150 ms, 50 kB/s, p95", quantiles(delays, n=20)[-1], "s", budget=1)
    )


def test_screens_over_a_slow_line(training: Box, table: list[Row]) -> None:
    with watched(training, SLOW) as terminal:
        for action, heading in SCREENS.items():
            first = delay(terminal, typed(action), lambda screen, heading=heading: heading in screen)  # type: ignore[misc]
            time.sleep(SETTLE_S)
            name = heading.removeprefix("demo · ")
            table.append(Row(f"{name}: key to heading, line of 150 ms, 50 kB/s", first, "s", budget=1.5))
            table.append(
                Row(f"{name}: bytes to the terminal, training", rate(terminal), "B/s", budget=10_000)
            )
            back = delay(terminal, typed("screen.overview"), lambda screen: "trainer ●" in screen)
            table.append(Row(f"{name}: back to the overview, the same line", back, "s", budget=1))
            time.sleep(SETTLE_S)
