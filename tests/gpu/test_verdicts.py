"""What `rltui check` says will happen, and what does, while another process holds much of the device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.gpu.device import GIB, Cuda
from tests.gpu.holder import Hold
from tests.waiting import retry_until

from rltui.core.gpu.report import MemoryVerdict

pytestmark = [pytest.mark.gpu, pytest.mark.tmux, pytest.mark.timeout(240)]

HELD = 0.4
"""Of the total, by a process that is not ours."""
STARTS, REFUSED = "starts", "refused"


def predicted(box: Box) -> MemoryVerdict:
    """For the engine."""
    check = box.json("check", "rl.toml")
    verdicts = {verdict["component"]: verdict for verdict in check["memory"]}
    assert "inference" in verdicts, check
    return MemoryVerdict.from_plain(verdicts["inference"])


def happens(box: Box, log: Path) -> str:
    """Start the engine alone, as its component would be."""
    command = [sys.executable, "-m", "rltui.tinyrl", "inference", "@", "rl.toml"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=box.work, env=box.env, stdout=output, stderr=subprocess.STDOUT
        )
    try:

        def ended_or_serves() -> bool:
            return process.poll() is not None or "Starting vLLM server on" in log.read_text()

        retry_until(ended_or_serves, timeout_s=60, interval_s=0.1)
        if process.poll() is None:
            return STARTS
        assert "Free memory on device" in log.read_text(), log.read_text()[-2000:]
        return REFUSED
    finally:
        process.terminate()
        process.wait(30)


def test_predictions_come_true_with_two_fifths_held(
    engine_box: Callable[[float], Box], cuda: Cuda, hold: Hold, tmp_path: Path
) -> None:
    hold(int(HELD * cuda.total_bytes))
    rows = []
    for utilization in (0.3, 0.6, 0.95):
        free_before = cuda.now().free_bytes or 0
        box = engine_box(utilization)
        verdict = predicted(box)
        outcome = happens(box, tmp_path / f"{utilization}.log")
        rows.append((utilization, verdict, outcome))
        # The driver may give memory back a moment after the process ended.
        retry_until(lambda: (cuda.now().free_bytes or 0) >= 0.99 * free_before, timeout_s=15, interval_s=0.2)  # noqa: B023
    print(f"\n{cuda.name}: {HELD} of {cuda.total_bytes / GIB:.1f} GiB held by another process")
    print("utilization  needs GiB  free GiB  predicted    happened")
    for utilization, verdict, outcome in rows:
        needs, free = (verdict.budget_bytes or 0) / GIB, (verdict.free_bytes or 0) / GIB
        print(f"{utilization:<11}  {needs:>9.2f}  {free:>8.2f}  {verdict.verdict:<11}  {outcome}")
    for _, verdict, outcome in rows:
        assert outcome == (REFUSED if verdict.verdict == "will_refuse" else STARTS), verdict.text
    assert [rows[0][2], rows[-1][2]] == [STARTS, REFUSED]
