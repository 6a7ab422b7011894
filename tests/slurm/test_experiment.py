"""An experiment whose component is a job: queued, killed supervisors, what people are told, and its end."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from tests.conftest import Box
from tests.slurm.rig import Rig
from tests.waiting import retry_until

pytestmark = [pytest.mark.slurm, pytest.mark.tmux, pytest.mark.timeout(240)]

LAYOUT = """\
title = "A job"
framework = "generic"

[[component]]
id = "train"
command = ["bash", "program.sh"]
slurm = { partition = "main" }
stop = { signal = "SIGTERM", grace_s = 20 }
"""


PROGRAM = """\
echo begun in $SLURM_JOB_PARTITION
trap 'echo told; exit 0' TERM
while :; do sleep 0.1; done
"""


@pytest.fixture
def job_box(cluster_box: Box) -> Box:
    (cluster_box.work / "job.toml").write_text(LAYOUT)
    (cluster_box.work / "program.sh").write_text(PROGRAM)
    return cluster_box


def _host(box: Box) -> dict[str, Any]:
    found = box.component("train")["host"]
    return found if isinstance(found, dict) else {}


def test_experiment_goes_through_queue_lost_supervisor_and_stop(job_box: Box, rig: Rig) -> None:
    box = job_box
    in_the_way = rig.fill()
    started = box.run(
        "up", "-l", "./job.toml", "--slurm", "-n", "one", "-o", "out", "--time", "7", "--no-wait"
    )
    assert started.returncode == 0, started.stderr
    retry_until(lambda: "waiting for free nodes (Resources)" in _host(box).get("reason", ""), timeout_s=30.0)
    assert box.component("train")["state"] == "starting"
    assert "pending" in box.run("status", "one").stdout
    number = _host(box)["where"].removeprefix("job ")
    assert rig.say("squeue", "-h", "-j", number, "-o", "%P %l %j").split() == ["main", "7:00", "one-train"]

    os.kill(box.supervisor_pid(), signal.SIGKILL)
    rig.say("scancel", *in_the_way)
    box.wait_for("train", "ready", timeout_s=60.0)
    assert _host(box)["where"].startswith(f"job {number} on node")
    assert _host(box)["ends_at"] is not None
    retry_until(lambda: "begun in main" in box.run("logs", "-c", "train").stdout, timeout_s=20.0)

    done = box.run("down", "one", timeout_s=90.0)
    assert done.returncode == 0, done.stderr
    assert "told" in box.run("logs", "one", "-c", "train").stdout
    assert rig.say("squeue", "-h", "-n", "one-train") == ""


def test_job_that_another_run_follows_waits_for_it(job_box: Box, rig: Rig) -> None:
    box = job_box
    assert box.run("up", "-l", "./job.toml", "--slurm", "-n", "one", "-o", "out").returncode == 0
    first = _host(box)["where"].split()[1]
    options = ("-n", "two", "-o", "out2", "--after-run", "one", "--no-wait")
    assert box.run("up", "-l", "./job.toml", "--slurm", *options).returncode == 0
    asked = retry_until(lambda: rig.say("squeue", "-h", "-n", "two-train", "-o", "%E"), timeout_s=20.0)
    assert asked.strip() == f"afterok:{first}(unfulfilled)"
    box.run("down", "two", timeout_s=90.0)
    assert rig.say("squeue", "-h", "-n", "two-train") == ""


SMI = """\
#!/bin/sh
case "$1" in
--query-gpu=*) echo "0, GPU-$SLURMD_NODENAME, NVIDIA H200, 143771, 61440, 81500, 831, 37, 12, 340, 700, 54";;
--query-compute-apps=*) echo "GPU-$SLURMD_NODENAME, $(cat {pids}/$SLURMD_NODENAME), 61440";;
esac
"""


def test_gpus_of_its_nodes_are_shown_while_it_runs(job_box: Box, rig: Rig) -> None:
    box = job_box
    smi = box.work / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI.format(pids=box.work))
    smi.chmod(0o755)
    box.env["PATH"] = f"{smi.parent}:{box.env['PATH']}"
    (box.work / "program.sh").write_text(f"echo $$ > {box.work}/$SLURMD_NODENAME\n{PROGRAM}")
    started = box.run("up", "-l", "./job.toml", "--slurm", "-n", "one", "-o", "out", "--nodes", "2")
    assert started.returncode == 0, started.stderr

    def shown() -> dict[str, Any]:
        return {device["host"]: device for device in box.json("gpus", "one")["devices"] if device["host"]}

    hosts = {"train/node1", "train/node2"}
    retry_until(lambda: {name for name, each in shown().items() if each["shares"]} == hosts, timeout_s=60.0)
    for name, device in shown().items():
        assert device["uuid"] == f"GPU-{name.partition('/')[2]}"
        (share,) = device["shares"]
        assert (share["owner"], share["component"], share["used_bytes"]) == (
            "component",
            "train",
            61440 << 20,
        )

    os.kill(box.supervisor_pid(), signal.SIGKILL)
    box.wait_for("train", "ready", timeout_s=60.0)  # a new one, which reads them again
    retry_until(lambda: set(shown()) == hosts, timeout_s=60.0)
    # Its readers, one on each node; those of the killed one have ended with it.
    retry_until(lambda: rig.say("squeue", "-hs", "-o", "%j").split().count("sh") == 2, timeout_s=20.0)

    assert box.run("stop", "-c", "train", "--yes", timeout_s=90.0).returncode == 0
    box.wait_for("train", "stopped", timeout_s=60.0)
    retry_until(lambda: not box.json("gpus", "one")["sources"] and not shown(), timeout_s=20.0)
