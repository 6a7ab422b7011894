"""Inference servers that somebody else runs, asked for real: keys, TLS, what they serve, their end."""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fakes.http_server import TLS, Handler, serving

from rltui.core.experiment.api import Alert, Plan
from rltui.core.experiment.servers import ServerAddress
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.inputs import ConfigFile
from rltui.frameworks.servers import ServersSide
from rltui.services.experiment.files import ExperimentRecord
from rltui.supervisor.servers import Servers

DATA = Path(__file__).parents[1] / "data"
METRICS = (DATA / "vllm-0.32-metrics.txt").read_bytes()
KEY = "sk-hush"
PLAN = Plan(action="start", start=("trainer",))


class Api(Handler):
    """Answers like vLLM with prime-rl's routes, to clients that have the key."""

    def respond(self) -> None:
        if self.path == "/v1/models" and self.headers["Authorization"] != f"Bearer {KEY}":
            return self.answer(401)
        models = json.dumps({"data": [{"id": "tiny"}, {"id": "adapter"}]}).encode()
        body = {"/v1/models": models, "/metrics": METRICS}.get(self.path)
        if body is None:
            return self.answer(405 if self.path == "/update_weights" else 404)
        return self.answer(200, body)


@pytest.fixture
def api() -> Iterator[ThreadingHTTPServer]:
    with serving(Api) as server:
        yield server


