from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.client import wire
from rltui.core import api
from rltui.errors import ConfigError, RltuiError


def test_both_ends_speak_the_same_protocol() -> None:
    assert wire.PROTOCOL_VERSION == api.PROTOCOL_VERSION


def serve(path: Path, lines: list[bytes]) -> threading.Thread:
    """Answer one client with fixed lines, whatever it says."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        connection, _ = listener.accept()
        with listener, connection:
            connection.sendall(b"".join(lines))
            connection.recv(4096)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rlt-") as folder:
        yield Path(folder) / "s.sock"


HELLO = b'{"hello":"rltui","protocol":1,"pid":7}\n'


def test_refusal_becomes_the_error_it_was(path: Path) -> None:
    error = {"exit_code": 3, "title": "bad", "details": ["why"], "hint": "mend"}
    thread = serve(path, [HELLO, json.dumps({"id": 1, "error": error}).encode() + b"\n"])
    with wire.Wire(path) as connection, pytest.raises(ConfigError, match="bad") as caught:
        connection.call("plan")
    thread.join()
    assert caught.value.hint == "mend"


def test_another_protocol_is_refused_with_advice(path: Path) -> None:
    thread = serve(path, [b'{"hello":"rltui","protocol":99,"pid":7}\n'])
    with pytest.raises(RltuiError, match="protocol 99") as caught:
        wire.Wire(path)
    assert "kill 7" in caught.value.hint
    thread.join()


def test_nobody_there(path: Path) -> None:
    with pytest.raises(wire.SupervisorGoneError):
        wire.Wire(path)


def test_supervisor_that_dies_while_asked(path: Path) -> None:
    thread = serve(path, [HELLO])
    with wire.Wire(path) as connection, pytest.raises(wire.SupervisorGoneError):
        connection.call("status")
    thread.join()


def test_wait_for_events_can_be_interrupted(path: Path) -> None:
    thread = serve(path, [HELLO, b'{"event":"status","data":{}}\n'])
    with wire.Wire(path) as connection:
        events = connection.events()
        assert next(events) == ("status", {})
        connection.interrupt()
        with pytest.raises(TimeoutError):
            next(events)
    thread.join()
