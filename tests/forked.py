"""The command line in processes that need not import anything: forks of one that has.

`python -m rltui` spends most of half a second on imports. A fork is a process like any other: it has its own
environment, folder, pipes and exit code. What counts from the start of a process on (`LD_…`, `PYTHON…`, the
locale) is that of the process it is a fork of: there is one for each such environment that is used often.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

PACKAGES = ("rltui.core", "rltui.frameworks", "rltui.client", "rltui.cli")
FROM_THE_START = ("LD_", "PYTHON", "LANG", "LC_", "COVERAGE_")
MOST_BYTES = 1 << 18
OFTEN = 3
CLOCK = "RLTUI_TEST_CLOCK"
"""Variable that makes the clock of a command stand still at so many seconds since 1970."""
USUAL = {**os.environ, "LANG": "C.UTF-8"}
environment_uses: Counter[frozenset[tuple[str, str]]] = Counter()


def can_run(env: Mapping[str, str]) -> bool:
    """It is worth a server: this environment is the usual one, or has been asked for several times."""
    early = _early(env)
    environment_uses[early] += 1
    return early == _early(USUAL) or environment_uses[early] >= OFTEN


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` of `rltui ARGUMENT…` with pipes."""
    (stdin_read, stdin_write), (out_read, out_write), (err_read, err_write) = (os.pipe() for _ in range(3))
    here, there = socket.socketpair()
    message = json.dumps({"argv": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
    handed = (stdin_read, out_write, err_write, there.fileno())
    server, lock = _server(_early(env))
    with lock:
        socket.send_fds(server, [message], handed)
    for number in handed[:3]:
        os.close(number)
    there.close()
    with here:
        with suppress(BrokenPipeError), os.fdopen(stdin_write, "wb") as writer:
            writer.write(stdin.encode())
        out, err, code = _collect(here, out_read, err_read, time.monotonic() + timeout_s)
    if code is None:
        raise subprocess.TimeoutExpired(list(arguments), timeout_s, out, err)
    texts = (io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read() for content in (out, err))
    return subprocess.CompletedProcess(list(arguments), code, *texts)


def _collect(reply: socket.socket, out: int, err: int, until: float) -> tuple[bytes, bytes, int | None]:
    """Both outputs to their ends, and the exit code; `None` where that took too long."""
    output: dict[int, bytes] = {out: b"", err: b"", reply.fileno(): b""}
    with selectors.DefaultSelector() as selector:
        for number in output:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() and (remaining_s := until - time.monotonic()) > 0:
            for key, _ in selector.select(remaining_s):
                if data := os.read(key.fd, 1 << 16):
                    output[key.fd] += data
                else:
                    selector.unregister(key.fd)
        is_complete = not selector.get_map()
    os.close(out)
    os.close(err)
    return output[out], output[err], int(output[reply.fileno()]) if is_complete else None


@functools.cache
def _server(early: frozenset[tuple[str, str]]) -> tuple[socket.socket, threading.Lock]:
    """It ends when this process does."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(FROM_THE_START)}
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(there.fileno())],
        env={**variables, **dict(early)},
        pass_fds=[there.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    there.close()
    atexit.register(process.wait)
    atexit.register(here.close)
    return here, threading.Lock()


def _early(env: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(item for item in env.items() if item[0].startswith(FROM_THE_START))


def serve(requests: socket.socket) -> None:
    """Fork for every request, until the other side is gone."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    importlib.import_module("libtmux")
    gc.freeze()
    while True:
        message, handed, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _attend(json.loads(message), handed)
        for number in handed:
            os.close(number)
        _reap()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _attend(request: dict[str, Any], handed: Sequence[int]) -> NoReturn:
    """Run the command in a child, and tell its exit code; end it where nobody waits for that any more."""
    *pipes, reply = handed
    pid = os.fork()
    if pid == 0:
        os.close(reply)
        _become(request, pipes)
    for number in (*pipes, 0, 1, 2):
        os.close(number)
    with selectors.DefaultSelector() as selector:
        child = os.pidfd_open(pid)
        selector.register(child, selectors.EVENT_READ)
        selector.register(reply, selectors.EVENT_READ)
        if child not in {key.fd for key, _ in selector.select()}:
            os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(reply, str(code).encode())
    os._exit(0)


def _become(request: dict[str, Any], pipes: Sequence[int]) -> NoReturn:
    """Begin and end like `python -m rltui`."""
    code: object = 1
    try:
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        if CLOCK in os.environ:
            now = float(os.environ.pop(CLOCK))
            time.time = lambda: now
        sys.argv = ["rltui", *request["argv"]]
        from rltui.cli import main

        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
