"""Runs whose config names servers that nobody of prime-rl starts: a teacher, an env server."""

from __future__ import annotations

import json
import re
import socket

import pytest
from tests.conftest import Box
from tests.e2e.test_prime_rl_layouts import LAYOUTS
from tests.fakes.http_server import Handler, serving
from tests.fakes.prime_rl.boxed import EXPERIMENT, PrimeBox, prime_box
from tests.fakes.prime_rl.generation import Name
from tests.following import follow
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

ALGORITHM = """
[{table}]
type = "opd"
[{table}.teacher]
name = "big"
base_url = "{url}"
api_key_var = "TEACHER_KEY"
"""
KEY = "sk-hush"
UP = ("-n", EXPERIMENT, "-o", "out")


class Teacher(Handler):
    """Serves `models` to clients that have the key."""

    models = ("big",)

    def respond(self) -> None:
        if self.headers["Authorization"] != f"Bearer {KEY}":
            return self.answer(401)
        data = [{"id": model} for model in type(self).models]
        return self.answer(200, json.dumps({"data": data}).encode())


class Small(Teacher):
    models = ("small",)


def with_teacher(box: Box, generation: Name, port: int) -> PrimeBox:
    prime = prime_box(box, generation)
    table = "orchestrator.algo" if generation == "C" else "orchestrator.train.algo"
    text = re.sub(r"\[orchestrator\.train\.algo\]\ntype = .*\n", "", prime.config.read_text())
    prime.config.write_text(text + ALGORITHM.format(table=table, url=f"http://localhost:{port}/v1"))
    return prime


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def events(box: Box, text: str) -> bool:
    return text in box.run("events", EXPERIMENT).stdout


def test_a_teacher_of_this_machine_is_served_by_a_part(box: Box) -> None:
    """The hints are followed from the config to a run, and after its teacher's end."""
    port = free_port()
    prime = with_teacher(box, "C", port)
    fault = f"teacher at http://localhost:{port}/v1 does not answer (Connection refused): rollouts would hang"

    checked = box.json("check", "rl.toml")
    assert (checked["valid"], checked["startable"]) == (True, False)
    (problem,) = [item for item in checked["problems"] if item["message"] == fault]
    assert (problem["severity"], problem["key"]) == ("warning", "orchestrator.algo.teacher.base_url")
    assert problem["file"].endswith("rl.toml")
    line = prime.config.read_text().splitlines()[problem["line"] - 1]
    assert line.startswith("base_url")
    printed = box.run("check", "rl.toml").stdout
    assert "teacher does not answer" in printed.splitlines()[0]
    assert f"→ to serve it here: {hints.UP_ONLY(component='teacher')}" in printed

    refusal = box.run("up", *prime.files, *UP)
    assert (refusal.returncode, fault in refusal.stderr) == (4, True), refusal.stderr
    assert not (box.work / "out" / ".rltui").exists(), "nothing is left of it"
    fill = {"…": "rl.toml"}
    follow(box, refusal, hints.UP_ONLY, *UP, component="teacher", fill=fill, code=0)
    teacher = prime.pid("teacher")
    follow(box, refusal, hints.START_RUN, name=EXPERIMENT, code=0)
    prime.wait_for_steps("trainer", 2)
    status = box.status()
    assert status["servers"] == [], "it is shown as a component"
    assert "teacher" in [component["id"] for component in status["components"]]

    prime.done("restart", "-c", "trainer", "--yes")
    prime.wait_for_steps("trainer", 2, attempt=2)
    assert (prime.pid("teacher"), prime.attempt("teacher")) == (teacher, 1), "it stays warm"
    prime.kill(teacher)
    retry_until(lambda: events(box, "teacher (external) is down"), timeout_s=30)
    (server,) = box.status()["servers"]
    assert (server["id"], server["state"]) == ("teacher", "down")
    listed = box.run("events").stdout
    follow(box, listed, hints.START, component="teacher", name=None, code=0)
    retry_until(lambda: box.status()["servers"] == [])
    prime.assert_down_leaves_nothing()


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["C", "D"])
def test_a_teacher_elsewhere_is_asked_before_and_during_a_run(box: Box, generation: Name) -> None:
    port = free_port()
    prime = with_teacher(box, generation, port)
    text = prime.config.read_text()
    layout = ("-l", LAYOUTS.get(generation, "prime-rl"))
    for key, server, reason in (
        ("", Teacher, "requires an API key: set TEACHER_KEY"),
        ("sk-wrong", Teacher, "rejects the key in TEACHER_KEY"),
        (KEY, Small, "the server has small, but the config asks for big"),
    ):
        box.env["TEACHER_KEY"] = key
        with serving(server, port=port):
            for command in (("check", "rl.toml"), ("up", "rl.toml", *UP, *layout)):
                result = box.run(*command)
                printed = result.stdout + result.stderr
                assert reason in printed, printed
                assert not key or key not in printed
                assert result.returncode == (0 if command[0] == "check" else 4)
    with serving(Teacher, port=port):
        prime.up(layout[1], "--no-wait")
        prime.wait_for_steps("trainer", 1)
        (server_status,) = box.status()["servers"]
        assert (server_status["state"], server_status["used_for"]) == ("ready", "scores rollouts")
        assert f"teacher (external) ● ready · http://localhost:{port}/v1" in box.run("status").stdout
    retry_until(lambda: events(box, "teacher (external) is down"), timeout_s=60)
    status = box.status()
    assert status["progress"]["bottleneck"]["waits_for"] == "teacher"
    assert "✗ down since" in box.run("status").stdout
    with serving(Teacher, port=port):
        retry_until(lambda: events(box, "teacher answers again"), timeout_s=60)
        assert box.status()["servers"][0]["state"] == "ready"
    assert KEY not in json.dumps(status) + box.run("events").stdout + box.run("describe", EXPERIMENT).stdout
    assert prime.config.read_text() == text
    prime.assert_down_leaves_nothing()
