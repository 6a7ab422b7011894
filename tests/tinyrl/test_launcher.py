"""`tinyrl rl`: the whole run as one program. Its programs are stand-ins, but in the last test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import retry_until

from rltui.tinyrl import TinyrlError, launcher
from rltui.tinyrl.config import RlConfig

SERVER = """\
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("asked to end", flush=True), sys.exit(0)))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def config(tmp_path: Path, port: int) -> RlConfig:
    return RlConfig.model_validate(
        {"output_dir": str(tmp_path), "inference": {"server": {"host": "127.0.0.1", "port": port}}}
    )


@pytest.fixture
def programs(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What runs by the name of each program; a server that answers, and two jobs that are done at once."""
    found = {"inference": SERVER.replace("PORT", str(port)), "orchestrator": "", "trainer": ""}
    real = subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        name, *words = command[command.index("rltui.tinyrl") + 1 :]
        (tmp_path / f"{name}.words").write_text(" ".join(words))
        return real([sys.executable, "-c", found[name]], **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


def test_run_is_done_when_both_jobs_are(config: RlConfig, programs: dict[str, str], tmp_path: Path) -> None:
    assert launcher.run(config, ["@", "rl.toml"]) == 0
    assert "asked to end" in (tmp_path / "logs/inference.log").read_text()
    assert (tmp_path / "trainer.words").read_text() == "@ rl.toml"


def test_one_that_fails_ends_the_others_and_is_named(
    config: RlConfig, programs: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    programs["orchestrator"] = "import time; time.sleep(60)"
    programs["trainer"] = "import sys; print('out of memory'); sys.exit(4)"
    assert launcher.run(config, []) == 4
    assert capfd.readouterr().err == "trainer ended with code 4: out of memory\n"


def test_server_that_ends_before_it_answers_fails_the_run(
    config: RlConfig, programs: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    programs["inference"] = ""
    assert launcher.run(config, []) == 1
    assert capfd.readouterr().err == "inference ended with code 0: no output\n"


def test_server_of_somebody_else_is_not_taken_for_its_own(
    config: RlConfig, programs: dict[str, str], port: int
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(TinyrlError, match="Address already in use"):
            launcher.run(config, [])


def test_requeued_run_goes_on_from_its_newest_checkpoint(
    config: RlConfig, programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert launcher.run(config, ["@", "rl.toml", "--ckpt.resume-step", "5"]) == 0
    words = (tmp_path / "orchestrator.words").read_text()
    assert words == "@ rl.toml --ckpt.resume-step 5 --ckpt.resume-step -1"


def test_asked_to_stop_it_ends_its_programs(tmp_path: Path, port: int) -> None:
    """The real program, whose server cannot load: what it started is gone when it is."""
    (tmp_path / "rl.toml").write_text(
        f'output_dir = "{tmp_path}"\n[orchestrator]\n[trainer]\n[inference.server]\nport = {port}\n'
        '[model]\nname = "none"\n'
    )
    command = [sys.executable, "-m", "rltui.tinyrl", "rl", "@", str(tmp_path / "rl.toml")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    listed = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    children = retry_until(lambda: listed.read_text().split(), timeout_s=20.0)
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait(30.0) in (128 + signal.SIGTERM, 1)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
