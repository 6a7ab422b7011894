"""prime-rl's real programs under rltui, on a CPU.

`make_checkout.py` says how to get them, and what of them is real.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.boxed import PrimeBox
from tests.fakes.prime_rl.examples import Ports, free_ports
from tests.prime_rl_real.make_checkout import MODEL, PROGRAMS

pytestmark = [pytest.mark.primerl, pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(1800)]

VARIABLE = "RLTUI_PRIME_RL"
START_S = 600.0
"""From `up` to the first step, on a machine of two busy cores; a minute and a half on an idle one."""
STEP_S = 120.0


@pytest.fixture
def checkout() -> Path:
    folder = Path(os.environ.get(VARIABLE, os.devnull)).absolute()
    needed = [folder / MODEL, *(folder / ".venv/bin" / name for name in PROGRAMS)]
    if not all(path.exists() for path in needed):
        pytest.skip(f"{VARIABLE} names no checkout as tests/prime_rl_real/make_checkout.py makes them")
    return folder


@pytest.fixture
def prime(box: Box, checkout: Path) -> PrimeBox:
    box.env[VARIABLE] = str(checkout)
    box.env["UV_NO_SYNC"] = "1"
    ports = free_ports()
    (box.work / "rl.toml").write_text(config_text(checkout, ports))
    return PrimeBox(box, "C", ports, ("rl.toml",))


def config_text(checkout: Path, ports: Ports) -> str:
    """An RL run on the tiny model."""
    return f"""\
max_steps = 1000
seq_len = 128

[model]
name = "{checkout / MODEL}"

[ckpt]
interval = 2

[weight_broadcast]
type = "filesystem"

[rollout_transport]
type = "filesystem"

[trainer.optim]
lr = 1e-3

[orchestrator]
batch_size = 8
group_size = 4
env_server_base_port = {ports.env}

[orchestrator.concurrency]
min_inflight = 8
max_inflight = 8

[orchestrator.renderer]
name = "default"

[orchestrator.model.client]
base_url = "http://localhost:{ports.server}/v1"

[orchestrator.train.sampling]
max_completion_tokens = 16

[[orchestrator.train.source]]
name = "reverse-text"

[orchestrator.train.source.env.taskset]
id = "reverse-text"

[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.train.source.env.agent.runtime]
type = "subprocess"

[orchestrator.train.source.serve.pool]
type = "static"
num_workers = 1

[inference]
backend_port = {ports.engine}
enable_fp32_lm_head = false      # their kernels are for CUDA alone
enable_fp32_router_logits = false

[inference.env_vars]
VLLM_CPU_KVCACHE_SPACE = "1"

[inference.server]
port = {ports.server}

[inference.vllm]
enforce_eager = true
max_model_len = 128
max_num_seqs = 8
"""


def rows(prime: PrimeBox) -> list[dict[str, Any]]:
    """What orchestrator and trainer wrote of their steps."""
    return [json.loads(line) for line in (prime.output / "metrics.jsonl").read_text().splitlines()]


def test_config_is_valid_for_both(prime: PrimeBox) -> None:
    done = prime.box.run("check", "rl.toml", "-l", "prime-rl", timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("valid by prime-rl (August 2026 on)'s own validators")
    assert "episodes in flight: 8" in done.stdout


def test_trains_goes_on_after_a_restart_and_goes_down(prime: PrimeBox) -> None:
    box = prime.box
    prime.up("prime-rl", "--no-wait")
    box.wait_for("inference", "ready", timeout_s=START_S)
    prime.wait_for_steps("trainer", 4, timeout_s=START_S)
    status = box.status()
    assert status["state"] == "running"
    assert status["step"] >= 3
    assert 0 < status["reward"] < 1
    assert "Updating policy in-flight to v2" in prime.text("orchestrator")
    assert {"train/agg/all/agent/reward/mean", "loss/mean"} <= {key for row in rows(prime) for key in row}

    engine = box.component("inference")["pid"]
    servers = box.component("env-train-reverse-text")["pid"]
    prime.done("restart", "-c", "orchestrator", "-c", "trainer", "--yes", timeout_s=START_S)
    first = prime.wait_for_steps("trainer", 3, attempt=2, timeout_s=START_S)[0]
    assert first > 1
    assert (first - 1) % 2 == 0
    assert prime.steps("orchestrator", 2)[0] == first
    assert "cleanup complete (forced)" in prime.text("orchestrator", 1), "finding P4"
    assert box.component("inference")["pid"] == engine
    assert box.component("env-train-reverse-text")["pid"] == servers
    assert box.status()["orphans"] == []

    prime.assert_down_leaves_nothing(STEP_S)


def test_ends_by_itself_and_goes_on_to_a_later_step(prime: PrimeBox) -> None:
    box = prime.box
    prime.config.write_text(prime.config.read_text().replace("max_steps = 1000", "max_steps = 2"))
    prime.up("prime-rl", "--no-wait")
    for name in ("trainer", "orchestrator"):
        assert box.wait_for(name, "exited", timeout_s=START_S)["exit_code"] == 0
    told = box.run("status").stdout
    assert "✓ done" in told
    assert "still running: inference" in told
    assert prime.steps("trainer") == prime.steps("orchestrator") == [1, 2]
    assert prime.checkpoints() == [2]
    prime.done("set", "max_steps=3", "--restart", "--yes", timeout_s=START_S)
    box.wait_for("trainer", "exited", timeout_s=START_S)
    assert prime.steps("trainer", 2) == [3]
    written = Counter(row["step"] for row in rows(prime) if "loss/mean" in row)
    assert written == {1: 1, 2: 1, 3: 1}
    prime.assert_down_leaves_nothing(STEP_S)
