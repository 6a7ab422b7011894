"""prime-rl's own job script, made by its real `rl`, run by SLURM, with its real programs on a CPU.

`tests/prime_rl_real/make_checkout.py` says how to get them:

    RLTUI_PRIME_RL=/opt/prime-rl-cpu pytest -m slurm -n 0 tests/slurm/test_prime_rl.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.fakes.prime_rl.examples import free_ports
from tests.prime_rl_real.make_checkout import MODEL
from tests.prime_rl_real.test_real_programs import START_S, VARIABLE, config_text
from tests.slurm.rig import Rig
from tests.waiting import retry_until

pytestmark = [pytest.mark.slurm, pytest.mark.tmux, pytest.mark.timeout(1800)]

UV = """\
#!/bin/sh
[ "$1" = sync ] || exec {uv} "$@"
"""
"""The script's `uv sync` would leave nothing of an environment whose packages the checkout does not name."""


@pytest.fixture
def box(cluster_box: Box) -> Box:
    checkout = Path(os.environ.get(VARIABLE, os.devnull)).absolute()
    uv = checkout / ".venv/bin/uv"
    if not (checkout / MODEL).exists():
        pytest.skip(f"{VARIABLE} names no checkout as tests/prime_rl_real/make_checkout.py makes them")
    programs = cluster_box.root / "programs"
    programs.mkdir()
    (programs / "uv").write_text(UV.format(uv=uv))
    (programs / "uv").chmod(0o755)
    cluster_box.env[VARIABLE] = str(checkout)
    cluster_box.env["UV_NO_SYNC"] = "1"
    cluster_box.env["PATH"] = f"{programs}{os.pathsep}{cluster_box.env['PATH']}"
    text = config_text(checkout, free_ports())
    head, table = f'[slurm]\nproject_dir = "{checkout}"\n', "[deployment]\ngpus_per_node = 2\n"
    (cluster_box.work / "rl.toml").write_text(f"{text}\n{head}\n{table}")
    return cluster_box


def test_its_script_is_submitted_trains_and_is_resumed(box: Box, rig: Rig) -> None:
    shown = box.run(
        "up", "rl.toml", "--slurm", "--partition", "main", "-n", "one", "--dry-run", timeout_s=300
    )
    assert shown.returncode == 0, shown.stderr
    assert "uv run rl @" in shown.stdout
    done = box.run(
        *["up", "rl.toml", "--slurm", "--partition", "main", "-n", "one", "--no-wait"], timeout_s=300
    )
    assert done.returncode == 0, done.stderr
    retry_until(lambda: (box.json("status", "one")["step"] or 0) >= 3, timeout_s=START_S)
    status = box.json("status", "one")
    assert 0 < status["reward"] < 1
    assert "job " in box.run("status", "one").stdout
    assert rig.say("squeue", "-h", "-o", "%T").split() == ["RUNNING"]
    assert {each["id"] for each in status["logs"] if each["state"] == "growing"} >= {"inference", "trainer"}
    retry_until(lambda: box.json("checkpoints", "-n", "one")["checkpoints"], timeout_s=120)

    again = box.run("restart", "rl", "-n", "one", "--resume", "latest", "--yes", "--no-wait", timeout_s=300)
    assert again.returncode == 0, again.stderr
    retry_until(lambda: len(rig.say("squeue", "-h").split()) > 0, timeout_s=60)
    before = status["step"]
    retry_until(lambda: (box.json("status", "one")["step"] or 0) > before, timeout_s=START_S)
    assert box.run("down", "one", timeout_s=120).returncode == 0
    assert not rig.say("squeue", "-h", "-t", "running")
