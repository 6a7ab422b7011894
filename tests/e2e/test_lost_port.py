"""A port that was free when it was chosen, and is taken when its program starts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.frameworks.generic import FIRST_PORT
from rltui.services.experiment.files import ControlFolder

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.xdist_group("first-port")]
"""They take the first port that a layout without one is given."""

LAYOUT = """\
[[component]]
id = "prepare"
command = ["/bin/sh", "-c", "until [ -e go ]; do sleep 0.05; done; touch made"]
creates = "{workspace}/made"

[[component]]
id = "serve"
kind = "service"
after = ["prepare"]
command = ["{python}", "-u", "serve.py", "{port.serve}"]
port = "{port.serve}"
ready = { tcp = "127.0.0.1:{port.serve}", timeout_s = 20 }
wait_s = 3

[[component]]
id = "work"
after = ["serve"]
command = ["/bin/sh", "-c", "echo $1 > port; sleep 100", "work", "{port.serve}"]
"""
SERVE = """\
import os, socket, sys, time
if os.path.exists("race"):  # somebody else is quicker
    os.remove("race")
    open("taken", "w").write(sys.argv[1])
    while not os.path.exists("held"):
        time.sleep(0.02)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(100)
"""


@pytest.fixture
def two_components(box: Box) -> Box:
    (box.work / "parts.toml").write_text(LAYOUT)
    (box.work / "serve.py").write_text(SERVE)
    return box


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield listener


def hold(listener: socket.socket, port: int) -> None:
    listener.bind(("127.0.0.1", port))
    listener.listen()


@pytest.mark.slow
def test_a_port_taken_while_another_component_works_is_chosen_again(
    two_components: Box, listener: socket.socket
) -> None:
    start = two_components.run("up", "-l", "parts.toml", "-n", "one", "-o", "out", "--no-wait")
    assert start.returncode == 0, start.stderr
    two_components.wait_for("prepare", "ready")
    record = ControlFolder(two_components.work / "out").read_record()
    assert record is not None
    first = int(record.overrides.get("port.serve", FIRST_PORT))
    hold(listener, first)
    (two_components.work / "go").touch()
    two_components.wait_for("work", "ready")
    used = int((two_components.work / "port").read_text())
    assert used > first
    assert f"port {first} is in use by " in two_components.run("events", "one").stdout
    with closing(socket.create_connection(("127.0.0.1", used))):
        pass
    assert two_components.run("down", "one").returncode == 0
    (two_components.work / "port").unlink()
    assert two_components.run("start", "one", "-c", "serve", "-c", "work", "--wait").returncode == 0
    assert int((two_components.work / "port").read_text()) == used, "a port that is free is kept"


def test_a_port_taken_before_it_is_bound_is_lost_once_only(
    two_components: Box, listener: socket.socket
) -> None:
    for name in ("race", "made"):
        (two_components.work / name).touch()
    start = two_components.run("up", "-l", "parts.toml", "-n", "one", "-o", "out", "--no-wait")
    assert start.returncode == 0, start.stderr
    taken_file = two_components.work / "taken"
    port = int(retry_until(lambda: taken_file.exists() and taken_file.read_text(), timeout_s=20))
    hold(listener, port)
    (two_components.work / "held").touch()
    two_components.wait_for("work", "ready")
    assert int((two_components.work / "port").read_text()) > port
    kinds = [json.loads(line)["kind"] for line in (two_components.work / "out/.rltui/journal.jsonl").open()]
    assert kinds.count("failed") == 0
