"""Layouts of any commands, without a config: ports, progress, what a start that fails is told by."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

PARTS = """\
[[component]]
id = "serve"
kind = "service"
command = ["{python}", "-m", "http.server", "{port.serve}", "--bind", "{host.serve}"]
port = "{port.serve}"
ready = { http = "http://{host.serve}:{port.serve}/" }

[[component]]
id = "work"
after = ["serve"]
command = ["{python}", "work.py"]
progress = ['step (?P<step>\\d+) reward (?P<reward>\\S+)']
"""
WORK = """\
import time
for step in range(1, 41):
    print("step", step, "reward", 1.0 if step < 30 else 0.0, flush=True)
time.sleep(60)
"""
LATE = """\
[[component]]
id = "serve"
kind = "service"
command = ["{python}", "late.py"]
ready = { file = "{workspace}/never", timeout_s = 1 }
stop = { signal = "SIGINT" }
"""


def test_a_layout_runs_without_a_config_and_tells_how_far_it_is(box: Box) -> None:  # A12, G7, B1
    (box.work / "parts.toml").write_text(PARTS)
    (box.work / "work.py").write_text(WORK)
    result = box.run("up", "-l", "parts.toml", "-n", "one")
    assert result.returncode == 0, result.stderr
    retry_until(lambda: box.json("status", "one", "--json")["step"] == 40)
    status = box.json("status", "one", "--json")
    assert "step 40" in status["components"][1]["facts"]
    concerns = retry_until(
        lambda: box.json("status", "one", "--json")["progress"]["concerns"]
    )  # some moments later
    assert [concern["word"] for concern in concerns] == ["reward collapsed"]
    retry_until(lambda: "reward collapsed" in box.run("events", "one").stdout)
    assert box.run("down", "one").returncode == 0


def test_what_a_program_says_of_our_signal_is_not_why_it_failed(box: Box) -> None:  # G10
    (box.work / "late.toml").write_text(LATE)
    (box.work / "late.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    result = box.run("up", "-l", "late.toml", "-n", "late")
    assert result.returncode == 5
    assert "not ready after 1s" in result.stderr
    assert "  loading" in result.stderr
    assert "KeyboardInterrupt" not in result.stderr
    assert box.run("down", "late").returncode == 0
