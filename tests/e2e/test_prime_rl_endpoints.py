"""Runs whose config names servers that nobody of prime-rl starts: a teacher, an env server."""

from __future__ import annotations

import json
import re
import socket

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import with_gpus
from tests.e2e.test_prime_rl_layouts import LAYOUTS
from tests.fakes.http_server import Handler, serving
from tests.fakes.prime_rl.boxed import EXPERIMENT, PrimeBox, prime_box
from tests.fakes.prime_rl.generation import Name
from tests.following import follow
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.tmux]

ALGORITHM = """
[{table}]
type = "opd"
[{table}.teacher]
name = "big"
base_url = "{url}"
api_key_var = "TEACHER_KEY"
"""
OF_SPRING = """
[orchestrator.teacher_model.model]
name = "big"
[orchestrator.teacher_model.client]
base_url = ["{url}"]
"""
KEYS: dict[str, str] = {
    "B1": "orchestrator.teacher_model.client.base_url",
    "C": "orchestrator.algo.teacher.base_url",
    "D": "orchestrator.train.algo.teacher.base_url",
}
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
    table = KEYS[generation].removesuffix(".teacher.base_url")
    text = re.sub(r"\[orchestrator\.train\.algo\]\ntype = .*\n", "", prime.config.read_text())
    form = OF_SPRING if generation == "B1" else ALGORITHM
    prime.config.write_text(text + form.format(table=table, url=f"http://localhost:{port}/v1"))
    return prime


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def events(box: Box, text: str) -> bool:
    return text in box.run("events", EXPERIMENT).stdout


@pytest.mark.parametrize("generation", KEYS)
def test_a_teacher_of_this_machine_is_served_by_a_part(box: Box, generation: Name) -> None:
    """The hints are followed from the config to a run, and after its teacher's end."""
    port = free_port()
    prime = with_teacher(box, generation, port)
    fault = f"teacher at http://localhost:{port}/v1 does not answer (Connection refused): rollouts would hang"

    checked = box.json("check", "rl.toml")
    assert (checked["valid"], checked["startable"]) == (True, False)
    (problem,) = [item for item in checked["problems"] if item["message"] == fault]
    assert (problem["severity"], problem["key"]) == ("warning", KEYS[generation])
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
    facts = retry_until(lambda: box.component("teacher")["facts"])
    assert not [fact for fact in facts if "weights" in fact], "those of the policy are not its own"
    prime.kill(teacher)
    retry_until(lambda: events(box, "teacher (external) is down"), timeout_s=30)
    (server,) = box.status()["servers"]
    assert (server["id"], server["state"]) == ("teacher", "down")
    assert box.json("describe", EXPERIMENT)["servers"][0]["id"] == "teacher"
    assert "teacher (external) ✗ down since" in box.run("describe", EXPERIMENT).stdout
    listed = box.run("events").stdout
    follow(box, listed, hints.START, component="teacher", name=None, code=0)
    retry_until(lambda: box.status()["servers"] == [])
    prime.assert_down_leaves_nothing()


@pytest.mark.parametrize("generation", ["C", "D"])
def test_a_teacher_elsewhere_is_asked_before_and_during_a_run(box: Box, generation: Name) -> None:
    port = free_port()
    prime = with_teacher(box, generation, port)
    text = prime.config.read_text()
    layout = ("-l", LAYOUTS.get(generation, "prime-rl"))
    not_sent = "requires an API key; a check does not send it the one in TEACHER_KEY"
    for key, server, reason in (
        ("", Teacher, "requires an API key: set TEACHER_KEY"),
        ("sk-wrong", Teacher, "rejects the key in TEACHER_KEY"),
        (KEY, Small, "the server has small, but the config asks for big"),
    ):
        box.env["TEACHER_KEY"] = key
        with serving(server, port=port):
            checked, refusal = box.run("check", "rl.toml"), box.run("up", "rl.toml", *UP, *layout)
        assert (checked.returncode, refusal.returncode) == (0, 4)
        assert reason in refusal.stderr, refusal.stderr
        assert (not_sent if key else reason) in checked.stdout, checked.stdout
        assert not key or key not in str(checked) + str(refusal)
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


