from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import ready_process

from rltui.client.transports.unix import SupervisorGoneError, Wire
from rltui.errors import ConfigError, RltuiError, UsageError


@contextmanager
def answering(path: Path, *lines: bytes) -> Iterator[None]:
    """A supervisor that answers one client with fixed lines, whatever it says."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        connection, _ = listener.accept()
        with listener, connection, connection.makefile("rb") as requests:
            connection.sendall(b"".join(lines))
            while b'"identify"' in requests.readline():
                continue

    thread = threading.Thread(target=answer)
    thread.start()
    yield
    thread.join()


def refusal(exit_code: int, title: str, **fields: object) -> bytes:
    error = {"exit_code": exit_code, "title": title, "details": [], "hint": "mend"}
    return json.dumps({**fields, "error": error}).encode() + b"\n"


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rlt-") as folder:
        yield Path(folder) / "s.sock"


HELLO = b'{"hello":"rltui","protocol":1,"pid":7}\n'


def test_refusal_becomes_the_error_it_was(path: Path) -> None:
    with (
        answering(path, HELLO, refusal(3, "bad", id=1)),
        Wire(path) as connection,
        pytest.raises(ConfigError, match="bad") as caught,
    ):
        connection.call("plan")
    assert caught.value.hint == "mend"


def test_another_protocol_is_refused_with_advice(path: Path) -> None:
    hello = b'{"hello":"rltui","protocol":99,"pid":7}\n'
    with answering(path, hello), pytest.raises(RltuiError, match="protocol 99") as caught:
        Wire(path)
    assert "kill 7" in caught.value.hint


def test_nobody_there_or_not_any_more(path: Path) -> None:
    with pytest.raises(SupervisorGoneError):
        Wire(path)
    with answering(path, HELLO), Wire(path) as connection, pytest.raises(SupervisorGoneError):
        connection.call("status")


def test_refusal_in_place_of_hello_is_told(path: Path) -> None:
    full = refusal(1, "256 clients already")
    with answering(path, full), pytest.raises(RltuiError, match="256 clients") as caught:
        Wire(path)
    assert not isinstance(caught.value, SupervisorGoneError)


def test_refusal_is_read_though_the_request_could_not_be_sent(path: Path) -> None:
    """As with a request that is too long: the supervisor says so and hangs up without reading on."""
    with (
        answering(path, HELLO, refusal(2, "too long", id=None)),
        Wire(path) as connection,
        pytest.raises(UsageError, match="too long"),
    ):
        connection.call("plan", {"action": "x" * (4 << 20)})


def test_silent_supervisor_is_named(path: Path) -> None:
    """It is stopped, as by ctrl-z or a debugger: the kernel still takes the connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(RltuiError, match=f"pid {os.getpid()}, does not respond") as caught:
            Wire(path, timeout_s=0.1)
    assert f"kill -CONT {os.getpid()}" in caught.value.hint


def test_answer_that_does_not_come_in_time(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        accepted: list[socket.socket] = []

        def greet() -> None:
            accepted.append(listener.accept()[0])
            accepted[0].sendall(HELLO)

        thread = threading.Thread(target=greet)
        thread.start()
        with Wire(path) as connection:
            thread.join()
            with accepted[0], pytest.raises(RltuiError, match="did not answer 'status'"):
                connection.call("status", timeout_s=0.1)


def test_wait_for_events_can_be_interrupted(path: Path) -> None:
    other = b'{"event":"journal","data":{"at":1}}\n'
    with answering(path, HELLO, other + b'{"event":"status","data":{}}\n'), Wire(path) as connection:
        events = connection.events("status")
        assert next(events) == {}
        connection.interrupt()
        with pytest.raises(TimeoutError):
            next(events)


SLOW_TO_EXIT = f"""
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
connection, _ = listener.accept()
connection.sendall({HELLO!r})
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def exiting(path: Path, after_s: float) -> Iterator[subprocess.Popen[str]]:
    """A supervisor that greets one client, and neither hangs up nor exits for so long."""
    command = [sys.executable, "-ISc", SLOW_TO_EXIT, str(path), str(after_s)]
    with ready_process(command, "listening") as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_end_is_the_end_of_the_process(path: Path) -> None:
    """On a busy machine `down` ended while the supervisor was exiting, after 5 s without a word of it."""
    with exiting(path, after_s=0.5) as process, Wire(path, timeout_s=0.2) as connection:
        connection.wait_for_end()
        assert process.poll() == 0


def test_a_supervisor_that_does_not_exit_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltui.client.transports.unix.END_TIMEOUT_S", 0.1)
    with (
        exiting(path, after_s=60) as process,
        Wire(path) as connection,
        pytest.raises(RltuiError, match=f"pid {process.pid}, does not exit") as caught,
    ):
        connection.wait_for_end()
    assert caught.value.hint == f"to end it: kill -9 {process.pid}"


OUTDATED = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
connection, _ = listener.accept()
connection.sendall(sys.argv[2].encode())
while True:
    connection.recv(4096)
"""


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_an_outdated_supervisor_is_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch, has_pidfd: bool
) -> None:
    hello = '{"hello":"rltui","protocol":1,"pid":7,"outdated":true}\n'
    command = [sys.executable, "-ISc", OUTDATED, str(path), hello]
    with ready_process(command, "listening") as process:
        if not has_pidfd:
            monkeypatch.setattr(os, "pidfd_open", lambda _: (_ for _ in ()).throw(OSError("no pidfd")))
        with Wire(path) as connection:
            assert connection.is_outdated
            assert connection.end_supervisor()
        assert process.wait(timeout=5) == -signal.SIGTERM


def test_a_supervisor_of_another_pid_namespace_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pid reads as 0 here, which is our own process group for `kill`."""
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("signalled"))
    with answering(path, HELLO), Wire(path) as connection:
        assert connection.is_outdated, "an earlier version does not say so"
        monkeypatch.setattr(connection, "server_pid", lambda: 0)
        assert not connection.end_supervisor()
