"""An HTTP server in a thread of the test."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TLS = Path(__file__).parents[1] / "data" / "tls" / "localhost.pem"
"""Certificate and key of `localhost`."""


class Handler(BaseHTTPRequestHandler):
    """Answers by `respond` of a subclass, and logs nothing."""

    def do_GET(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def respond(self) -> None:
        raise NotImplementedError

    def answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        del args


@contextmanager
def serving(handler: type[Handler], *, tls: bool = False, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
