from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.http_server import TLS, Handler, serving

from rltui.core.metrics.engine import InferenceActivity, parse_activity
from rltui.frameworks.engines.vllm import VLLM
from rltui.services.experiment import probes
from rltui.services.experiment.probes import read_exposition

SAMPLE = Path(__file__).parents[1] / "data" / "vllm-0.32-metrics.txt"


class Metrics(Handler):
    def respond(self) -> None:
        if self.path in ("/metrics", "/metrics?engine=0"):
            self.answer(200, SAMPLE.read_bytes())
        else:
            self.answer(404, b"vllm:num_requests_running 1\n")


@pytest.fixture
def server() -> Iterator[str]:
    with serving(Metrics) as httpd:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"


async def read_activity(url: str) -> InferenceActivity | None:
    text = await read_exposition(url)
    return None if text is None else parse_activity(text, VLLM.metrics)


async def test_a_server_that_answers(server: str) -> None:
    expected = InferenceActivity(generated_tokens=344, kv_usage_frac=0.0)
    assert await read_activity(f"{server}/metrics") == expected
    assert await read_activity(f"{server}/metrics?engine=0") == expected


SUPERVISOR = """
import sys
sys.modules.update(dict.fromkeys(("ssl", "_hashlib")))  # as the supervisor starts
import asyncio
from rltui.core.experiment.layout import Ready
from rltui.services.experiment.probes import Probe
from rltui.services.experiment.probes import read_exposition
from pathlib import Path
probe = Probe(Ready(http=sys.argv[1]), Path("none"))
print(asyncio.run(probe.is_ready()), asyncio.run(read_exposition(sys.argv[1])) is not None, probe)
"""


@pytest.mark.parametrize(
    ("trusted", "said"), [(True, "True True http https:"), (False, "False False http https:")]
)
def test_a_server_with_tls_is_asked_from_the_supervisor(trusted: bool, said: str) -> None:
    environment = os.environ | {"SSL_CERT_FILE": str(TLS) if trusted else os.devnull}
    with serving(Metrics, tls=True) as httpd:
        argv = [sys.executable, "-c", SUPERVISOR, f"https://localhost:{httpd.server_address[1]}/metrics"]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(said), done.stderr
    assert trusted or "certificate verify failed" in done.stdout


async def test_one_that_does_not(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await read_exposition(f"{server}/other") is None
    assert await read_exposition(f"{server.replace('http:', 'https:')}/metrics") is None
    assert await read_activity("http://127.0.0.1:nonsense/metrics") is None
    monkeypatch.setattr(probes, "TIMEOUT_S", 0.2)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        closed = deaf.getsockname()[1]
        assert await read_exposition(f"http://127.0.0.1:{closed}/metrics") is None
        deaf.listen()
        assert await read_exposition(f"http://127.0.0.1:{closed}/metrics") is None, "accepts and is silent"
