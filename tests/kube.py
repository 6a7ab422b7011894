"""A cluster for tests: the API server of `tests/fakes/kube_api.py`, and the kubectl of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.helm import stateful_set
from tests.fakes.kube_api import can_isolate, put
from tests.waiting import retry_until

REPOSITORY = Path(__file__).parents[1]
RELEASE = "my-exp"


@dataclass(frozen=True)
class FakeCluster:
    """It runs while its context is open. `env` is for kubectl and whoever calls it."""

    folder: Path
    url: str
    env: Mapping[str, str] = field(default_factory=dict)

    def ask(self, what: str, **values: object) -> Any:
        request = urllib.request.Request(
            f"{self.url}/fake/{what}", json.dumps(values).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def apply(
        self, role: str, command: Sequence[str], *, replicas: int = 1, ports: Sequence[int] = ()
    ) -> str:
        """The StatefulSet of a role of the release; returns the name of its first pod."""
        put(self.url, stateful_set(RELEASE, role, command, replicas=replicas, ports=ports))
        return f"{RELEASE}-{role}-0"

    def claims(self) -> set[str]:
        """Names of the PersistentVolumeClaims."""
        path = "api/v1/namespaces/default/persistentvolumeclaims"
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=10) as answer:
            return {item["metadata"]["name"] for item in json.loads(answer.read())["items"]}

    def pods(self) -> dict[str, dict[str, Any]]:
        """Pods by name, as the API describes them."""
        with urllib.request.urlopen(f"{self.url}/api/v1/namespaces/default/pods", timeout=10) as answer:
            return {item["metadata"]["name"]: item for item in json.loads(answer.read())["items"]}

    def running(self, name: str) -> dict[str, Any]:
        """The pod, once its container runs."""

        def found() -> dict[str, Any] | None:
            pod = self.pods().get(name)
            statuses = [] if pod is None else pod["status"].get("containerStatuses", [])
            return pod if statuses and "running" in statuses[0]["state"] else None

        return retry_until(found)


@contextmanager
def fake_cluster(folder: Path) -> Iterator[FakeCluster]:
    """Skips the test where this machine lacks what it takes."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl here")
    if not can_isolate():
        pytest.skip("processes cannot get a namespace of their own here (unshare --pid)")
    folder.mkdir()
    process = subprocess.Popen([sys.executable, "-m", "tests.fakes.kube_api", str(folder)], cwd=REPOSITORY)
    try:
        config = folder / "kubeconfig"
        retry_until(config.exists)
        url = json.loads(config.read_text())["clusters"][0]["cluster"]["server"]
        home = folder / "home"  # for what kubectl keeps
        yield FakeCluster(folder, url, {**os.environ, "KUBECONFIG": str(config), "HOME": str(home)})
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def shell(text: str) -> list[str]:
    """Command of a role with `autoStart = true`, as the chart has it."""
    return ["/bin/bash", "-c", text]
