"""prime-rl's own job script, made by its real `rl`, run by SLURM, with its real programs on a CPU.

`tests/prime_rl_real/make_checkout.py` makes them:

    RLTUI_TEST_PRIME_RL=SOURCE pytest -m slurm -n 0 tests/slurm/test_prime_rl.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.examples import free_ports
from tests.prime_rl_real.configs import rl_text
from tests.prime_rl_real.conftest import checkout, use_checkout
from tests.prime_rl_real.test_real_programs import START_S
from tests.slurm.rig import Rig
from tests.waiting import retry_until

__all__ = ["checkout"]
pytestmark = [pytest.mark.slurm, pytest.mark.tmux, pytest.mark.timeout(1800)]


@pytest.fixture
def box(cluster_box: Box, checkout: Path) -> Box:
    use_checkout(cluster_box, checkout)
    text = rl_text(checkout, free_ports())
    head, table = f'[slurm]\nproject_dir = "{checkout}"\n', "[deployment]\ngpus_per_node = 2\n"
    (cluster_box.work / "rl.toml").write_text(f"{text}\n{head}\n{table}")
    return cluster_box


def step(box: Box) -> int:
    status = box.json("status", "one")
    assert status["state"] != "failed", box.run("logs", "one", "-c", "rl").stdout[-3000:]
    return status["step"] or 0


def test_its_script_is_submitted_trains_and_is_resumed(box: Box, rig: Rig) -> None:
    line = ("up", "rl.toml", "--slurm", "--partition", "main", "-n", "one")
    shown = box.run(*line, "--plan", timeout_s=300)
    assert shown.returncode == 0, shown.stderr
    assert "uv run rl @" in shown.stdout
    done = box.run(*line, "--no-wait", timeout_s=300)
    assert done.returncode == 0, done.stderr
    retry_until(lambda: step(box) >= 3, timeout_s=START_S)
    status = box.json("status", "one")
    assert 0 < status["reward"] < 1
    assert rig.say("squeue", "-h", "-o", "%T").split() == ["RUNNING"]
    retry_until(lambda: box.json("checkpoints", "one")["checkpoints"], timeout_s=120)
    last = step(box)

    again = box.run("restart", "one", "-c", "rl", "--yes", "--no-wait", timeout_s=300)
    assert again.returncode == 0, again.stderr
    retry_until(lambda: step(box) > last, timeout_s=START_S)
    assert box.component("rl")["attempt"] == 2
    assert "esum" in "".join(file.read_text() for file in (box.work / "outputs").rglob("trainer.log"))
    assert box.run("down", "one", timeout_s=120).returncode == 0
    assert not rig.say("squeue", "-h", "-t", "running")
