"""A small HTTP server: routes are functions from a JSON body to a status and a text or document."""

from __future__ import annotations

import http.server
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

Answer = tuple[int, Any]
"""Status, and what goes out: a text as it is, anything else as JSON."""
Route = Callable[[Mapping[str, Any]], Answer]


class Server(http.server.ThreadingHTTPServer):
    """Serves `routes` ("GET /health" …) until it is shut down; one thread per request."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, port: int, routes: Mapping[str, Route], fallback: Callable[..., Answer] | None = None
    ) -> None:
        self.routes = routes
        self.fallback = fallback
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's name that the base class does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", self.socket.getsockname()[1]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer("GET", b"")

    def do_POST(self) -> None:
        self._answer("POST", self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def log_message(self, *args: object) -> None:
        """Print nothing, like uvicorn with its access log off."""

    def _answer(self, method: str, raw: bytes) -> None:
        path = self.path.partition("?")[0]
        route = self.server.routes.get(f"{method} {path}")
        if route is not None:
            status, content = route(json.loads(raw or b"{}"))
        elif self.server.fallback is not None:
            status, content = self.server.fallback(method, self.path, raw)
        else:
            has_other_methods = any(known.endswith(f" {path}") for known in self.server.routes)
            status, content = (
                (405, {"detail": "Method Not Allowed"})
                if has_other_methods
                else (404, {"detail": "Not Found"})
            )
        text = content if isinstance(content, str) else json.dumps(content)
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