class Box:
    """A run with one server at `address`, whose stand-ins collect alerts and journal entries."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        expected: Collection[str] = (),
        are_jobs_here: bool = True,
        forced: bool = False,
    ) -> None:
        self.alerts: list[Alert] = []
        self.journal: list[str] = []
        self.metrics: list[str] = []
        external = () if address.needed_for else ("inference",)
        record = ExperimentRecord(
            "one", "/none", "/", (), "/l", "generic", 1.0, external=external, forced=forced
        )
        side = (
            ServersSide(further=lambda files: () if files else (address,))
            if address.needed_for
            else ServersSide(addresses=lambda files: (address,))
        )
        setup = SimpleNamespace(
            record=record,
            framework=replace(GENERIC, servers=side),
            run_jobs=frozenset({"trainer"}),
            components=["trainer"],
            parts=frozenset({"trainer", "teacher"}),
            are_jobs_here=are_jobs_here,
        )
        observation = SimpleNamespace(
            sampler=SimpleNamespace(engine=lambda name, text: self.metrics.append(name)),
            set_activity=lambda name, activity: None,
        )
        events = SimpleNamespace(
            alert=self.alerts.append,
            changed=lambda kind: None,
            journal=SimpleNamespace(add=lambda kind, text, **data: self.journal.append(text)),
        )
        config = SimpleNamespace(document=SimpleNamespace(files={}))
        parts = (cast(Any, part) for part in (setup, config, observation, events))
        self.servers = Servers(*parts, is_in_use=lambda: True, is_expected=expected.__contains__)

    @property
    def everything(self) -> str:
        """All texts that a person would get."""
        status = "".join(server.to_json().decode() for server in self.servers.status())
        return status + repr((self.alerts, self.journal, self.servers.problems(PLAN, {}, is_anew=True)))


def address(api: ThreadingHTTPServer, scheme: str = "http", model: str = "tiny") -> ServerAddress:
    url = f"{scheme}://localhost:{api.server_address[1]}/v1"
    return ServerAddress(url, key_variable="ONE_KEY", model=model)


async def test_a_start_waits_for_the_key_and_the_model(
    api: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONE_KEY", raising=False)
    box = Box(address(api))
    for reason, key in (
        ("requires an API key: set ONE_KEY", ""),
        ("rejects the key in ONE_KEY", "sk-wrong"),
    ):
        monkeypatch.setenv("ONE_KEY", key)
        await box.servers.refresh()
        (problem,) = box.servers.problems(PLAN, {}, is_anew=True)
        assert (problem.severity, problem.key) == ("error", "server")
        assert reason in problem.message
        blocker = box.servers.start_blocker("trainer")
        assert blocker is not None
        assert not blocker[0], "it cannot come"
    monkeypatch.setenv("ONE_KEY", KEY)
    await box.servers.refresh()
    (status,) = box.servers.status()
    assert (status.state, status.models, status.key_is_set) == ("ready", ("tiny", "adapter"), True)
    assert status.facts == ("KV 0 %", "0 run 0 wait")
    assert box.metrics == ["inference"]
    assert box.servers.problems(PLAN, {}, is_anew=True) == ()
    assert box.servers.start_blocker("trainer") is None
    assert box.servers.problems(Plan(action="start", start=("sft",)), {}, is_anew=True) == ()
    assert KEY not in box.everything
    assert "sk-wrong" not in box.everything

    other = Box(address(api, model="large"))
    await other.servers.refresh()
    assert "the server has tiny, adapter, but the config asks for large" in other.everything


async def test_its_end_is_told_once_it_missed_several_questions(
    api: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE_KEY", KEY)
    box = Box(address(api))
    await box.servers.refresh()
    api.shutdown()
    api.socket.close()
    for state in ("ready", "ready", "down"):
        await box.servers.poll()
        assert box.servers.status()[0].state == state
    (alert,) = box.alerts
    assert alert.title == "inference (external) is down"
    assert "Connection refused" in alert.text
    blocker = box.servers.start_blocker("trainer")
    assert blocker is not None
    assert blocker[0], "it may come back"
    (problem,) = box.servers.problems(PLAN, {}, is_anew=True)
    assert problem.severity == "warning"


@pytest.mark.parametrize(("trusted", "state"), [(TLS, "ready"), (Path("/dev/null"), "down")])
async def test_tls_is_spoken_and_the_certificate_checked(
    monkeypatch: pytest.MonkeyPatch, trusted: Path, state: str
) -> None:
    """Finding B9: servers with TLS could not be asked."""
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setenv("ONE_KEY", KEY)
    with serving(Api, tls=True) as api:
        box = Box(address(api, "https"))
        await box.servers.refresh()
    (status,) = box.servers.status()
    assert status.state == state
    assert status.reason is None or "certificate verify failed" in status.reason


# --- frozen models, env servers ---------------------------------------------------------------------------


def teacher(url: str, model: str = "tiny", **more: Any) -> ServerAddress:
    values = {
        "id": "teacher",
        "key": "algo.teacher.base_url",
        "needed_for": "rollouts",
        "used_for": "scores rollouts",
    }
    return ServerAddress(
        url, key_variable="ONE_KEY", model=model, **{**values, "component": "teacher", **more}
    )


def gone() -> str:
    """An address of this machine at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"localhost:{listener.getsockname()[1]}"


