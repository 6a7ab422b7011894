"""The server on a real socket, with a supervisor that only answers."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rltui.base.protocol import PROTOCOL_VERSION
from rltui.core.experiment.api import Status
from rltui.core.experiment.journal import JournalEntry
from rltui.core.gpu.report import GpuReport
from rltui.services.actor import user_name
from rltui.services.gpu.sampling import GpuReadings
from rltui.supervisor import api_server
from rltui.supervisor.agents import AgentsAtWork
from rltui.supervisor.api_server import ApiServer
from rltui.supervisor.events import Broadcast, Message
from rltui.supervisor.supervisor import Supervisor

BIG = "x" * (1 << 20)
"""More than a socket and asyncio take in together."""


async def _allow(*_: object) -> None:
    """Whoever asks has the right to it."""


class FakeSupervisor:
    """The methods of a supervisor that the server calls."""

    def __init__(self) -> None:
        readings = GpuReadings()
        readings.take(GpuReport(available=False))
        self.events = SimpleNamespace(broadcast=Broadcast())
        observation = SimpleNamespace(progress=SimpleNamespace(poll=lambda: None))
        self.runtime = SimpleNamespace(gpu_readings=readings, events=self.events, observation=observation)
        self.commands = SimpleNamespace(rights=SimpleNamespace(check=_allow))
        self.downs: list[tuple[str, bool]] = []
        self.down = asyncio.Event()
        self.title = ""
        self.agents = AgentsAtWork()

    def status(self) -> Status:
        return Status(experiment="x", state="stopped", framework="f", output_dir="/o", title=self.title)

    async def shut_down(self, by: str, *, only_idle: bool = False) -> None:
        self.downs.append((by, only_idle))
        await self.down.wait()

    def current_state(self) -> list[Message]:
        return [("status", self.status().to_json())]

    def publish(self, text: str) -> None:
        entry = JournalEntry(at=0.0, kind="note", text=text)
        self.events.broadcast.publish("journal", lambda: entry.to_json())


class Client:
    """A client that says and reads just what a test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, method: str, **params: object) -> None:
        self.writer.write(json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n")

    async def hear(self) -> Any:
        async with asyncio.timeout(10):
            line = await self.reader.readline()
        return json.loads(line) if line else None

    async def ask(self, method: str, **params: object) -> Any:
        self.say(method, **params)
        return await self.hear()


class Place:
    """A server and its clients."""

    def __init__(self, folder: Path) -> None:
        self.supervisor = FakeSupervisor()
        self.path = folder / "x.sock"
        self.server = ApiServer(cast(Supervisor, self.supervisor), lambda: self.path)
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        """Connected, and nothing read yet."""
        client = Client(*await asyncio.open_unix_connection(self.path, limit=8 << 20))
        self.clients.append(client)
        return client

    async def greet(self) -> Client:
        client = await self.connect()
        assert (await client.hear())["protocol"] == PROTOCOL_VERSION
        return client


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(prefix="rlt-") as folder:
        fake = Place(Path(folder))
        await fake.server.open()
        yield fake
        for client in fake.clients:
            client.writer.close()
        await fake.server.close()


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():  # noqa: ASYNC110  (the server has no event for what tests wait for)
            await asyncio.sleep(0.01)


async def test_a_client_is_who_it_says_unless_its_process_says_otherwise(place: Place) -> None:
    place.supervisor.down.set()
    client = await place.greet()
    await client.ask("shutdown", by="of an earlier version")
    night = {"kind": "agent", "user": "root", "name": "night 1", "pid": 1, "terminal": "", "ssh": ""}
    assert "result" in await client.ask("identify", **night)
    await client.ask("shutdown")
    me, pid = user_name(), os.getpid()
    assert [by for by, _ in place.supervisor.downs] == [
        f"{me}, pid {pid}",
        f"agent night-1 ({me}, pid {pid})",
    ]
    assert place.supervisor.agents.names == ("night-1",)
    assert "user" in (await client.ask("identify", kind="cli"))["error"]["title"]


async def test_a_raw_client_of_an_agent_is_the_agents(place: Place) -> None:
    place.supervisor.down.set()
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile();"
        """f.readline(); s.sendall(b'{"id":1,"method":"shutdown"}\\n'); f.readline()"""
    )
    process = await asyncio.create_subprocess_exec(
        "env", "-u", "RLTUI_AGENT", sys.executable, "-c", code, place.path,
        env={**os.environ, "AI_AGENT": "night-1"},
    )  # fmt: skip
    await process.wait()
    assert place.supervisor.downs[0][0] == f"agent night-1 ({user_name()}, pid {process.pid})"


async def test_socket_is_only_the_users(place: Place) -> None:
    mode = place.path.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


ASK_AS = """\
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(5)
    client.connect(sys.argv[1])
    sys.stdout.write(repr(client.recv(100)))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
async def test_another_user_is_hung_up_on(place: Place) -> None:
    """The modes would stop them before: here they are opened on purpose."""
    place.path.parent.chmod(0o711)
    place.path.chmod(0o666)
    run = asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", ASK_AS, str(place.path)], capture_output=True, text=True
    )
    output = await run
    assert (output.stdout, output.stderr) == ("b''", "")
    assert "result" in await (await place.greet()).ask("status")


async def test_too_many_clients_are_refused_in_words(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "MAX_CLIENTS", 3)
    clients = [await place.greet() for _ in range(3)]
    for client in clients:
        client.say("subscribe")
        assert (await client.hear())["event"] == "status"
    surplus = await place.connect()
    assert "already has 3 clients" in (await surplus.hear())["error"]["title"]
    assert await surplus.hear() is None
    clients[0].writer.close()
    await until(lambda: len(place.server._connections) == 2)
    assert "result" in await (await place.greet()).ask("status")


async def test_idle_clients_lock_nobody_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding H22: 256 idle connections, and `down` was refused."""
    monkeypatch.setattr(api_server, "MAX_CLIENTS", 3)
    subscriber, oldest, newer = [await place.greet() for _ in range(3)]
    subscriber.say("subscribe")
    assert (await subscriber.hear())["event"] == "status"
    assert "result" in await newer.ask("status")
    assert "result" in await (await place.greet()).ask("status")
    assert await oldest.hear() is None
    assert "result" in await newer.ask("status")


