"""An environment's server: listens where its config says, or says in a file where it listens."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.fakes.prime_rl.generation import Generation
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.lines import Printer
from tests.fakes.prime_rl.resolve import component
from tests.fakes.prime_rl.trees import value_at


def env_server(generation: Generation, arguments: list[str]) -> int:
    """The program `env-server`; ends with SIGTERM."""
    tree = component(generation, "env-server", parse(generation, "env-server", arguments))
    file = value_at(tree, "address_file")
    address = value_at(tree, "serve.address", f"tcp://127.0.0.1:{5000 if file is None else 0}")
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with socket.create_server((host, int(port))) as listener:
        if file is not None:
            address = f"tcp://{host}:{listener.getsockname()[1]}"
            temporary = Path(f"{file}.tmp")
            temporary.write_text(address)
            temporary.replace(file)
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
