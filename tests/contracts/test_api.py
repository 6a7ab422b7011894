"""The supervisor's socket, spoken to in bytes: what a client of another version may count on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import COUNTER, LAYOUT, SERVICE, Box, temporary_box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.xdist_group("contracts-api")]

STATUS = {"experiment", "state", "step", "max_steps", "components"}
COMPONENT = {"id", "state", "pid", "attempt", "reason"}
PLAN = {"stop", "start", "keep"}


class Client:
    """One connection, of lines of JSON."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20.0)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")
        self.hello = self.read()

    def read(self) -> Any:
        """The next line."""
        return json.loads(self._lines.readline())

    def send(self, line: bytes) -> Any:
        """A line as it is, and the answer."""
        self._socket.sendall(line + b"\n")
        return self.read()

    def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request."""
        return self.send(json.dumps({"id": 7, "method": method, "params": params}).encode())

    def result(self, method: str, **params: Any) -> Any:
        """Of a request that is carried out."""
        answer = self.ask(method, **params)
        assert answer["id"] == 7
        assert "error" not in answer, answer
        return answer["result"]

    def refusal(self, method: str, **params: Any) -> Any:
        """Of a request that is not."""
        answer = self.ask(method, **params)
        assert answer["id"] == 7
        assert {"title", "details", "hint", "exit_code"} <= answer["error"].keys()
        return answer["error"]

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()


@pytest.fixture(scope="module")
def living() -> Iterator[Box]:
    """An experiment of three small programs."""
    with temporary_box() as box:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (box.work / "service.py").write_text(SERVICE)
        (box.work / "counter.py").write_text(COUNTER)
        (box.work / "counters.toml").write_text(LAYOUT.replace("PORT", str(port)))
        (box.work / "run.toml").write_text('max_steps = 20\nname = "counters"\n')
        box.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
        yield box


@contextmanager
def connected(box: Box) -> Iterator[Client]:
    (path,) = (box.root / "run/rltui").glob("one-*.sock")
    client = Client(path)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def client(living: Box) -> Iterator[Client]:
    with connected(living) as made:
        yield made


def test_the_first_line_says_who_speaks(client: Client) -> None:
    assert (client.hello["hello"], client.hello["protocol"]) == ("rltui", 1)
    assert isinstance(client.hello["pid"], int)


def test_status(client: Client) -> None:
    status = client.result("status")
    assert status.keys() >= STATUS
    assert {each["id"]: each["state"] for each in status["components"]} == {
        "inference": "ready",
        "orchestrator": "ready",
        "trainer": "ready",
    }
    assert all(each.keys() >= COMPONENT for each in status["components"])


@pytest.mark.parametrize(
    ("method", "keys"),
    [
        ("knobs", {"knobs"}),
        ("gpus", {"devices", "sampled_at"}),
        ("gpu_history", {"histories"}),
        ("checkpoints", {"checkpoints"}),
        ("plan_prune", {"delete", "keep", "frees_bytes"}),
        ("evals", {"evaluations", "queue", "every"}),
    ],
)
def test_what_can_be_looked_at(client: Client, method: str, keys: set[str]) -> None:
    assert keys <= client.result(method).keys()


def test_what_a_later_version_may_ask_besides_is_left_out(client: Client) -> None:
    assert client.result("plan", action="restart", components=["trainer"], colour="red")["stop"] == [
        "trainer"
    ]


def test_a_plan_does_nothing(client: Client) -> None:
    before = client.result("status")["components"]
    plan = client.result("plan", action="restart", components=["trainer"])
    assert {name: plan[name] for name in PLAN} == {
        "stop": ["trainer"],
        "start": ["trainer"],
        "keep": ["inference", "orchestrator"],
    }
    assert [each["pid"] for each in client.result("status")["components"]] == [each["pid"] for each in before]


def test_a_plan_is_begun_and_goes_on(client: Client) -> None:
    before = {each["id"]: each["pid"] for each in client.result("status")["components"]}
    plan = client.result("execute", action="restart", components=["trainer"], by="a contract")
    assert plan["start"] == ["trainer"]

    def now() -> dict[str, Any]:
        return {each["id"]: each for each in client.result("status")["components"]}

    retry_until(lambda: now()["trainer"]["attempt"] == 2 and now()["trainer"]["state"] == "ready")
    assert now()["inference"]["pid"] == before["inference"]
    assert now()["trainer"]["pid"] != before["trainer"]


def test_a_note_is_an_entry_of_the_journal(client: Client) -> None:
    entry = client.result("note", text="kept")
    assert (entry["kind"], entry["text"]) == ("note", "kept")


def test_changes_arrive_once_they_are_asked_for(living: Box, client: Client) -> None:
    first = client.ask("subscribe")
    assert {"event", "data"} == first.keys()
    with connected(living) as other:
        other.result("note", text="seen by the other")
    kinds = []
    while "seen by the other" not in json.dumps(message := client.read()):
        kinds.append(message["event"])
    assert message["event"] == "journal"
    assert "status" in [first["event"], *kinds]


def test_who_only_looks_changes_nothing(client: Client) -> None:
    client.result("readonly")
    assert client.result("status")["experiment"] == "one"
    assert "read-only" in client.refusal("note", text="no")["title"]
    assert "read-only" in client.refusal("execute", action="stop", components=["trainer"])["title"]


def test_what_it_cannot_do_is_refused_in_words(client: Client) -> None:
    assert "nosuch" in client.refusal("nosuch")["title"]
    assert "nosuch" in client.refusal("plan", action="restart", components=["nosuch"])["title"]
    assert client.refusal("note")["exit_code"] == 2


@pytest.mark.parametrize(
    "line",
    [b"hello", b"[1]", b'{"id": 7}', b'{"id": 7, "method": 3}', b"\xff\xfe", b"{" * 5000],
    ids=["text", "list", "no method", "number", "bytes", "deep"],
)
def test_what_is_no_request_is_answered_and_the_connection_goes_on(client: Client, line: bytes) -> None:
    assert client.send(line)["error"]["exit_code"] == 2
    assert client.result("status")["experiment"] == "one"


def test_a_request_of_a_mebibyte_ends_the_connection_in_words(client: Client) -> None:
    assert "bytes" in client.send(b'{"id": 7, "method": "' + b"a" * (1 << 20) + b'"}')["error"]["title"]
    assert client._lines.readline() == b""
