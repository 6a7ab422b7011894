"""The first command of a new user, on the GPU box that it is installed on."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.gpu.device import Cuda
from tests.gpu.holder import Hold
from tests.waiting import retry_until

pytestmark = [pytest.mark.gpu, pytest.mark.tmux, pytest.mark.timeout(180)]

HELD = 0.97
"""Of the total, by a process that is not ours."""


def test_the_demo_starts_without_a_question_and_leaves_the_gpu_alone(
    gpu_box: Box, cuda: Cuda, hold: Hold
) -> None:
    """It took 0.9 of the GPU, whose start rltui itself advised against."""
    hold(int(HELD * cuda.total_bytes))
    before = cuda.used_bytes()
    done = gpu_box.run("demo", "--quick", "--no-tui", timeout_s=120)
    assert done.returncode == 0, done.stderr + done.stdout
    retry_until(lambda: (gpu_box.status()["step"] or 0) >= 2, timeout_s=60, interval_s=0.5)
    assert cuda.used_bytes() == pytest.approx(before, abs=64 << 20)
    assert not [
        share for share in cuda.row_of(gpu_box.json("gpus"))["shares"] if share["owner"] == "component"
    ]