async def test_a_run_is_refused_without_its_teacher(
    api: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE_KEY", KEY)
    url = f"http://localhost:{api.server_address[1]}/v1"
    box = Box(teacher(url))
    await box.servers.refresh()
    (status,) = box.servers.status()
    assert (status.id, status.state, status.used_for) == ("teacher", "ready", "scores rollouts")
    assert not box.metrics, "only its models are asked for"
    assert box.servers.problems(PLAN, {}, is_anew=True) == ()

    for address, fault, command in (
        (teacher(f"http://{gone()}/v1"), "does not answer (Connection refused): rollouts would hang", True),
        (teacher(f"http://{gone()}/v1", component=""), "does not answer (Connection refused)", False),
        (teacher(url, "large"), "the server has tiny, adapter, but the config asks for large", False),
    ):
        box = Box(address)
        await box.servers.refresh()
        (problem,) = box.servers.problems(PLAN, {}, is_anew=True)
        assert (problem.is_error, problem.key) == (True, "server")
        assert problem.message.startswith(f"teacher at {address.url}")
        assert fault in problem.message
        assert problem.message.endswith("; to serve it here: rltui start -c teacher") == command
        (first,) = box.servers.problems(PLAN, {}, is_anew=True, is_first=True)
        assert ("rltui up … --only teacher, then rltui start one" in first.message) == command
        assert box.servers.start_blocker("trainer") is not None
        assert box.servers.problems(Plan(action="start", start=("teacher",)), {}, is_anew=True) == ()
        edit = {"rl": ConfigFile("rl", "/rl.toml", {})}
        assert box.servers.problems(PLAN, edit, is_anew=True) == (), "it names another"
        if command:
            both = Plan(action="start", start=("teacher", "trainer"))
            assert box.servers.problems(both, {}, is_anew=True) == (), "it comes first"
    monkeypatch.setenv("ONE_KEY", "sk-wrong")
    for address, problems in ((teacher(url), 1), (teacher(url, is_open=False), 0)):
        box = Box(address)
        await box.servers.refresh()
        found = box.servers.problems(PLAN, {}, is_anew=True)
        assert len(found) == problems, "what it gets besides is not known here"
        assert all("rejects the key in ONE_KEY" in problem.message for problem in found)
        assert "sk-wrong" not in box.everything


async def test_who_forces_a_start_is_warned() -> None:
    box = Box(teacher(f"http://{gone()}/v1"), forced=True)
    await box.servers.refresh()
    (problem,) = box.servers.problems(PLAN, {}, is_anew=True)
    assert problem.severity == "warning"
    assert box.servers.start_blocker("trainer") is None


async def test_a_teacher_of_its_own_is_shown_as_a_component() -> None:
    box = Box(teacher(f"http://{gone()}/v1"), expected={"teacher"})
    await box.servers.refresh()
    assert box.servers.status() == ()
    assert box.servers.problems(PLAN, {}, is_anew=True) == ()
    blocker = box.servers.start_blocker("trainer")
    assert blocker is not None
    assert blocker[0], "the trainer waits until it answers"


async def test_an_address_of_this_machine_means_another_where_the_jobs_run_elsewhere() -> None:
    box = Box(teacher(f"http://{gone()}/v1"), are_jobs_here=False)
    await box.servers.refresh()
    (status,) = box.servers.status()
    assert status.state == "unknown"
    assert box.servers.problems(PLAN, {}, is_anew=True) == ()
    assert box.servers.start_blocker("trainer") is None

    box = Box(teacher("http://gpu.invalid:8001/v1"), are_jobs_here=False)
    await box.servers.refresh()
    (problem,) = box.servers.problems(PLAN, {}, is_anew=True)
    assert problem.severity == "warning", "that machine may reach it"
    assert box.servers.start_blocker("trainer") is None


@pytest.mark.usefixtures("own_user")  # in which no other run makes the command name this one
async def test_the_end_of_a_teacher_is_told_and_its_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_KEY", KEY)
    with serving(Api) as api:
        port = api.server_address[1]
        box = Box(teacher(f"http://localhost:{port}/v1"))
        await box.servers.refresh()
        assert box.servers.bottleneck("orchestrator") is None
    for _ in range(3):
        await box.servers.poll()
    (alert,) = box.alerts
    assert alert.title == "teacher (external) is down"
    assert "rollouts that need it hang; to serve it here: rltui start -c teacher" in alert.text
    waits = box.servers.bottleneck("orchestrator")
    assert waits is not None
    assert (waits.waits, waits.waits_for) == ("orchestrator", "teacher")
    with serving(Api, port=port):
        await box.servers.poll()
    assert [alert.title for alert in box.alerts[1:]] == ["teacher answers again"]
    assert box.servers.bottleneck("orchestrator") is None
    assert KEY not in box.everything


async def test_an_env_server_is_up_once_it_accepts_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"tcp://localhost:{listener.getsockname()[1]}"
        box = Box(teacher(url, id="env-eval-b", needed_for="evals", component=""))
        await box.servers.refresh()
        assert box.servers.status()[0].state == "ready"
    box = Box(teacher(url, id="env-eval-b", needed_for="evals", component=""))
    await box.servers.refresh()
    (problem,) = box.servers.problems(PLAN, {}, is_anew=True)
    assert problem.message == f"env-eval-b at {url} does not answer (Connection refused): evals would hang"
