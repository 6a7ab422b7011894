"""Restart policies, leftovers and what a killed supervisor had in hand, with real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, is_alive, read_process_id

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

FAMILY = Path(__file__).parents[1] / "fakes/programs/family.py"
FLAKY = """\
import pathlib, signal, sys
count = pathlib.Path(sys.argv[1])
starts = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(starts))
print("start", starts, flush=True)
if starts <= int(sys.argv[2]):
    print(sys.argv[3] if len(sys.argv) > 3 else "bad luck", flush=True)
    sys.exit(1)
signal.pause()
"""


SLOW_TO_END = """\
import os, signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
print("up", flush=True)
while not (asked and os.path.exists(sys.argv[1])):
    time.sleep(0.02)
"""


def component(name: str, *command: str, **values: Any) -> str:
    lines = ["[[component]]", f'id = "{name}"', f"command = {json.dumps(['{python}', '-I', '-S', *command])}"]
    lines += [f"{key} = {value}" for key, value in values.items()]
    return "\n".join([*lines, "stop.grace_s = 2", ""])


def write_experiment(box: Box, *components: str) -> None:
    (box.work / "flaky.py").write_text(FLAKY)
    (box.work / "run.toml").write_text("max_steps = 20\n")
    (box.work / "parts.toml").write_text('framework = "generic"\n' + "\n".join(components))


def up(box: Box) -> None:
    result = box.run("up", "run.toml", "-l", "parts.toml", "-n", "one", "-o", "out", "--no-wait")
    assert result.returncode == 0, result.stderr


def journal(box: Box, kind: str) -> list[dict[str, Any]]:
    lines = (box.work / "out/.rltui/journal.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] == kind]


def kill_supervisor(box: Box) -> None:
    pid = box.supervisor_pid()
    identity = read_process_id(pid)
    os.kill(pid, signal.SIGKILL)
    retry_until(lambda: identity is None or not is_alive(identity))


POLICY = 'restart = { policy = "on-failure", backoff_s = [0.2, 1.0], max_failures = 3 }'.partition("= ")[2]
SLOWLY = POLICY.replace("[0.2, 1.0]", "[60, 60]")
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.slow
def test_policies_of_components_that_fail(box: Box) -> None:
    together = POLICY.replace("}", ', together = ["partner"], because = "they count together" }')
    flaky = "{workspace}/flaky.py"
    write_experiment(
        box,
        component("partner", flaky, "{workspace}/partner", "0"),
        component("flaky", flaky, "{workspace}/count", "2", restart=together),
        component("hopeless", flaky, "{workspace}/hopeless", "3", restart=POLICY),
        component("waits", flaky, "{workspace}/waits", "9", restart=SLOWLY),
        *(
            component(name, flaky, f"{{workspace}}/{name}", "1", output, restart=POLICY)
            for name, output in (("memory", OUT_OF_MEMORY), ("config", "RL config validation failed:"))
        ),
    )
    up(box)
    retry_until(lambda: box.component("flaky")["attempt"] == 3)
    assert box.wait_for("flaky", "ready")["attempt"] == 3
    retry_until(lambda: (box.work / "count").read_text() == "3")
    assert box.component("partner")["attempt"] == 3
    texts = [entry["text"] for entry in journal(box, "exit")]
    assert any("flaky" in text and "exited 1; failure 1 of 3" in text for text in texts)
    assert any("flaky" in text and "exited 1; failure 2 of 3" in text for text in texts)

    # It gives up after so many failures, and a person can start it again.
    status = box.wait_for("hopeless", "failed")
    assert status["attempt"] == 3
    assert status["reason"] == "exited 1; no restart after 3 failures within 1h00m"
    assert box.run("start", "-c", "hopeless", "--yes", "--wait").returncode == 0
    assert box.component("hopeless")["state"] == "ready"

    # What would end the same way is not tried again.
    for name, cause in (("memory", "out of GPU memory"), ("config", "config")):
        status = box.wait_for(name, "failed")
        assert status["attempt"] == 1
        assert cause in status["reason"]
        assert "a restart would fail the same way" in status["reason"]

    # A stop during the back-off is the end of it.
    status = box.wait_for("waits", "backoff")
    assert status["retry_at"] > 0
    assert box.status()["state"] == "failed", "of others"
    assert box.run("stop", "-c", "waits", "--yes", "--wait").returncode == 0
    assert box.component("waits")["state"] == "stopped"
    assert (box.work / "waits").read_text() == "1"


@pytest.mark.slow
def test_back_off_outlives_the_supervisor_and_a_death_that_none_saw_is_told(box: Box) -> None:
    flaky = "{workspace}/flaky.py"
    write_experiment(
        box,
        component("other", flaky, "{workspace}/other", "0"),
        component("doomed", flaky, "{workspace}/doomed", "0", restart=POLICY),
        component("flaky", flaky, "{workspace}/count", "1", restart=SLOWLY),
    )
    up(box)
    first = box.wait_for("doomed", "ready")
    box.wait_for("flaky", "backoff")
    kill_supervisor(box)
    os.kill(first["pid"], signal.SIGKILL)
    retry_until(lambda: box.component("doomed")["attempt"] == 2)
    box.wait_for("doomed", "ready")
    texts = [entry["text"] for entry in journal(box, "exit")]
    assert any("killed by SIGKILL (from outside" in text and "failure 1 of 3" in text for text in texts)
    retry_until(lambda: (box.work / "count").read_text() == "2")
    box.wait_for("flaky", "ready")
    assert box.component("other")["attempt"] == 1


def test_nothing_is_started_after_a_reboot(box: Box) -> None:
    write_experiment(
        box, component("flaky", "{workspace}/flaky.py", "{workspace}/count", "1", restart=SLOWLY)
    )
    up(box)
    box.wait_for("flaky", "backoff")
    kill_supervisor(box)
    intent = box.work / "out/.rltui/intent.json"
    values = json.loads(intent.read_text())
    assert values["backoff"] == ["flaky"]
    intent.write_text(json.dumps({**values, "boot": "an earlier one"}))
    assert box.component("flaky")["state"] == "failed"
    assert box.run("restart", "one", "-c", "flaky", "--plan").returncode == 0, "starts a supervisor"
    assert box.component("flaky")["attempt"] == 1
    assert (box.work / "count").read_text() == "1"


@pytest.mark.slow
def test_restart_goes_on_when_client_and_supervisor_are_killed_half_way(box: Box) -> None:
    (box.work / "slow.py").write_text(SLOW_TO_END)
    write_experiment(
        box,
        component("slow", "{workspace}/slow.py", "{workspace}/may-end").replace(
            "grace_s = 2", "grace_s = 30"
        ),
        component("other", "{workspace}/flaky.py", "{workspace}/other", "0"),
    )
    up(box)
    before = {name: box.wait_for(name, "ready")["pid"] for name in ("slow", "other")}
    argv = [sys.executable, "-m", "rltui", "restart", "one", "--yes", "--wait"]
    client = subprocess.Popen(argv, cwd=box.work, env=box.env, stderr=subprocess.DEVNULL)
    box.wait_for("slow", "stopping")
    client.kill()
    client.wait()
    kill_supervisor(box)
    (box.work / "may-end").touch()
    retry_until(lambda: box.component("slow")["attempt"] == 2, timeout_s=20)
    after = {name: box.wait_for(name, "ready")["pid"] for name in ("slow", "other")}
    assert not set(before.values()) & set(after.values())
    assert box.component("other")["attempt"] == 2
    texts = [entry["text"] for entry in journal(box, "plan")]
    assert "continuing the plan that the killed supervisor had started" in texts
    retry_until(lambda: re.match("done in", journal(box, "plan")[-1]["text"]))


def family(box: Box, leftovers: str) -> dict[str, int]:
    write_experiment(
        box,
        component("serve", str(FAMILY), "{workspace}/pids", "wait", "titled", "port", "stop.leftovers", "x")
        .replace(', "stop.leftovers", "x"', "")
        .replace("stop.grace_s = 2", f'stop = {{ grace_s = 2, leftovers = "{leftovers}" }}'),
    )
    up(box)
    retry_until((box.work / "pids").exists)
    pids: dict[str, int] = json.loads((box.work / "pids").read_text())
    return pids


@pytest.mark.slow
def test_kept_leftovers_are_listed_and_a_restart_ends_them_first(box: Box) -> None:
    pids = family(box, "keep")
    main = box.wait_for("serve", "ready")["pid"]
    os.kill(main, signal.SIGKILL)
    component = box.wait_for("serve", "failed")
    assert component["signal"] == "SIGKILL"
    orphans = retry_until(lambda: box.status()["orphans"])
    assert {orphan["pid"] for orphan in orphans} == {pids["titled"], pids["port"]}
    assert [orphan["ports"] for orphan in orphans if orphan["pid"] == pids["port"]] == [[pids["listens"]]]
    assert all(orphan["attempt"] == 1 and orphan["age_s"] > 0 for orphan in orphans)
    identities = [read_process_id(pids[kind]) for kind in ("titled", "port")]
    (box.work / "pids").unlink()
    plan = box.json("restart", "-c", "serve", "--plan")
    assert {orphan["pid"] for orphan in plan["free"]} == {pids["titled"], pids["port"]}
    assert box.run("restart", "-c", "serve", "--yes", "--wait").returncode == 0
    assert not any(identity and is_alive(identity) for identity in identities)
    assert box.component("serve")["attempt"] == 2
    assert box.status()["orphans"] == []


@pytest.mark.slow
def test_leftovers_of_a_killed_shim_and_component_are_ended_by_the_layout(box: Box) -> None:
    pids = family(box, "end")
    box.wait_for("serve", "ready")
    path = box.work / "out/.rltui/components/serve/attempt-1/attempt.json"
    # What leaves its session and wipes its title is known only once its shim has written it down.
    retry_until(lambda: f'"pid": {pids["titled"]},' in path.read_text())
    record = json.loads(path.read_text())
    identities = [ProcessId(pids[kind], read_process_id(pids[kind]).start) for kind in ("titled", "port")]  # type: ignore[union-attr]
    os.kill(record["shim_pid"], signal.SIGKILL)
    os.kill(record["pid"], signal.SIGKILL)
    box.wait_for("serve", "failed")
    retry_until(lambda: not any(is_alive(identity) for identity in identities))
    assert box.status()["orphans"] == []
