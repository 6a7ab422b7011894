"""Who did it is in every entry, also of what follows from an act later, on real processes."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import SERVING, SHARED, with_gpus
from tests.waiting import retry_until

from rltui.core.experiment.gpu_use import GpuUser
from rltui.services.experiment.gpu_use import GpuUseReader

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

UP = ("up", "./run.toml", "-l", "counters.toml", "-n", "one", "-o", "out", "--wait")


def as_agent(box: Box, name: str, limits: str = "") -> Box:
    """Agents may act on this box, within `limits`."""
    settings = box.root / "config/rltui/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[agents]\nrights = "act"\n{limits}')
    return replace(box, env={**box.env, "RLTUI_AGENT": name})


def events(box: Box, *arguments: str) -> list[dict[str, Any]]:
    return list(box.json("events", "one", *arguments)["events"])


def acts_of(box: Box, agent: str) -> set[tuple[str, str | None]]:
    """Kind and component of what it did."""
    return {(entry["kind"], entry.get("component")) for entry in events(box, "--by", agent)}


def test_what_an_agent_did_and_what_followed(counters: Box) -> None:
    counters.json(*UP)
    assert events(counters, "--by", "agent") == []
    agent = as_agent(counters, "night-1")
    agent.json("set", "one", "max_steps=900", "--restart", "--yes")
    retry_until(lambda: ("start", "inference") in acts_of(counters, "night-1"))
    os.kill(counters.supervisor_pid(), signal.SIGKILL)
    counters.status()  # the next supervisor goes on with it
    counters.wait_for("trainer", "ready")
    assert counters.status()["agents"] == ["night-1"], "also for the next supervisor"
    of_trainer = {(kind, "trainer") for kind in ("stop", "exit", "ready")}
    others = {("edit", None), ("restart", None), ("start", "inference")}
    assert acts_of(counters, "night-1") >= of_trainer | others
    supervisor = [entry for entry in events(counters) if entry["kind"] == "supervisor"]
    assert not any("by" in entry for entry in supervisor), "what a supervisor does by itself"

    os.kill(counters.component("trainer")["pid"], signal.SIGKILL)
    retry_until(lambda: counters.component("trainer")["state"] == "failed")
    counters.run("restart", "one", "-c", "trainer", "--yes", "--wait")
    newest = [entry for entry in events(counters, "-c", "trainer") if entry["kind"] == "ready"][-1]
    assert newest["by"]["kind"] == "cli", "a person started this one"
    undo = counters.run("undo", "one", "--plan").stdout
    assert "undoes an edit by agent night-1, " in undo


def test_the_gpu_hours_of_an_agent_outlive_its_supervisor(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_box = with_gpus(box, SHARED)
    (box.work / "serve.toml").write_text(SERVING)
    agent = as_agent(gpu_box, "night-1")
    agent.json("up", "-l", "serve.toml", "-n", "one", "-o", "out", "--wait")
    os.kill(gpu_box.supervisor_pid(), signal.SIGKILL)
    for name, value in gpu_box.env.items():
        monkeypatch.setenv(name, value)
    reader = GpuUseReader()
    first = reader.hours_of("night-1")
    assert 0 < first < reader.hours_of("night-1"), "it lives, whoever watches it"
    gpu_box.run("down", "one", "--yes")
    last = reader.hours_of("night-1")
    assert last >= first
    assert reader.by_run() == {"one": {GpuUser("night-1", is_agent=True): pytest.approx(3600 * last)}}
    assert reader.hours_of("night-2") == 0


def test_the_run_of_an_agent_without_gpu_hours_stops_and_that_of_a_person_goes_on(
    box: Box, free_port: int
) -> None:
    gpu_box = with_gpus(box, SHARED)
    (box.work / "serve.toml").write_text(SERVING)
    up = ("up", "-l", "serve.toml", "--wait")
    gpu_box.json(*up, "-n", "mine", "-o", "out-mine")
    agent = as_agent(gpu_box, "night-1", "gpu_hours = 1e-5\n")
    agent.json("restart", "mine", "-c", "serve", "--yes", "--wait")
    refused = agent.run(*up, "-n", "one", "-o", "out")
    assert (refused.returncode, "GPU hours" in refused.stderr) == (2, True), refused.stderr
    agent = as_agent(gpu_box, "night-2", "gpu_hours = 1e-3\n")
    agent.json(*up, "-n", "two", "-o", "out-two")
    retry_until(lambda: gpu_box.status("two")["components"][0]["state"] == "stopped", timeout_s=40)
    events = gpu_box.json("events", "two")["events"]
    (alert,) = (entry["text"] for entry in events if entry["kind"] == "alert")
    assert re.fullmatch(r"agent night-2 has used 0\.00\d+ of 0\.001 GPU hours: the run stops", alert)
    assert "by" not in next(entry for entry in events if entry["kind"] == "stop")
    assert gpu_box.status("mine")["components"][0]["state"] == "ready"
    budget = agent.json("agents", "budget")
    assert {user["name"]: user["left_hours"] for user in budget["agents"]} == {"night-1": 0, "night-2": 0}
    assert budget["people"][0]["runs"][0]["run"] == "mine"


@pytest.mark.parametrize("rights", ["act", "propose"])
def test_the_queue_ends_the_run_of_an_agent_that_failed(box: Box, rights: str) -> None:
    """As an agent it would have been refused, and nothing else would ever have started."""
    (box.work / "pair.toml").write_text(
        'title = "x"\nframework = "generic"\n\n[[component]]\nid = "serve"\ncommand = ["sleep", "600"]\n\n'
        '[[component]]\nid = "job"\nkind = "job"\ncommand = ["false"]\n'
    )
    (box.work / "run.toml").write_text("max_steps = 20\n")
    agent = box.as_agent(rights=rights)
    agent.json("queue", "add", "run.toml", "-l", "pair.toml", "-n", "one", "-o", "one")
    if rights == "propose":
        assert box.run("agents", "accept", "one").returncode == 0
    answer = agent.run("queue", "wait", "one", "--timeout", "50", "--json")
    assert (answer.returncode, '"run_failed"' in answer.stdout) == (5, True), answer.stdout
    assert box.tagged("one") == []
