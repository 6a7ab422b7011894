"""`python -m tests.fakes.busy_ports [FIRST LAST] -- COMMAND…`: run a command while these ports are taken.

8000–8010 without others: where a server of a person's own may be. What passes on a free box passes so, too.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack


def main(arguments: list[str]) -> int:
    separator = arguments.index("--")
    first, last = map(int, arguments[:separator] or ("8000", "8010"))
    with ExitStack() as listeners:
        for port in range(first, last + 1):
            listener = listeners.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("0.0.0.0", port))
            except OSError:  # somebody serves there: as good
                continue
            listener.listen()
        return subprocess.run(arguments[separator + 1 :], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
