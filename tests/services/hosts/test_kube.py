"""What the cluster says of pods, and what runs in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.hosts.kubectl import Kubectl
from rltui.core.hosts.specs import PodSpec
from rltui.errors import RltuiError
from rltui.services.hosts.kube import (
    ContainerPrograms,
    NoContainerError,
    NoPodError,
    failure,
    parse_programs,
    pod_of,
    read_sets,
    without_sleep,
)


def described(status: dict[str, Any], command: list[str] | None = None, **metadata: object) -> dict[str, Any]:
    containers = [{"name": "prime-rl-trainer", "command": command or []}, {"name": "sidecar"}]
    return {
        "metadata": {"name": "my-exp-trainer-0", "uid": "u", **metadata},
        "spec": {"containers": containers, "nodeName": "node-1"},
        "status": status,
    }


def with_state(state: dict[str, Any], **more: object) -> dict[str, Any]:
    status = {"name": "prime-rl-trainer", "restartCount": 2, "state": state, **more}
    return described({"phase": "Running", "containerStatuses": [status]})


UNSCHEDULED = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/5 nodes are available: 5 Insufficient nvidia.com/gpu. preemption: 0/5 nodes are.",
        }
    ],
}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}}


def test_why_a_pod_does_not_run() -> None:
    cases = {
        "no node can run it: 0/5 nodes are available: 5 Insufficient nvidia.com/gpu": described(UNSCHEDULED),
        "its node has not started it yet": described({"phase": "Pending"}),
        "its container is being created": with_state({"waiting": {"reason": "ContainerCreating"}}),
        'its image cannot be pulled (ImagePullBackOff): Back-off pulling image "x"': with_state(
            {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}
        ),
        'its container cannot be created (CreateContainerConfigError): secret "hf" not found': with_state(
            {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'}}
        ),
        "it exited 137 (OOMKilled), and restarts after a delay (CrashLoopBackOff)": with_state(
            {"waiting": {"reason": "CrashLoopBackOff"}}, lastState=KILLED
        ),
        "SomethingNew": with_state({"waiting": {"reason": "SomethingNew"}}),
    }
    for why, document in cases.items():
        pod = pod_of(document)
        assert (pod.phase, pod.reason) == ("pending", why)


def test_a_pod_that_runs_or_is_over() -> None:
    running = pod_of(with_state({"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ready=True))
    assert (running.phase, running.reason, running.restarts, running.is_ready) == ("running", "", 2, True)
    evicted = pod_of(described({"phase": "Failed", "reason": "Evicted"}))
    assert (evicted.phase, evicted.reason) == ("ended", "Evicted")
    leaving = pod_of(described({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert leaving.is_terminating


def test_a_container_that_is_not_there_is_named() -> None:
    with pytest.raises(NoContainerError, match="has no container other") as caught:
        pod_of(described({}), "other")
    assert caught.value.hint == "it has: prime-rl-trainer, sidecar"
    with pytest.raises(RltuiError, match="unexpected pod description from the cluster: KeyError"):
        pod_of({"kind": "Status"})


COMMANDS = {
    ("sleep", "infinity"): (True, False, ""),
    ("/bin/bash", "-c", "sleep infinity"): (True, False, ""),
    ("tail", "-f", "/dev/null"): (True, False, ""),
    ("/bin/bash", "-c", "uv run trainer @ x.toml; sleep infinity"): (False, True, "uv run trainer @ x.toml"),
    ("/bin/bash", "-c", "uv run trainer && sleep infinity\n"): (False, True, "uv run trainer"),
    ("uv", "run", "trainer"): (False, False, "uv run trainer"),
    (): (False, False, ""),
}


def test_commands_that_sleep() -> None:
    for command, (waits, outlives, said) in COMMANDS.items():
        pod = pod_of(described({}, list(command)))
        assert (pod.waits, pod.sleeps_after_program, without_sleep(command)) == (waits, outlives, said), (
            command
        )


PROCESSES = b"""\
1 (bash) S 0 1 1 0 -1
7 (uv) S 1 1 1 0 -1
9 (python (x) y) R 7 1 1 0 -1
20 (sh) S 0 20 20 0 -1
21 (python3) S 20 20 20 0 -1
23 (python3) S 20 20 20 0 -1
24 (python3) S 20 20 20 0 -1
25 (python3) S 20 20 20 0 -1
27 (python3) S 20 20 20 0 -1
26 (left) Z 1 20 20 0 -1
30 (cat) R 0 30 30 0 -1
half a li
==> 7/cmdline <==
uv\0run\0trainer\0

