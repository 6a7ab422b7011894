"""Who listens on which port, with real sockets."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from tests.params import slow_but
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, listening_ports, port_holder, port_holders

__all__ = ["start"]  # a fixture, used by name


LISTEN = """
import os, signal, socket, sys
host, port, target = sys.argv[1:]
listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind((host, int(port)))
listener.listen()
with open(target + ".part", "w") as file:
    file.write(str(listener.getsockname()[1]))
os.rename(target + ".part", target)
signal.pause()
"""


def listen(start: Start, host: str, port: int, target: Path) -> tuple[ProcessId, int]:
    """A process that listens with SO_REUSEPORT, and its port."""
    argv = [sys.executable, "-I", "-S", "-c", LISTEN, host, str(port), str(target)]
    process = start(*argv)
    retry_until(target.exists, timeout_s=20)
    return process, int(target.read_text())


@pytest.mark.parametrize(
    ("bound", "asked", "busy"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "some-name", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "::1", False),
        ("::1", "::1", True),
        ("::1", "[::1]", True),
        ("::1", "localhost", True),
        ("::1", "127.0.0.1", False),
        ("::", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
    ],
)
def test_port_holder(bound: str, asked: str, busy: bool) -> None:
    listener = socket.socket(socket.AF_INET6 if ":" in bound else socket.AF_INET)
    try:
        listener.bind((bound, 0))
        listener.listen()
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        port = listener.getsockname()[1]
        holder = port_holder(port, asked)
        assert (holder is not None) == busy
        if holder is not None:
            assert holder.pid == os.getpid()
            assert holder.name
            assert holder.command.startswith(sys.executable)
    assert port_holder(port, asked) is None


def test_a_connection_is_no_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        port = client.getsockname()[1]
        assert port_holder(port) is None
        client.close()


def test_a_holder_of_another_user_has_no_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "scandir", refuse)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        holder = port_holder(listener.getsockname()[1])
        assert holder is not None
        assert (holder.pid, holder.name) == (None, "")


@pytest.mark.parametrize("host", slow_but(["127.0.0.1", "0.0.0.0", "::1", "::"], "::"))
def test_all_who_share_a_port_are_named(tmp_path: Path, start: Start, host: str) -> None:
    """As vLLM up to 0.21 starts silently beside another server and takes half of its requests."""
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6 here")
    first, port = listen(start, host, 0, tmp_path / "first")
    second, _ = listen(start, host, port, tmp_path / "second")
    holders = port_holders(port, host)
    assert [holder.process for holder in holders] == sorted([first, second])
    assert all("SO_REUSEPORT" in holder.command for holder in holders)
    assert port_holder(port, host) == holders[0]
    os.kill(holders[0].pid or 0, signal.SIGKILL)
    retry_until(lambda: [item.process for item in port_holders(port, host)] == [holders[1].process])


def test_a_process_with_two_listeners_is_named_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        with socket.create_server(("127.0.0.2", port)):
            assert [holder.pid for holder in port_holders(port, "0.0.0.0")] == [os.getpid()]


def test_listening_ports_of_several_processes(tmp_path: Path, start: Start) -> None:
    listening, port = listen(start, "127.0.0.1", 0, tmp_path / "first")
    silent = start("sleep", "1000")
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
        socket.create_connection(one.getsockname()),
    ):
        own = tuple(sorted(server.getsockname()[1] for server in (one, two)))
        asked = {listening.pid, silent.pid, os.getpid(), 2**22 + 1}
        ports = listening_ports(asked)
    assert ports.keys() == asked
    assert (ports[listening.pid], ports[silent.pid], ports[2**22 + 1]) == ((port,), (), ())
    assert set(own) <= set(ports[os.getpid()])
    assert listening_ports([]) == {}


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
