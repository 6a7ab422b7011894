"""The program `dashboard`, and how a launcher registers a folder for it. After the facts of autumn 2026."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

EXTRA = "dashboard-extra"
"""File in `.venv` that stands for the packages of the extra `dashboard`."""
SIGNS = ("configs", "logs", "monitors", "traces.jsonl")
KEYS = {"run", "tab", "step", "kind", "subset", "episode", "line", "trace", "branch", "report", "highlight"}
TABS = ("metrics", "config", "traces", "logs", "report")


def state_folder() -> Path:
    return Path.home() / ".cache" / "prime-rl" / "dashboard"


@contextmanager
def registry_lock() -> Iterator[None]:
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def register(folders: Iterable[Path]) -> None:
    """Add what is missing in the list, as launchers do and every dashboard with its own folders."""
    with registry_lock():
        known = _list()
        fresh = [str(folder.resolve()) for folder in folders if str(folder.resolve()) not in known]
        if fresh:
            _replace(state_folder() / "dirs.json", known + fresh)


def registered() -> list[str]:
    return _list()


def _list() -> list[str]:
    try:
        return list(json.loads((state_folder() / "dirs.json").read_text()))
    except (OSError, ValueError):
        return []


def _replace(path: Path, value: object) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


class RefusedError(Exception):
    def __init__(self, status: int, detail: object) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class Dashboard:
    """What its requests are answered from."""

    def __init__(self, folders: list[Path], *, isolated: bool, can_view: bool) -> None:
        self.folders, self.isolated, self.can_view = folders, isolated, can_view
        self.url = ""
        self.command: dict[str, Any] | None = None
        self.clients: set[queue.SimpleQueue[dict[str, Any]]] = set()
        self._seq = 0

    def runs(self) -> dict[str, Path]:
        known = {folder.resolve() for folder in self.folders}
        listed = [] if self.isolated else [Path(entry) for entry in registered()]
        by_name: dict[str, list[Path]] = {}
        for base in [*self.folders, *(entry for entry in listed if entry.resolve() not in known)]:
            for run in sorted(base.iterdir()) if base.is_dir() else ():
                is_run = not run.name.startswith(".") and any((run / sign).exists() for sign in SIGNS)
                if is_run:
                    by_name.setdefault(run.name, []).append(run)
        return {
            name if len(runs) == 1 else f"{run.parent.name}:{name}": run
            for name, runs in by_name.items()
            for run in runs
        }

    def view(self, command: dict[str, Any]) -> dict[str, Any]:
        self._check(command)
        self._seq += 1
        self.command = {**command, "seq": self._seq, "ts": time.time()}
        for client in self.clients:
            client.put(self.command)
        if not self.clients:
            detail = {
                "error": "no dashboard tab is connected",
                "url": self.url,
                "stored": True,
                "seq": self._seq,
            }
            raise RefusedError(409, detail)
        return {"ok": True, "seq": self._seq, "clients": len(self.clients), "line": command.get("line")}

    def _check(self, command: dict[str, Any]) -> None:
        if unknown := sorted(set(command) - KEYS):
            raise RefusedError(400, f"unknown fields: {unknown} (known: {sorted(KEYS)})")
        run = self.runs().get(str(command.get("run")))
        if run is None:
            raise RefusedError(404, f"run {command.get('run')} not found")
        if command.get("tab") not in (None, *TABS):
            raise RefusedError(400, f"tab must be one of {sorted(TABS)}")
        address = [command.get(key) for key in ("step", "kind", "subset")]
        if any(part is None for part in address):
            if any(part is not None for part in address):
                raise RefusedError(400, "trace addressing needs step, kind, and subset together")
            if command.get("episode") is not None:
                raise RefusedError(400, "episode addressing needs step, kind, and subset")
            return
        step, kind, subset = address
        if not isinstance(step, int) or step < 0:
            raise RefusedError(400, "step must be an integer")
        if kind not in ("train", "eval") or subset not in ("all", "effective"):
            raise RefusedError(400, "kind must be train|eval, subset all|effective")
        index = run / "monitors/file/traces/stream.index.jsonl"
        rows = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
        if not rows:
            raise RefusedError(404, "no traces for this run")
        if (episode := command.get("episode")) is not None:
            lines = [number for number, row in enumerate(rows, start=1) if row.get("id") == episode]
            if not lines:
                raise RefusedError(404, f"episode id {episode!r} not found in {kind}/{subset} at step {step}")
            command["line"] = lines[0]


class Handler(BaseHTTPRequestHandler):
    dashboard: Dashboard

    def do_GET(self) -> None:
        if self.path == "/api/runs":
            runs = [{"name": name, "type": "rl"} for name in self.dashboard.runs()]
            folders = ", ".join(str(folder.resolve()) for folder in self.dashboard.folders)
            self._answer(200, {"output_dir": folders, "runs": runs})
        elif self.path == "/api/view/events" and self.dashboard.can_view:
            self._tell()
        else:
            self._answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/api/view" or not self.dashboard.can_view:
            self._answer(405, {"detail": "Method Not Allowed"})
            return
        try:
            self._answer(200, self.dashboard.view(json.loads(body)))
        except RefusedError as refusal:
            self._answer(refusal.status, {"detail": refusal.detail})

    def _answer(self, status: int, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _tell(self) -> None:
        """A tab: the command that waits for one, then all that come."""
        events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.dashboard.clients.add(events)
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"retry: 2000\n\n")
            if self.dashboard.command is not None:
                self._event({**self.dashboard.command, "replay": True})
            while True:
                with suppress(queue.Empty):
                    self._event(events.get(timeout=0.2))
                    continue
                self.wfile.write(b": ping\n\n")
        except OSError:
            pass
        finally:
            self.dashboard.clients.discard(events)

    def _event(self, command: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(command)}\n\n".encode())

    def log_message(self, *args: object) -> None:
        del args


def dashboard(arguments: list[str]) -> int:
    """The program. `STANDIN_DASHBOARD=september`: it cannot be told what to show."""
    if not (Path(sys.argv[0]).parent.parent / EXTRA).exists():
        sys.exit("the dashboard needs the 'dashboard' extra - install with `uv sync --extra dashboard`")
    parser = argparse.ArgumentParser(prog="dashboard")
    parser.add_argument("output_dirs", nargs="*", default=[Path("outputs")], type=Path)
    parser.add_argument("--port", type=int, default=7788)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--isolated", action="store_true")
    options = parser.parse_args(arguments)
    folders = [folder for folder in options.output_dirs if folder.is_dir()]
    if not options.isolated:
        register(folders)
    if not folders and (options.isolated or not registered()):
        sys.exit("no existing output dir given")
    board = Dashboard(
        folders, isolated=options.isolated, can_view=os.environ.get("STANDIN_DASHBOARD") != "september"
    )
    server = _serve(options.host, options.port, type("Bound", (Handler,), {"dashboard": board}))
    board.url = f"http://localhost:{server.server_port}"
    if not options.isolated:
        _claim(board.url)
    print(f"\n  prime-rl dashboard · {', '.join(map(str, folders))}\n  {board.url}\n", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    server.daemon_threads = True
    server.serve_forever(poll_interval=0.05)
    _release()
    return 0


def _serve(host: str, port: int, handler: type[Handler]) -> ThreadingHTTPServer:
    while True:
        with suppress(OSError):
            return ThreadingHTTPServer((host, port), handler)
        port += 1


def _claim(url: str) -> None:
    path = state_folder() / "daemon.json"
    with registry_lock():
        with suppress(OSError, ValueError, KeyError):
            daemon = json.loads(path.read_text())
            os.kill(daemon["pid"], 0)
            print(f"another dashboard daemon is already running at {daemon['url']}", file=sys.stderr)
            return
        _replace(path, {"pid": os.getpid(), "url": url, "started": time.time()})


def _release() -> None:
    path = state_folder() / "daemon.json"
    with registry_lock(), suppress(OSError, ValueError, KeyError):
        if json.loads(path.read_text())["pid"] == os.getpid():
            path.unlink()


class Tab:
    """A browser's tab: what a dashboard has it show."""

    def __init__(self, url: str) -> None:
        split = urllib.parse.urlsplit(url)
        self._socket = socket.create_connection((split.hostname or "", split.port or 80), 10)
        self._socket.sendall(f"GET /api/view/events HTTP/1.1\r\nHost: {split.netloc}\r\n\r\n".encode())
        self._lines = self._socket.makefile("r")
        assert any(line == "retry: 2000\n" for line in self._lines)

    def shown(self) -> dict[str, Any]:
        """The next command; fails if none comes for 20 seconds."""
        deadline = time.monotonic() + 20
        while not (line := self._lines.readline()).startswith("data: "):
            assert time.monotonic() < deadline, "no command came"
        command: dict[str, Any] = json.loads(line.removeprefix("data: "))
        return command

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
