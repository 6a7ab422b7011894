"""A server that returns a random score: `serve.py PORT`."""

import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answer(BaseHTTPRequestHandler):
    """Answers with a random score from 0 to 1."""

    def do_GET(self) -> None:
        """Send the score."""
        body = f"{random.random():.3f}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    print(f"listening on {sys.argv[1]}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
