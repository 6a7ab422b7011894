"""An environment's server: listens at the address that its config names."""

from __future__ import annotations

import signal
import socket

from tests.fakes.prime_rl.generation import Generation
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.lines import Printer
from tests.fakes.prime_rl.resolve import component
from tests.fakes.prime_rl.trees import value_at


def env_server(generation: Generation, arguments: list[str]) -> int:
    """The program `env-server`; ends with SIGTERM."""
    tree = component(generation, "env-server", parse(generation, "env-server", arguments))
    address = value_at(tree, "serve.address", "tcp://127.0.0.1:5000")
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with socket.create_server((host, int(port))) as listener:
        Printer().info(f"Environment server ready at {address}")
        while True:
            listener.accept()[0].close()


def is_up(address: str) -> bool:
    """Whether somebody listens at `tcp://HOST:PORT`."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
