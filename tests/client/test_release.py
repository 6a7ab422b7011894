"""The layout of a release."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rltui import paths
from rltui.client.release import (
    Release,
    component_ids,
    fitted_layout,
    pod_of_role,
    to_follow,
    write_layout,
)
from rltui.core.experiment.layout import Layout
from rltui.core.hosts.kubectl import Kubectl
from rltui.errors import UsageError
from rltui.frameworks.charts import CHART
from rltui.services.experiment import layout_files
from rltui.services.hosts.job_status import JobStatus, write_job_status
from rltui.services.hosts.kube import Pod, PodSet

SHIPPED = tomllib.loads((paths.shipped_dir("layouts") / f"{CHART.layout}.toml").read_text())


def of_role(role: str, *command: str, replicas: int = 1, gpus: int = 0) -> PodSet:
    return PodSet(f"my-exp-{role}", role, replicas, f"prime-rl-{role}", command, gpus, is_rolled_out=True)


def release(*sets: PodSet, pods: tuple[Pod, ...] = (), kubectl: Kubectl | None = None) -> Release:
    return Release("my-exp", kubectl or Kubectl(), sets, pods)


def pod(name: str, *command: str) -> Pod:
    return Pod(name, "uid", "c", command, "running", restarts=1)


def test_a_component_for_each_pod_with_the_commands_of_the_chart() -> None:
    sets = (
        of_role("trainer", "bash", "-c", "uv run trainer; sleep infinity", gpus=1),
        of_role("inference", "sleep", "infinity", replicas=2, gpus=1),
        of_role("orchestrator", "sleep", "infinity"),
    )
    values = {
        "config": {"example": "wiki-search"},
        "inference": {"command": "uv run inference @ x.toml; sleep infinity"},
    }
    chart_release = release(*sets, kubectl=Kubectl("big", "rl"))
    layout = Layout.model_validate(fitted_layout(SHIPPED, chart_release, values))
    assert list(component_ids(chart_release)) == ["inference", "inference-1", "orchestrator", "trainer"]
    assert [spec.id for spec in layout.automatic] == list(component_ids(chart_release))
    first, second = layout["inference"], layout["inference-1"]
    assert first.command == second.command == ("bash", "-c", "uv run inference @ x.toml")
    assert layout["trainer"].command == ("bash", "-c", "uv run trainer")
    assert layout["orchestrator"].command == tuple(
        next(component["command"] for component in SHIPPED["component"] if component["id"] == "orchestrator")
    )
    assert second.pod is not None
    assert (second.pod.name, second.pod.namespace, second.pod.context) == ("my-exp-inference-1", "rl", "big")
    assert second.pod.gpus
    assert (first.forward, second.forward) == (("{port.inference}:8000",), ("{port.inference-1}:8000",))
    sft, shell = layout["sft"], layout["shell"]
    assert "/app/examples/wiki_search/sft.toml" in sft.command[-1]
    assert sft.pod is not None
    assert shell.pod is not None
    assert (sft.pod.name, shell.pod.name) == ("my-exp-trainer-0", "my-exp-{given.like}-0")
    assert layout["trainer"].restart.together == ("orchestrator",)
    assert layout.screen.columns[0] == tuple(component_ids(chart_release))


def test_a_release_with_one_role_is_a_layout_too(tmp_path: Path) -> None:
    file = write_layout(release(of_role("trainer", "sleep", "infinity", replicas=0)), {}, tmp_path)
    layout = layout_files.load(file)
    assert [spec.id for spec in layout.automatic] == ["trainer"]
    assert layout["trainer"].restart.together == ()
    other = write_layout(release(of_role("judge", "judge", "--port", "1")), {}, tmp_path)
    assert layout_files.load(other)["judge"].command == ("bash", "-c", "judge --port 1")


def test_what_sleeps_and_what_was_seen_to_end_is_not_started(tmp_path: Path) -> None:
    sets = tuple(of_role(role) for role in ("inference", "orchestrator", "trainer"))
    pods = (
        pod("my-exp-inference-0", "sleep", "infinity"),
        pod("my-exp-orchestrator-0", "run"),
        pod("my-exp-trainer-0", "run"),
    )
    chart_release = release(*sets, pods=pods)
    assert to_follow(chart_release, tmp_path) == ("orchestrator", "trainer")
    attempt = tmp_path / ".rltui/components/trainer/attempt-3"
    attempt.mkdir(parents=True)
    write_job_status(attempt, JobStatus(id="uid/0", phase="ended"))
    assert to_follow(chart_release, tmp_path) == (
        "orchestrator",
        "trainer",
    )  # an earlier start of the container
    write_job_status(attempt, JobStatus(id="uid/1", phase="ended"))
    assert to_follow(chart_release, tmp_path) == ("orchestrator",)


def test_a_role_without_a_pod_names_those_there_are() -> None:
    chart_release = release(of_role("trainer"), of_role("inference"), pods=(pod("my-exp-trainer-0", "x"),))
    assert pod_of_role(chart_release, "trainer").name == "my-exp-trainer-0"
    for role in ("inference", "trainer-1", "other"):
        with pytest.raises(UsageError) as caught:
            pod_of_role(chart_release, role)
        assert caught.value.hint == "available: inference, trainer"
