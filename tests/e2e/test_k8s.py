"""A Helm release from start to end: real kubectl, a stand-in for the cluster, helm as `make_helm` has it."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from tests.conftest import SERVICE, Box
from tests.fakes.helm import asked, claim, make_helm
from tests.fakes.kube_api import put
from tests.following import follow
from tests.kube import RELEASE, FakeCluster, fake_cluster
from tests.terminal import Terminal
from tests.waiting import retry_until

from rltui.core import hints

PROGRAM = """\
import sys, time
kind = sys.argv[1]
text = {"trainer": "Loss: 0.5 | Throughput: 10.0 tokens/s", "orchestrator": "Reward: 0.25"}.get(kind, "")
for step in range(int(sys.argv[2])):
    print(f"12:00:00 SUCCESS Step {step} | Time: 1.0s | {text}", flush=True)
    time.sleep(0.05)
print("RL trainer finished!", flush=True)
"""


@pytest.fixture
def cluster(box: Box, free_port: int) -> Iterator[FakeCluster]:
    """A fake cluster and a helm with the chart's example `reverse-text`, whose programs take some seconds."""
    with fake_cluster(box.root / "cluster") as fake:
        program = box.work / "program.py"
        program.write_text(PROGRAM)
        (box.work / "service.py").write_text(SERVICE)
        commands = {
            "inference": f"{box.work}/service.py {free_port}",
            "orchestrator": f"{program} orchestrator 4000",
            "trainer": f"{program} trainer 60",
        }
        roles: dict[str, Any] = {
            role: {"autoStart": True, "command": f"{sys.executable} {command}; sleep infinity"}
            for role, command in commands.items()
        }
        roles["inference"]["service"] = {"port": free_port}
        values = {"config": {"example": "reverse-text"}, **roles}
        box.env.update(make_helm(box.root / "helm", {"reverse-text": values}))
        box.env.update(KUBECONFIG=fake.env["KUBECONFIG"], HOME=fake.env["HOME"])
        (box.work / "prime-rl").symlink_to(box.root / "helm/prime-rl")
        yield fake


def pods(box: Box) -> dict[str, dict[str, Any]]:
    (status,) = box.json("k8s", "status", RELEASE)
    return {pod["role"]: pod for pod in status["pods"]}


def calls(box: Box) -> list[list[str]]:
    return asked(box.root / "helm")


def type_answers(box: Box, arguments: Sequence[str], *answers: str) -> str:
    """Output on a terminal on which these lines are typed, each at a question."""
    terminal, inner = pty.openpty()
    command = [sys.executable, "-m", "rltui", *arguments]
    process = subprocess.Popen(
        command, cwd=box.work, env=box.env, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
    )
    os.close(inner)
    output = bytearray()

    def read() -> None:
        try:
            while data := os.read(terminal, 4096):
                output.extend(data)
        except OSError:  # nobody has it open any more
            return

    reading = threading.Thread(target=read)
    reading.start()
    for number, answer in enumerate(answers, start=1):
        retry_until(partial(is_asked, output, number))
        os.write(terminal, f"{answer}\n".encode())
    process.wait(30)
    reading.join(10)
    os.close(terminal)
    return output.decode(errors="replace")


def is_asked(output: bytearray, number: int) -> bool:
    return output.count(b"[y/N]") + output.count(b"type its name:") >= number


def test_what_would_be_done_is_shown_first(box: Box, cluster: FakeCluster) -> None:
    result = box.run("k8s", "up", RELEASE, "-f", "reverse-text", "--sft", "--namespace", "rl", "--plan")
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert next(line for line in lines if line.startswith("helm")).startswith(
        f"helm install {RELEASE} ./prime-rl -f ./prime-rl/examples/reverse-text.yaml "
        "--set inference.autoStart=false --set orchestrator.autoStart=false --set trainer.autoStart=false "
        "--set namespace=rl --namespace=rl"
    )
    assert "  trainer.autoStart = false" in lines
    assert lines[-1] == "nothing was done"
    assert [call for call in calls(box) if "--dry-run" not in call] == []


@pytest.mark.slow
def test_a_release_that_is_not_there_is_told(box: Box, cluster: FakeCluster) -> None:
    missing = box.run("k8s", "watch", "other", "--no-tui")
    assert (missing.returncode, "rltui: release not found: other\n" in missing.stderr) == (2, True)
    follow(box, missing, hints.K8S_STATUS, code=0)
    upgrade = box.run("k8s", "upgrade", RELEASE)
    assert upgrade.returncode == 2
    creation = follow(box, upgrade, hints.K8S_UP, code=0, release=RELEASE)
    there = box.run("k8s", "up", RELEASE)
    assert there.returncode in (2, 4)
    follow(box, there, hints.K8S_UPGRADE, code=0, release=RELEASE)
    follow(box, creation, hints.K8S_WATCH, "--no-tui", code=0, release=RELEASE)


