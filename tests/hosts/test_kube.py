"""A component that is a pod: real kubectl and processes, an API server of ours."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SERVICE
from tests.fakes.remote_attempt import RemoteAttempt
from tests.kube import FakeCluster, fake_cluster, shell
from tests.waiting import retry_until

from rltui.core.hosts.specs import PodSpec
from rltui.hosts import kube as kube_host
from rltui.hosts.remote_runner import RemoteRunner

HASTE = """\
import sys
from rltui.hosts import remote_runner, kube
kube._POLL_S = kube._FORWARD_RETRY_S = 0.1
kube._PAUSES_S = (0.1, 0.2)
kube._QUIET_S = remote_runner.STOP_TIMEOUT_S = 1.0
kube.kube._TIMEOUT_S = 3.0
sys.exit(remote_runner.main(sys.argv[1:]))
"""
"""A runner that polls more often."""


Attempts = Callable[..., RemoteAttempt]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    with fake_cluster(tmp_path / "cluster") as fake:
        yield fake


@pytest.fixture
def attempts(cluster: FakeCluster, tmp_path: Path) -> Iterator[Attempts]:
    """Makes the next attempt for a pod, with a remote runner. Those that still run are ended afterwards."""
    started: list[RemoteAttempt] = []

    def make(pod: str, *, argv: Sequence[str] = ("true",), **host: object) -> RemoteAttempt:
        number = len(started) + 1
        folder = tmp_path / "components" / f"attempt-{number}"
        described: dict[str, Any] = PodSpec(name=pod).entry(lambda value: value)
        described |= {"forward": [], "ports": [], "wait_s": 5}
        attempt = RemoteAttempt(folder, env=dict(cluster.env), program=("-c", HASTE))
        attempt.write_spec(argv, {**described, **host}, attempt=number, stop={"grace_s": 2.0})
        started.append(attempt)
        attempt.follow()
        return attempt

    yield make
    for attempt in started:
        attempt.end()


COUNTING = "for ((i = 0; i < 4000; i++)); do echo line $i; sleep 0.003; done; sleep infinity"


def numbers(log: str) -> list[int]:
    return [int(line.removeprefix("line ")) for line in log.splitlines() if line.startswith("line ")]


@pytest.mark.slow
def test_output_comes_once_whoever_is_killed_or_cut_off(cluster: FakeCluster, attempts: Attempts) -> None:
    attempt = attempts(cluster.apply("trainer", shell(COUNTING)))
    attempt.until(lambda status: status.phase == "running")
    retry_until(lambda: len(numbers(attempt.log)) > 100)
    cluster.ask("cut", seconds=1.0)
    reached = len(numbers(attempt.log))
    retry_until(lambda: len(numbers(attempt.log)) > reached + 100)
    attempt.end()
    reached = len(numbers(attempt.log))
    attempt.follow()
    retry_until(lambda: len(numbers(attempt.log)) > reached + 100)
    output_numbers = numbers(attempt.log)
    assert output_numbers == list(range(len(output_numbers)))
    assert attempt.status.starts == 1


@pytest.mark.slow
def test_a_program_that_ended_in_a_pod_which_sleeps_on_has_ended(
    cluster: FakeCluster, attempts: Attempts
) -> None:
    pod = cluster.apply("trainer", shell("echo Traceback; sleep infinity"))
    first = attempts(pod)
    status = first.until(lambda status: status.phase == "ended")
    assert (status.exit_code, status.error) == (None, "the pod stays up and keeps its devices")
    assert first.code(10) == 1
    uid = cluster.running(pod)["metadata"]["uid"]

    second = attempts(pod)  # its end was seen: it is made anew
    second.until(lambda status: status.phase == "running")
    assert cluster.running(pod)["metadata"]["uid"] != uid


@pytest.mark.slow
def test_what_its_last_words_say_counts_as_done(cluster: FakeCluster, attempts: Attempts) -> None:
    pod = cluster.apply("trainer", shell("echo RL trainer finished!; sleep infinity"))
    attempt = attempts(pod, done="trainer finished")
    assert attempt.until(lambda status: status.phase == "ended").exit_code == 0
    assert attempt.log == "RL trainer finished!\n"
    assert attempt.code(10) == 0


@pytest.mark.slow
def test_a_container_that_ends_is_followed_into_its_next_start(
    cluster: FakeCluster, attempts: Attempts
) -> None:
    """The last output of the earlier container is there, too."""
    attempt = attempts(
        cluster.apply("trainer", shell("echo begin; read -t 1 <> <(:); echo last words; exit 3"))
    )
    attempt.until(lambda status: status.starts >= 2)
    retry_until(lambda: attempt.log.count("begin") >= 2)
    first = attempt.log.partition("rltui: ")[0]
    assert first == "begin\nlast words\n"
    assert re.search(r"it exited 3, and was restarted: start \d", attempt.log), "a look may miss one"
    waiting = attempt.until(lambda status: "CrashLoopBackOff" in status.reason)
    assert waiting.phase == "pending"


def test_why_it_is_not_running_is_told(cluster: FakeCluster, attempts: Attempts) -> None:
    pod = cluster.apply("trainer", shell("sleep infinity"))
    cluster.running(pod)
    cluster.ask("trouble", name="my-exp-trainer", trouble="gpu")
    attempt = attempts(pod)
    status = attempt.until(lambda status: bool(status.reason))
    assert status.phase == "pending"
    assert status.reason == "no node can run it: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
    cluster.ask("trouble", name="my-exp-trainer", trouble="image")
    attempt.until(lambda status: "its image cannot be pulled (ImagePullBackOff)" in status.reason)


@pytest.mark.slow
def test_a_stop_scales_its_set_below_it_and_a_start_above(cluster: FakeCluster, attempts: Attempts) -> None:
    pod = cluster.apply("trainer", shell(COUNTING), replicas=2)
    attempt = attempts(pod)
    attempt.until(lambda status: status.phase == "running")
    attempt.signal()
    status = attempt.until(lambda status: status.phase == "ended")
    assert status.signal == "SIGTERM"
    assert pod not in cluster.pods()
    output_numbers = numbers(attempt.log)
    assert output_numbers == list(range(len(output_numbers)))

    second = attempts(pod)
    assert "scaled from 0 to 1" in second.until(lambda status: bool(status.reason)).reason
    second.until(lambda status: status.phase == "running")
    assert list(cluster.pods()) == [pod]


@pytest.mark.slow
def test_a_pod_made_anew_is_followed_and_one_that_stays_away_has_ended(
    cluster: FakeCluster, attempts: Attempts
) -> None:
    pod = cluster.apply("trainer", shell("echo here; exec cat <> <(:)"))
    attempt = attempts(pod)
    attempt.until(lambda status: status.phase == "running")
    kubectl(cluster, "delete", "pod", pod)
    attempt.until(lambda status: status.starts == 2)
    retry_until(lambda: attempt.log.count("here") == 2)
    kubectl(cluster, "delete", "statefulset", "my-exp-trainer")
    status = attempt.until(lambda status: status.phase == "ended")
    assert status.error == "its pod was deleted, and its StatefulSet does not create another"


@pytest.mark.slow
def test_a_stop_that_reaches_nobody_is_no_end(cluster: FakeCluster, attempts: Attempts) -> None:
    attempt = attempts(cluster.apply("trainer", shell(COUNTING)))
    attempt.until(lambda status: status.phase == "running")
    cluster.ask("cut", seconds=60)
    attempt.signal()
    assert attempt.code(20) == 255
    assert attempt.status.phase == "running"
    assert attempt.status.lost_at is not None


def test_a_pod_that_nothing_makes_cannot_be_started(cluster: FakeCluster, attempts: Attempts) -> None:
    attempt = attempts("other-trainer-0")
    assert attempt.code(20) == 127
    assert attempt.status.error is not None
    assert "no StatefulSet other-trainer to create it" in attempt.status.error
    cluster.running(cluster.apply("trainer", ["sleep", "infinity"]))
    wrong = attempts("my-exp-trainer-0", container="wrong")
    assert wrong.code(20) == 127
    assert "it has: prime-rl-trainer" in (wrong.status.error or "")


@pytest.mark.slow
def test_its_port_leads_here_also_after_a_restart(
    cluster: FakeCluster, attempts: Attempts, free_port: int
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        inside = probe.getsockname()[1]
    (cluster.folder / "serve.py").write_text(SERVICE)
    serve = f"exec {sys.executable} {cluster.folder}/serve.py {inside}"
    pod = cluster.apply("trainer", shell(serve), ports=[inside])
    attempt = attempts(pod, forward=[f"{free_port}:{inside}"])

    def answers() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{free_port}/", timeout=2) as answer:
            return bool(answer.read() == b"ok")
        return False

    retry_until(answers, timeout_s=20.0)
    cluster.ask("crash", pod=pod)
    attempt.until(lambda status: status.starts == 2)
    retry_until(answers, timeout_s=20.0)


@pytest.mark.slow
def test_a_command_is_run_in_a_pod_that_sleeps(cluster: FakeCluster, attempts: Attempts) -> None:
    """It runs in its folder and environment, and outlives both its runner and the connection."""
    pod = cluster.apply("trainer", ["sleep", "infinity"])
    cluster.running(pod)
    text = "echo $POD_NAME in ${PWD##*/}; for ((i = 0; i < 4000; i++)); do echo line $i; sleep 0.01; done"
    attempt = attempts(pod, argv=["bash", "-c", text])
    retry_until(lambda: len(numbers(attempt.log)) > 20, timeout_s=20.0)
    assert attempt.log.startswith(f"{pod} in {pod}\n")
    attempt.end()
    cluster.ask("cut", seconds=0.5)
    reached = len(numbers(attempt.log))
    attempt.follow()
    retry_until(lambda: len(numbers(attempt.log)) > reached + 50, timeout_s=30.0)
    output_numbers = numbers(attempt.log)
    assert output_numbers == list(range(len(output_numbers)))
    attempt.signal()
    status = attempt.until(lambda status: status.phase == "ended")
    assert status.signal == "SIGTERM"
    assert "POD_NAME" not in inside(cluster, pod)
    cluster.running(pod)

    code = attempts(pod, argv=["bash", "-c", "echo done; exit 7"])
    assert code.code(20) == 7
    assert code.status.exit_code == 7


@pytest.mark.slow
def test_a_command_ends_with_the_pod_that_it_ran_in(cluster: FakeCluster, attempts: Attempts) -> None:
    pod = cluster.apply("trainer", ["sleep", "infinity"])
    cluster.running(pod)
    attempt = attempts(pod, argv=["sleep", "1000"])
    attempt.until(lambda status: status.phase == "running")
    kubectl(cluster, "delete", "pod", pod)
    status = attempt.until(lambda status: status.phase == "ended")
    assert status.error is not None
    assert status.error.startswith("its pod")
    assert attempt.code(10) == 1


def test_an_image_without_python_is_told(cluster: FakeCluster, attempts: Attempts) -> None:
    pod = cluster.apply("trainer", ["sleep", "infinity"])
    cluster.running(pod)
    attempt = attempts(pod, python="no-such-python")
    assert attempt.code(20) == 127
    assert "cannot run Python there" in (attempt.status.error or "")


def inside(cluster: FakeCluster, pod: str) -> str:
    """Command lines of all processes in the pod."""
    arguments = ["exec", pod, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline"]
    result = subprocess.run(
        ["kubectl", *arguments], env=dict(cluster.env), check=True, capture_output=True, timeout=20
    )
    return result.stdout.decode()


def kubectl(cluster: FakeCluster, *arguments: str) -> None:
    subprocess.run(
        ["kubectl", *arguments], env=dict(cluster.env), check=True, capture_output=True, timeout=20
    )


class Written(RemoteRunner):
    """A remote runner whose output goes straight into its log."""

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)


def stamped(second: int, *lines: str, zone: str = "Z") -> bytes:
    texts = (
        f"2026-01-01T00:00:{second:02}.{index:09}{zone} {line}\n" for index, line in enumerate(lines, start=1)
    )
    return "".join(texts).encode()


def test_lines_that_come_again_are_left_out_as_often_as_they_are_there(tmp_path: Path) -> None:
    """This holds for equal lines, late ones, and those written after the last save of the cursor."""
    spec = {"experiment": "e", "component": "c", "attempt": 1, "log": str(tmp_path / "log")}
    elsewhere = {"argv": [], "cwd": ".", "env": {}, "stop": {}, "host": {}}
    (tmp_path / "spec.json").write_text(json.dumps({**spec, "elsewhere": elsewhere}))
    runner = Written(tmp_path)
    runner.write(b"rltui: before\n")
    lines = kube_host._PodLog(runner)
    assert lines.options() == []
    first, second = stamped(1, "one", "beat", "beat"), stamped(2, "beat", "two")
    lines.restart()
    lines.feed(first + second[:-3])  # cut off within a line
    assert lines.options() == ["--since-time=2026-01-01T00:00:02Z"]
    lines.save_cursor()
    lines.restart()
    lines.feed(second + stamped(3, "beat"))
    lines.feed(stamped(2, "late") + stamped(4, "beat"))
    whole = "one\nbeat\nbeat\nbeat\ntwo\nbeat\nlate\nbeat\n"
    assert runner.log.read_text() == f"rltui: before\n{whole}"

    next_log = kube_host._PodLog(Written(tmp_path))  # in place of one that was killed without another note
    assert next_log.options() == ["--since-time=2026-01-01T00:00:02Z"]
    next_log.restart()
    next_log.feed(second + stamped(3, "beat") + stamped(2, "late") + stamped(4, "beat", "beat", "new"))
    next_log.feed(b"2026-01-01T02:00:05+02:00 no end")
    next_log.finish()
    assert runner.log.read_text() == f"rltui: before\n{whole}beat\nnew\nno end"
