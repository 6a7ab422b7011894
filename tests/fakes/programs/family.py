"""Makes descendants that are hard to find, then waits for SIGTERM or ends at once.

Usage: family.py PIDS_FILE wait|EXIT_CODE KIND…, where a KIND is
  child       an ordinary child
  session     a child in a session of its own
  daemon      forked twice, detached, parent gone
  stubborn    a child that ignores SIGTERM
  stopped     a child that stopped itself
  titled      a daemon with another name, title and no readable environment, as setproctitle leaves it
  port        a daemon that listens on a free port of 127.0.0.1 (written to the file as `listens`)

PIDS_FILE gets `{"kind": pid, …}` once all are as announced.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from title import wear_title  # type: ignore[import-not-found]


def live(kind: str, pipe: int) -> None:
    """Be that kind of process, say so, and wait."""
    pids: dict[str, int] = {kind: os.getpid()}
    if kind == "session":
        os.setsid()
    elif kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif kind == "titled":
        wear_title(b"VLLM::EngineCore")
    listener = socket.socket()
    if kind == "port":
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        pids["listens"] = listener.getsockname()[1]
    os.write(pipe, json.dumps(pids).encode() + b"\n")
    os.close(pipe)
    if kind == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        signal.pause()


def start(kind: str, pipe: int) -> None:
    detached = kind in {"daemon", "titled", "port"}
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if detached:
            os.setsid()
            if os.fork():
                os._exit(0)
        live(kind, pipe)
    if detached:
        os.waitpid(pid, 0)


target, ending, *kinds = sys.argv[1:]
reader, writer = os.pipe()
for kind in kinds:
    start(kind, writer)
os.close(writer)
facts: dict[str, int] = {}
with os.fdopen(reader) as lines:
    for line in lines:
        facts |= json.loads(line)
partial = Path(f"{target}.part")
partial.write_text(json.dumps(facts))
partial.rename(target)
if ending == "wait":
    signal.pause()
else:
    os._exit(int(ending))
