"""`rltui doctor --nodes`: what machines have and lack for a layout, each by itself and beside the others."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest
from tests.conftest import Box
from tests.fakes.nodes import FakeNode

LAYOUT = """\
framework = "generic"

[[node]]
name = "one"
reach = {one.reach}
python = "{python}"
send_env = ["A_KEY"]
env = {{ NCCL_SOCKET_IFNAME = "eth99,lo", NCCL_DEBUG = "INFO" }}

[[node]]
name = "two"
reach = {two.reach}
python = "{python}"
cwd = "/no/such/folder"
env = {{ GLOO_SOCKET_IFNAME = "lo", PATH = "/usr/bin:/bin" }}

[[component]]
id = "trainer"
each = "nodes"
command = ["true"]
ports = ["{port}"]

[[component]]
id = "server"
node = "two"
command = ["uv", "run", "inference"]
"""


@pytest.fixture
def nodes(box: Box) -> Iterator[list[FakeNode]]:
    made = [FakeNode(box.root / name) for name in ("one", "two")]
    yield made
    for node in made:
        node.end()


def test_each_node_is_asked_and_compared(box: Box, nodes: list[FakeNode]) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        text = LAYOUT.format(one=nodes[0], two=nodes[1], python=sys.executable, port=port)
        (box.work / "nodes.toml").write_text(text)
        done = box.run("doctor", "--nodes", "-l", "nodes.toml")
    assert done.returncode == 1
    first, _, rest = done.stdout.partition("\ntwo\n")
    second, _, both = rest.partition("\ncompared with each other\n")
    assert first.startswith("not ready: one and two\none\n✓ reached      in ")
    assert f"✓ folder       {box.work} is shared in both directions" in first
    assert f"✗ ports        port {port}, in use by pid " in first
    assert "✗ interface    NCCL_SOCKET_IFNAME is eth99,lo; available: " in first
    assert "✗ variables    A_KEY not set there" in first
    assert "✗ workspace    /no/such/folder does not exist; set cwd of the node" in second
    assert "✓ programs     true found" in first
    assert "✗ programs     uv not found on the PATH of a login shell there; set PATH" in second
    assert "✓ interface    GLOO_SOCKET_IFNAME is lo" in second
    assert "✓ interface    NCCL_SOCKET_IFNAME is not set; available: " in second
    assert "– variables    NCCL_DEBUG: INFO on one, none on two" in both
    assert not list(box.work.rglob(".rltui-shared-*"))

    nodes[1].close()
    box.env["A_KEY"] = "a secret"
    found = box.run("doctor", "--nodes", "-l", "nodes.toml", "--json")
    assert '"two", "name": "reached", "ok": false' in found.stdout
    assert '"A_KEY set"' in found.stdout
    assert "a secret" not in found.stdout


def test_without_nodes_it_says_so(box: Box) -> None:
    (box.work / "here.toml").write_text('[[component]]\nid = "a"\ncommand = ["true"]\n')
    done = box.run("doctor", "--nodes", "-l", "here.toml")
    assert done.returncode == 2
    assert "has no [[node]]" in done.stderr
    assert box.run("doctor", "-l", "here.toml").returncode == 2