@pytest.mark.slow
def test_sft_by_hand_then_rl_by_itself(box: Box, cluster: FakeCluster) -> None:
    creation = box.run("k8s", "up", RELEASE, "-f", "reverse-text", "--sft")
    assert creation.returncode == 0, creation.stderr
    assert {role: pod["state"] for role, pod in pods(box).items()} == dict.fromkeys(pods(box), "sleeps")
    watched = box.run("k8s", "watch", RELEASE, "--no-tui")
    assert watched.returncode == 0, watched.stderr
    assert {component["state"] for component in box.json("status", RELEASE)["components"]} == {"stopped"}

    assert box.run("start", RELEASE, "-c", "trainer", "--yes", "--no-wait").returncode == 0
    box.wait_for("trainer", "exited")  # the chart's command, run in the pod: its own exit code
    assert "by hand" not in {pod["state"] for pod in pods(box).values()}

    terminal = Terminal([sys.executable, "-m", "rltui", RELEASE], cwd=box.work, env=box.env)
    try:
        terminal.wait_for("Step 59")
        assert "Start everything?" not in terminal.screen(), "it would be RL, before SFT by hand"
    finally:
        terminal.close()

    assert box.run("stop", RELEASE, "--yes", "--wait").returncode == 0
    upgrade = box.run("k8s", "upgrade", RELEASE, "-f", "reverse-text")
    assert "  trainer.autoStart = false → true" in upgrade.stderr
    box.wait_for("orchestrator", "ready")  # it was watched before: what its pods run now is followed
    retry_until(lambda: (box.json("status", RELEASE)["step"] or 0) > 3, timeout_s=20.0)
    assert pods(box)["orchestrator"]["state"] == "runs"
    assert box.run("k8s", "exec", RELEASE, "trainer", "--", "sh", "-c", "exit 5").returncode == 5
    assert "Step 0 | Time" in box.run("k8s", "logs", RELEASE, "orchestrator").stdout
    box.wait_for("trainer", "exited", timeout_s=60.0)
    assert pods(box)["trainer"]["state"] == "ended"

    stop = box.run("stop", RELEASE, "-c", "inference", "--yes", "--wait")
    assert stop.returncode == 0, stop.stderr
    assert f"{RELEASE}-inference-0" not in cluster.pods()
    assert box.component("orchestrator")["state"] == "ready"

    output = type_answers(box, ["k8s", "down", RELEASE], "y", "")
    assert box.json("status", RELEASE)["state"] == "stopped", (
        "it has not failed because its pods were deleted"
    )
    assert f"{RELEASE}-shared-data is kept" in output
    assert "Bound" in str(box.json("k8s", "status", RELEASE))
    output = type_answers(box, ["k8s", "down", RELEASE, "--delete-data"], "wrong name")
    assert f"{RELEASE}-shared-data is kept" in output
    output = type_answers(box, ["k8s", "down", RELEASE, "--delete-data"], f"{RELEASE}-shared-data")
    assert f"{RELEASE}-shared-data was deleted" in output
    assert box.run("k8s", "status", RELEASE).returncode == 2
    assert [call[0] for call in calls(box) if "--dry-run" not in call] == [
        "install",
        "upgrade",
        "uninstall",
    ]


@pytest.mark.slow
def test_data_outlives_its_release(box: Box, cluster: FakeCluster) -> None:
    """With the chart alone, helm would delete the claim with the release, and when its values make it no
    more.
    """
    data = f"{RELEASE}-shared-data"
    assert box.run("k8s", "up", RELEASE, "--yes", "--no-wait").returncode == 0
    without = ("k8s", "upgrade", RELEASE, "--set", "storage.enabled=false", "--yes", "--no-wait")
    refusal = box.run(*without)
    assert refusal.returncode == 4
    assert f"helm would delete {data}" in refusal.stderr
    hint = refusal.stderr.splitlines()[-1].partition(": ")[2]
    subprocess.run(shlex.split(hint), env=box.env, check=True, capture_output=True)
    assert box.run(*without).returncode == 0
    assert data in cluster.claims()

    assert (
        box.run("k8s", "upgrade", RELEASE, "--set", "storage.enabled=true", "--yes", "--no-wait").returncode
        == 0
    )
    result = box.run("k8s", "down", RELEASE, "--yes")
    assert f"{data} is kept" in result.stderr, result.stderr
    assert data in cluster.claims()
    assert box.run("k8s", "up", RELEASE, "--yes", "--no-wait").returncode == 0  # takes it up again


@pytest.mark.slow
def test_data_is_never_deleted_where_nobody_was_asked(box: Box, cluster: FakeCluster) -> None:
    put(cluster.url, claim(RELEASE))
    for options in ((), ("--yes",), ("--delete-data",)):
        result = box.run("k8s", "down", RELEASE, *options)
        assert f"{RELEASE}-shared-data is kept" in result.stderr
    assert "was deleted" in box.run("k8s", "down", RELEASE, "--delete-data", "--yes").stderr


def test_without_helm_or_kubectl_it_says_so(box: Box) -> None:
    (box.work / "prime-rl").mkdir()
    (box.work / "prime-rl/Chart.yaml").touch()
    path = box.env["PATH"]
    try:
        box.env["PATH"] = str(box.work)
        assert "helm is not installed" in box.run("k8s", "up", RELEASE).stderr
        assert "cannot run kubectl" in box.run("k8s", "status").stderr
    finally:
        box.env["PATH"] = path