@pytest.mark.parametrize("generation", ["C", "D"])
def test_an_env_server_of_others_is_left_alone(box: Box, generation: Name) -> None:
    prime = prime_box(box, generation)
    port = free_port()
    name, address = 'name = "reverse-text"\n', f"tcp://127.0.0.1:{port}"
    external = f'{name}serve.address = "{address}"\n'
    prime.config.write_text(prime.config.read_text().replace(f"source]]\n{name}", f"source]]\n{external}", 1))
    refusal = box.run("up", *prime.files, *UP)
    fault = f"env-train-reverse-text at {address} does not answer (Connection refused): rollouts would hang"
    assert (refusal.returncode, fault in refusal.stderr) == (4, True), refusal.stderr
    assert box.run("up", *prime.files, *UP, "--plan", "--force").returncode == 0, "as somebody wishes"
    with socket.create_server(("127.0.0.1", port)):
        status = prime.up("prime-rl")
        assert "env-train-reverse-text" not in [component["id"] for component in status["components"]]
        (server,) = status["servers"]
        assert (server["url"], server["state"]) == (address, "ready")
        assert server["used_for"] == "runs rollouts of reverse-text"
        prime.wait_for_steps("trainer", 2)
        made = [path.name for path in (prime.output / ".rltui").rglob("envs/train/*")]
        assert made == [], "neither a config nor an address file"
    retry_until(lambda: events(box, "env-train-reverse-text (external) is down"), timeout_s=60)
    prime.assert_down_leaves_nothing()


def test_teachers_of_sources_are_served_one_by_one(box: Box) -> None:
    """In spring there was one for all."""
    prime = prime_box(box, "D")
    ports = free_port(), free_port()
    text, source = prime.config.read_text(), re.compile(r"(?s)\[\[orchestrator\.train\.source.*?\n\n")
    (first,) = source.findall(text)
    sources = []
    for name, port in zip(("math", "code"), ports, strict=True):
        algorithm = ALGORITHM.format(
            table="orchestrator.train.source.algo", url=f"http://localhost:{port}/v1"
        )
        sources.append(first.replace('name = "reverse-text"', f'name = "{name}"').rstrip() + algorithm)
    prime.config.write_text(text.replace(first, "\n".join([*sources, ""])))
    refusal = box.run("up", *prime.files, *UP)
    assert refusal.returncode == 4, refusal.stderr
    for name, port in zip(("math", "code"), ports, strict=True):
        assert f"teacher-{name} at http://localhost:{port}/v1 does not answer" in refusal.stderr
    prime.done("up", *prime.files, *UP, "--only", "teacher-math,teacher-code")
    prime.done("start", EXPERIMENT)
    prime.wait_for_steps("trainer", 2)
    prime.assert_down_leaves_nothing()


@pytest.mark.parametrize(("count", "gpu", "share"), [(3, 2, 0.9), (2, 1, 0.5), (1, None, None)])
def test_a_teacher_gets_a_gpu_that_the_run_leaves(
    box: Box, count: int, gpu: int | None, share: float | None
) -> None:
    lines = ["driver 580.95.05", f"count {count}"]
    for index in range(count):
        lines += [f"{index}.name NVIDIA GeForce RTX 4090", f"{index}.uuid GPU-{index}932f937"]
        lines += [f"{index}.total {24 << 30}", f"{index}.reserved 0", f"{index}.used 0"]
    box = with_gpus(box, "\n".join([*lines, ""]))
    prime = with_teacher(box, "C", free_port())
    plan = ("up", *prime.files, *UP, "--only", "teacher", "--plan")
    if gpu is None:
        refusal = box.run(*plan)
        assert (refusal.returncode, "no room for teacher" in refusal.stderr) == (4, True)
        text = prime.config.read_text()
        prime.config.write_text(text.replace("[inference]", "[inference]\nvllm.gpu_memory_utilization = 0.3"))
    (verdict,) = box.json(*plan)["memory"]
    assert (verdict["component"], verdict["device"]) == ("teacher", gpu or 0)
    assert verdict["utilization"] == (share or pytest.approx(0.29, abs=0.02)), "half, for the trainer's sake"