==> 9/cmdline <==
python\0-u\0-m\0torch.run\0

==> 21/cmdline <==
python3\0/app/.venv/bin/sft\0@\0sft.toml\0

==> 23/cmdline <==
python3\0-I\0-u\0-c\0import os, sys
os.environ

==> 24/cmdline <==
python3\0-I\0-S\0/root/.cache/rltui/shim-1/rltui/daemon/shim/__main__.py\0x\0

==> 27/cmdline <==
python3\0-I\0-S\0/root/.cache/rltui/shim-2/rltui/hosts/shim/__main__.py\0x\0

==> 25/cmdline <==
python3\0-c\0print()\0
"""


def test_what_runs_inside() -> None:
    """What rltui runs there itself is left out."""
    assert parse_programs(PROCESSES) == ContainerPrograms(("uv", "torch.run"), ("sft", "python3"))
    assert parse_programs(b"1 (bash) S 0\n7 (sleep) S 1 1\n") == ContainerPrograms((), ())
    assert parse_programs(b"1 (uv) S 0 1\n") == ContainerPrograms(("uv",), ())


@given(st.binary())
def test_anything_may_stand_where_processes_are_told(said: bytes) -> None:
    parse_programs(said)
    parse_programs(PROCESSES[: len(said)] + said)


def test_a_process_that_is_its_own_parent_ends_nothing() -> None:
    assert parse_programs(b"5 (a) S 5 1\n6 (b) S 7 1\n7 (c) S 6 1\n").by_hand == ("a", "b", "c")


def test_what_kubectl_says_is_told_without_its_prefix() -> None:
    missing = failure(b'E1123 noise\nError from server (NotFound): pods "x" not found\n')
    assert isinstance(missing, NoPodError)
    assert str(missing) == 'pods "x" not found'
    refused = failure(b"Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n")
    assert not isinstance(refused, NoPodError)
    assert str(refused).endswith("i/o timeout")
    assert str(failure(b"", "exited 1")) == "exited 1"


def test_words_name_context_namespace_and_container() -> None:
    pod = PodSpec(context="big", namespace="{kind}", name="p-0", container="c", done="a{3}")
    entry = pod.entry(lambda value: "rl" if value == "{kind}" else value)
    kubectl, inside = ("kubectl", "--context=big", "--namespace=rl"), ("p-0", "--container=c", "--")
    assert entry["reach"] == (*kubectl, "exec", "-i", *inside)
    assert pod.terminal_reach(entry) == (*kubectl, "exec", "-it", *inside)
    assert entry["done"] == "a{3}"
    assert Kubectl().argv("get", "pods") == ("kubectl", "get", "pods")


async def test_the_command_of_a_set_is_its_command_and_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = {"name": "trainer", "command": ["uv", "run"], "args": ["trainer", "@", "t.toml"]}
    template = {"metadata": {"labels": {"role": "trainer"}}, "spec": {"containers": [container]}}
    items = [{"metadata": {"name": "x-trainer"}, "spec": {"template": template}}]
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho '{json.dumps({'items': items})}'\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (found,) = await read_sets(Kubectl(), "x")
    assert found.command == ("uv", "run", "trainer", "@", "t.toml")
    assert (found.role, found.replicas) == ("trainer", 1)
