"""A stand-in for the hub on the loopback: as much of its API as `hf auth whoami` and `hf upload` ask for."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_onlyforthestandin"
USER = "alice"


class Hub:
    """The state of a hub: what clients have sent."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.repos: dict[str, dict[str, Any]] = {}
        """Name → the request that made it."""
        self.files: dict[str, bytes] = {}
        """Path → content in the newest commit."""
        self.summary = ""

    def answer(self, path: str, body: bytes, token: str) -> tuple[int, dict[str, Any]]:
        """Status code and document of the answer."""
        if path == "/api/agent-harnesses":
            return 200, {}
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid credentials in Authorization header"}
        if path.startswith("/api/whoami"):
            return 200, {"name": USER, "orgs": []}
        if path == "/api/repos/create":
            request = json.loads(body)
            name = f"{request['organization']}/{request['name']}"
            self.repos[name] = request
            return 200, {"id": name, "url": f"{self.url}/{name}"}
        if "/preupload/" in path:
            files = json.loads(body)["files"]
            kinds = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
            return 200, {"files": kinds}
        if "/commit/" in path:
            return 200, self._commit(path, body)
        return 404, {"error": f"no {path}"}

    def _commit(self, path: str, body: bytes) -> dict[str, Any]:
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "header":
                self.summary = entry["value"]["summary"]
            elif entry["key"] == "file":
                self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        repo = path.removeprefix("/api/models/").partition("/commit/")[0]
        url = f"{self.url}/{repo}/commit/0123abc"
        return {"success": True, "commitOid": "0123abc", "commitUrl": url, "commitMessage": self.summary}


@contextmanager
def hub() -> Iterator[Hub]:
    """One that answers while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, document = fake.answer(self.path, body, self.headers.get("authorization") or "")
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = Hub(server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
