"""Ports of another machine that are reached through ports of this one."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.sshd import Sshd, needs_sshd
from tests.waiting import retry_until

from rltui.client.transports.forwards import Forwards
from rltui.client.transports.remote_machine import RemoteMachine
from rltui.errors import RltuiError


@pytest.fixture
def page() -> Iterator[int]:
    """The port of a server of the other machine, which is this one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@needs_sshd
@pytest.mark.slow
def test_a_port_is_there_until_nobody_looks_any_more(tmp_path: Path, page: int) -> None:
    """Also through a connection that others share, which outlives ours."""
    sshd = Sshd(tmp_path / "ssh", "gpubox")
    control = ["-o", f"ControlPath={tmp_path}/control"]
    first, *rest = sshd.reach
    shared = subprocess.Popen([first, "-M", "-N", *control, *rest])
    try:
        retry_until((tmp_path / "control").exists)
        for command in (sshd.reach, [first, *control, *rest]):
            forwards = Forwards(RemoteMachine("gpubox", tuple(command)))
            port = forwards.port(page)
            assert port != page, "it is taken: both machines are this one"
            assert is_open(port)
            assert forwards.port(page) == port
            forwards.close()
            assert not is_open(port)
        sshd.close()
        with pytest.raises(RltuiError, match=f"port {page} of gpubox cannot be reached") as raised:
            Forwards(RemoteMachine("gpubox", tuple(sshd.reach))).port(page)
        assert f":localhost:{page} gpubox` runs here" in raised.value.hint
    finally:
        shared.terminate()
        shared.wait()
        sshd.close()


def test_of_a_machine_that_is_reached_in_another_way_it_is_said_what_to_do(page: int) -> None:
    with pytest.raises(RltuiError, match=f"port {page} of pod cannot be reached from here") as raised:
        Forwards(RemoteMachine("pod", ("kubectl", "exec", "pod", "--", "sh", "-c"))).port(page)
    assert raised.value.hint.endswith(f"once it leads to port {page} of pod")


def test_who_leaves_does_not_wait_for_a_machine_that_does_not_answer(tmp_path: Path, page: int) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexec sleep 60\n")
    ssh.chmod(0o700)
    forwards = Forwards(RemoteMachine("gpubox", (str(ssh),)))
    errors: list[RltuiError] = []

    def ask() -> None:
        with pytest.raises(RltuiError) as raised:
            forwards.port(page)
        errors.append(raised.value)

    asking = threading.Thread(target=ask)
    asking.start()
    retry_until((tmp_path / "called").exists)
    closing = threading.Thread(target=forwards.close)
    closing.start()
    closing.join(timeout=5)
    assert not closing.is_alive()
    asking.join(timeout=5)
    assert [error.title for error in errors] == [f"port {page} of gpubox cannot be reached from here"]
