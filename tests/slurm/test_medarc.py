"""The real `medarc_slurm`, its scripts run by SLURM; what they start are stand-ins.

`tests/prime_rl_real/make_med_lm_train.py` says how to get it:

    RLTUI_MED_LM_TRAIN=/opt/med-lm-train pytest -m slurm -n 0 tests/slurm/test_medarc.py
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.slurm.rig import Rig
from tests.waiting import retry_until

pytestmark = [pytest.mark.slurm, pytest.mark.tmux, pytest.mark.timeout(300)]

TOKEN = "hf_" + "t" * 34


@pytest.fixture
def box(cluster_box: Box) -> Box:
    folder = Path(os.environ.get("RLTUI_MED_LM_TRAIN", os.devnull)).absolute() / "works"
    if not (folder / ".venv/bin/medarc_slurm").exists():
        pytest.skip("RLTUI_MED_LM_TRAIN names no folder as make_med_lm_train.py makes it")
    cluster_box.env["RLTUI_MEDARC"] = str(folder)
    cluster_box.env["PATH"] = f"{folder / 'tools'}{os.pathsep}{cluster_box.env['PATH']}"
    cluster_box.env["STANDIN_STEP_S"] = "0.05"
    token = Path(cluster_box.env["HOME"], ".cache/huggingface/token")
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text(TOKEN)
    for name in ("rl_single", "sft"):
        text = (folder / f"examples/reverse_text/{name}.toml").read_text()
        text = text.replace("flash_attention_3", "sdpa")
        text = text.replace("max_steps = 20\n", "max_steps = 2000\n").replace("= 100\n", "= 2000\n")
        (cluster_box.work / f"{name}.toml").write_text(text)
    (cluster_box.work / ".venv").symlink_to(folder / ".venv")  # which the script activates
    assert cluster_box.run("trust", str(folder)).returncode == 0
    return cluster_box


@pytest.mark.parametrize(
    "line",
    [
        "medarc_slurm sft sft.toml --output-dir out --gpus 1 --cpus-per-gpu 2 --auto-auth",
        "medarc_slurm rl rl_single.toml --output-dir out --single-gpu --cpus-per-gpu 2 --auto-auth",
    ],
    ids=["sft", "rl"],
)
def test_a_line_of_the_tutorial_is_previewed_submitted_followed_and_stopped(
    box: Box, rig: Rig, line: str
) -> None:
    component = line.split()[1]
    shown = box.run("up", *line.split(), "-n", "one", "--plan")
    assert shown.returncode == 0, shown.stderr
    assert "#SBATCH --gres=gpu:1" in shown.stdout
    assert TOKEN not in shown.stdout + shown.stderr
    assert not rig.say("squeue", "-h")
    assert not (box.work / "out").exists()

    done = box.run("up", *line.split(), "-n", "one")
    assert done.returncode == 0, done.stderr
    retry_until(lambda: int(box.json("status", "one")["step"] or 0) >= 3, timeout_s=60)
    box.wait_for(component, "ready")
    assert rig.say("squeue", "-h", "-o", "%j %T").split() == ["one", "RUNNING"]
    assert TOKEN not in "".join(file.read_text(errors="replace") for file in (box.work / "out").rglob("*.sh"))

    began = time.monotonic()
    assert box.run("stop", "one", "-c", component, "--yes", "--wait").returncode == 0
    assert time.monotonic() - began < 30.0  # of the layout's 90, after which SLURM ends all
    assert not rig.say("squeue", "-h", "-t", "running")
