"""The router in front of the engine: hands on what clients ask for, and none of the admin routes."""

from __future__ import annotations

import signal
import time
import urllib.error
import urllib.request

from tests.fakes.prime_rl.http_server import Answer, Server

_PASSED = ("/v1/", "/health", "/inference/")
_POLL_S = 0.1


def vllm_router(arguments: list[str]) -> int:
    """The program `vllm-router`, which listens some time after its engine is healthy."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    engine = options["--worker-urls"]

    def hand_on(method: str, path: str, body: bytes) -> Answer:
        if not path.startswith(_PASSED):
            return 404, {"detail": "Not Found"}
        request = urllib.request.Request(f"{engine}{path}", data=body or None, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 503, {"detail": str(error)}

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while hand_on("GET", "/health", b"")[0] != 200:
        time.sleep(_POLL_S)
    time.sleep(_POLL_S)
    Server(int(options["--port"]), {}, hand_on).serve_forever()
    return 0
