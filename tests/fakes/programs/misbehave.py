"""A component that behaves as FOLDER/<component>.behaviour says, words apart, any number of them:

  ignore-term     takes no notice of SIGTERM
  orphan-port     a child that listens on PORT, whose parent is gone
  orphan-deaf     an orphan that ignores SIGTERM
  daemon          forked twice, in a session of its own
  title           no readable environment any more, and a daemon like that
  flood           20000 lines at once before the rest
  die-early       exits 3 before it is ready
  hang            is never ready
  exit-0          exits 0 as soon as it is ready
  exit-hour       exits 1 an hour after its start, by the clock that FOLDER/clock shifts
  stop-self       stops itself, as SIGSTOP does, once it is ready

Usage: misbehave.py FOLDER PORT, where PORT is `-` for none: it listens there before it says `ready`.
Without a word it is honest: it prints `count 0`, `count 1`, … without a gap until it is told to end.
SIGUSR1 makes it exit 1, SIGUSR2 exit 0. A full disk makes it wait and write again.

Truth is written down for those who test: a line of JSON per process in FOLDER/<component>.pids (`double`
where another main process of it lives), the last number printed in FOLDER/<component>-<attempt>.count.
"""

import fcntl
import json
import mmap
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from title import wear_title  # type: ignore[import-not-found]

TICK_S = 0.01
HOUR_S = 3600.0

folder, port = Path(sys.argv[1]), sys.argv[2]
component, attempt = os.environ["RLTUI_COMPONENT"], int(os.environ["RLTUI_ATTEMPT"])
behaviour = frozenset((folder / f"{component}.behaviour").read_text().split())


def register(role: str) -> None:
    """Write this process down; one `write`, so that lines of several never mix."""
    start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    text = " ".join(sorted(behaviour))
    entry = {"role": role, "pid": os.getpid(), "start": start, "attempt": attempt, "behaviour": text}
    handle = os.open(folder / f"{component}.pids", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, json.dumps(entry).encode() + b"\n")
    os.close(handle)


def say(text: str) -> None:
    """Write all of it, however long the disk is full."""
    data = text.encode()
    while data:
        try:
            data = data[os.write(1, data) :]
        except OSError:
            time.sleep(TICK_S)


def listen() -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    listener.listen()
    return listener


def detach(role: str, *, session: bool) -> None:
    """Fork twice: the grandchild goes on for ever, its parent is gone. Returns when it is as announced."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        if session:
            os.setsid()
        if os.fork():
            os._exit(0)
        os.close(lock)
        if role == "orphan-deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if role == "title":
            wear_title(b"VLLM::EngineCore")
        if role == "orphan-port":
            listen().detach()
        register(role)
        os.write(writer, b"!")
        os.close(writer)
        while True:
            signal.pause()
    os.close(writer)
    os.waitpid(child, 0)
    os.read(reader, 1)
    os.close(reader)


def fake_monotonic() -> float:
    shift: float = struct.unpack_from("dd", clock)[1]
    return time.monotonic() + shift


def answer(listener: socket.socket) -> None:
    """Take what knocks, and hang up."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return


lock = os.open(folder / f"{component}.lock", os.O_RDWR | os.O_CREAT, 0o644)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    register("double")
if "ignore-term" in behaviour:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, lambda *_: os._exit(1))
signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
with (folder / "clock").open("r+b") as file:
    clock = mmap.mmap(file.fileno(), 16)
printed = os.open(folder / f"{component}-{attempt}.count", os.O_RDWR | os.O_CREAT, 0o644)
born = fake_monotonic()
register("main")
for kind in ("orphan-port", "orphan-deaf", "daemon", "title"):
    if kind in behaviour:
        detach(kind, session=kind in {"daemon", "title"})
if "title" in behaviour:
    wear_title(b"VLLM::EngineCore")
if "die-early" in behaviour:
    os._exit(3)
listener = None
if port != "-" and not behaviour & {"orphan-port", "hang"}:
    listener = listen()
    listener.setblocking(False)
number = 0
if "flood" in behaviour:
    say("".join(f"count {number}\n" for number in range(20000)))
    number = 20000
if "hang" not in behaviour:
    say("ready\n")
while True:
    say(f"count {number}\n")
    os.pwrite(printed, struct.pack("q", number), 0)
    number += 1
    if "exit-0" in behaviour:
        os._exit(0)
    if "stop-self" in behaviour and number == 3:
        os.kill(os.getpid(), signal.SIGSTOP)
    if "exit-hour" in behaviour and fake_monotonic() - born >= HOUR_S:
        os._exit(1)
    if listener is not None:
        answer(listener)
    time.sleep(TICK_S)
