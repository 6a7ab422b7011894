"""The embedded engine's inference and trainer on one GPU: who holds what, and who loads first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.gpu.device import GIB, Cuda
from tests.waiting import retry_until

pytestmark = [pytest.mark.gpu, pytest.mark.tmux, pytest.mark.timeout(240)]

UTILIZATION = 0.3
OURS = ("inference", "trainer")
BESIDE_BUDGET_BYTES = 3 * GIB // 2
"""What an engine holds besides: CUDA context, workspaces of cuBLAS, activations."""


def component_shares(device: Any) -> dict[str, Any]:
    return {share["component"]: share for share in device["shares"] if share["owner"] == "component"}


def settled(box: Box, cuda: Cuda) -> Any:
    """The device, once both hold memory and the trainer has trained; `None` before."""
    if (box.status()["step"] or 0) < 2:
        return None
    device = cuda.row_of(box.json("gpus", "shared"))
    return device if set(OURS) <= component_shares(device).keys() else None


def began(journal: Path) -> list[tuple[str, str]]:
    """Kind and component of each start, and of becoming ready, in order. A job is ready as it starts."""
    entries = map(json.loads, journal.read_text().splitlines())
    return [(entry["kind"], entry["component"]) for entry in entries if entry["kind"] in ("start", "ready")]


def test_inference_and_trainer_share_the_device(engine_box: Callable[[float], Box], cuda: Cuda) -> None:
    before = cuda.now()
    box = engine_box(UTILIZATION)
    box.json("up", "rl.toml", "-n", "shared", "-o", "out", timeout_s=180)
    device = retry_until(lambda: settled(box, cuda), timeout_s=90, interval_s=0.5)
    shares = component_shares(device)
    estimated = any(shares[name]["estimated"] for name in OURS)
    used = device["used_bytes"]
    [budget] = device["budgets"]
    if estimated:
        print("\nshares are estimates: the driver's pids name no process here, as in a container")
    print(f"\n{cuda.name}: {used / GIB:.2f} GiB used, {(before.used_bytes or 0) / GIB:.2f} GiB before")
    for share in device["shares"]:
        print(f"  {share['owner']} {share['component'] or ''}: {share['used_bytes'] / GIB:.2f} GiB")
    print(f"  budget of inference: {UTILIZATION} x total = {budget['budget_bytes'] / GIB:.2f} GiB")

    assert sum(share["used_bytes"] for share in device["shares"]) == used
    assert (budget["component"], budget["utilization"]) == ("inference", UTILIZATION)
    log = box.run("logs", "-c", "inference", "--grep", "Desired GPU memory utilization").stdout
    logged = re.search(r"utilization is \([\d.]+, ([\d.]+) GiB\)", log)
    assert logged is not None, log
    assert budget["budget_bytes"] / GIB == pytest.approx(float(logged[1]), abs=0.05), "as the engine has it"

    tolerance = 0.1 if estimated else 0.02
    inference = shares["inference"]["used_bytes"]
    assert inference >= (1 - tolerance) * budget["budget_bytes"]
    assert inference <= (1 + tolerance) * budget["budget_bytes"] + BESIDE_BUDGET_BYTES
    assert shares["trainer"]["used_bytes"] > 0
    if before.processes:
        print("others are on the device: that our processes add up to what is used is not checked")
    else:
        ours = sum(shares[name]["used_bytes"] for name in OURS)
        expected = used - (before.used_bytes or 0 if estimated else 0)
        print(f"  ours together: {ours / GIB:.2f} GiB, {100 * ours / expected:.1f} % of what is used")
        assert ours == pytest.approx(expected, rel=tolerance)

    order = began(box.work / "out/.rltui/journal.jsonl")
    trainer = [component for _, component in order].index("trainer")
    assert ("ready", "inference") in order[:trainer], order