async def test_all_who_ask_for_the_end_are_answered_and_subscribers_hear_the_last(place: Place) -> None:
    """Finding H22: of three `down` at once, two said that the supervisor died."""
    asking = [await place.greet() for _ in range(3)]
    subscriber, idle = await place.greet(), await place.greet()
    subscriber.say("subscribe")
    assert (await subscriber.hear())["event"] == "status"
    for number, client in enumerate(asking):
        me = {"kind": "cli", "user": "", "pid": 0, "name": f"client {number}\x1b"}
        assert "result" in await client.ask("identify", **me)
        client.say("shutdown", only_idle=number == 2)
    await until(lambda: len(place.supervisor.downs) == 3)
    downs = [(by.partition(" ")[0], only_idle) for by, only_idle in place.supervisor.downs]
    assert downs == [("client-0-", False), ("client-1-", False), ("client-2-", True)]
    place.supervisor.publish("the last")
    place.supervisor.down.set()
    await place.server.close()
    for client in asking:
        assert (await client.hear())["result"]["experiment"] == "x"
    assert (await subscriber.hear())["data"]["text"] == "the last"
    for client in (*asking, subscriber, idle):
        assert await client.hear() is None


async def test_subscriber_gets_the_state_and_then_changes(place: Place) -> None:
    client = await place.greet()
    client.say("subscribe")
    assert (await client.hear())["event"] == "status"
    place.supervisor.publish("hello")
    assert (await client.hear())["data"]["text"] == "hello"
    assert "already" in (await client.ask("subscribe"))["error"]["title"]
    assert len(place.supervisor.events.broadcast) == 1
    client.writer.close()
    await until(lambda: len(place.supervisor.events.broadcast) == 0)


async def test_subscriber_that_does_not_read_is_dropped_and_others_are_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "SEND_TIMEOUT_S", 0.3)
    broadcast = place.supervisor.events.broadcast
    slow, quick = await place.greet(), await place.greet()
    for client in (slow, quick):
        client.say("subscribe")
    await until(lambda: len(broadcast) == 2)
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    assert (await quick.hear())["event"] == "status"
    for number in range(40):
        place.supervisor.publish(f"{number} {BIG}")
        assert (await quick.hear())["data"]["text"].startswith(f"{number} ")
    await until(lambda: len(broadcast) == 1)
    place.supervisor.publish("last")
    assert (await quick.hear())["data"]["text"] == "last"
    assert len(place.server._connections) == 1


async def test_slow_reader_that_does_read_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "SEND_TIMEOUT_S", 0.3)
    client = await place.greet()
    client.say("subscribe")
    assert (await client.hear())["event"] == "status"
    transport = client.writer.transport
    transport.pause_reading()  # type: ignore[attr-defined]
    place.supervisor.publish(BIG * 4)
    for _ in range(6):  # 0.9 s in all: three times the patience
        await asyncio.sleep(0.15)
        transport.resume_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        transport.pause_reading()  # type: ignore[attr-defined]
    transport.resume_reading()  # type: ignore[attr-defined]
    assert len((await client.hear())["data"]["text"]) == 4 * len(BIG)


async def test_client_that_does_not_read_its_answers_holds_up_nobody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "SEND_TIMEOUT_S", 0.5)
    place.supervisor.title = BIG
    slow, quick = await place.greet(), await place.greet()
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(50):
        slow.say("status")
    async with asyncio.timeout(0.4):
        for _ in range(20):
            assert "result" in await quick.ask("gpus")
    await until(lambda: len(place.server._connections) == 1)
    assert "result" in await quick.ask("gpus")


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'"text"',
        DEEP,
        b'{"id":1,"method":"status","params":%b}' % DEEP,
        b'{"id":NaN,"method":"status"}',
        b'{"id":1e999,"method":"status"}',
        b'{"id":{"a":1},"method":"status"}',
        b'{"id":1,"method":"status","params":[1]}',
        b'{"id":1,"method":"plan","params":{"action":"start","components":"trainer"}}',
        b'{"id":1,"method":"plan","params":{"action":"set","edits":{"a\\u0000":1}}}',
        b'{"id":1,"method":"plan","params":{"action":"set","edits":{"a":"\\ud800"}}}',
        b'{"id":1,"method":"convert","params":{"to":"coins"}}',
        b'{"id":1,"method":"convert","params":{"mean_tokens":NaN}}',
        b'{"id":1,"method":"convert","params":{"mean_tokens":true}}',
        b'{"id":1,"method":"shutdown","params":{"only_idle":"yes"}}',
        b'{"id":1,"method":"note","params":{"text":7}}',
        b'{"id":1,"method":"%b"}' % (b"x" * 10_000),
    ],
    ids=range(17),
)
async def test_a_malformed_request_is_refused_in_words(
    place: Place, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Finding H10: such a request was an error with a traceback in the log."""
    client = await place.greet()
    client.writer.write(line + b"\n")
    reply = await client.hear()
    assert reply["error"]["exit_code"] == 2
    assert len(reply["error"]["title"]) < 300
    assert reply["id"] in (1, None)
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert "result" in await client.ask("status"), "the connection goes on"
    assert not place.supervisor.downs
