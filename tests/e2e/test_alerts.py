"""Alerts of a real experiment: to the user's command, to the user's own tmux, and into the journal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from typing import Any

import pytest
from tests.conftest import Box
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def alert_documents(box: Box) -> list[dict[str, Any]]:
    path = box.root / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def journal(box: Box) -> list[dict[str, Any]]:
    lines = (box.work / "out/.rltui/journal.jsonl").read_text().splitlines()
    return [entry["data"] for entry in map(json.loads, lines) if entry["kind"] == "alert"]


def test_a_crash_a_recovery_and_a_nan_reach_command_tmux_and_journal(counters: Box) -> None:
    box, own_tmux = counters, f"t{uuid.uuid4().hex[:8]}"
    layout = box.work / "counters.toml"
    layout.write_text(
        layout.read_text().replace(
            'id = "trainer"', 'id = "trainer"\nrestart = { policy = "on-failure", backoff_s = [0.5, 1] }'
        )
    )
    settings = box.root / "config/rltui/settings.toml"
    settings.parent.mkdir()
    command = json.dumps(["sh", "-c", f"cat >> {box.root}/told"])
    settings.write_text(f'[alerts]\ntmux = ["{own_tmux}"]\ncommand = {command}\n')
    desk_env = {**box.env, "RLTUI_TMUX_SOCKET": own_tmux}
    user = ["env", "-u", "TMUX", "tmux", "-L", own_tmux, "-f", "/dev/null", "new-session", "-s", "work"]
    desk = Terminal([*user, "echo my desk; exec sleep 1000"], cwd=box.work, env=desk_env, columns=120)
    try:
        desk.wait_for("my desk")
        box.json(*UP)
        os.kill(box.component("trainer")["pid"], signal.SIGKILL)
        desk.wait_for("rltui one: trainer failed, restarts in")
        retry_until(lambda: len(alert_documents(box)) == 2)
        crash, recovered = alert_documents(box)
        assert (crash["kind"], crash["severity"], crash["component"]) == ("crash", "warning", "trainer")
        assert crash["text"].startswith("killed by SIGKILL")
        assert (recovered["kind"], recovered["experiment"]) == ("recovered", "one")
        with (box.work / "out/metrics.jsonl").open("a") as file:
            file.write('{"step": 12, "time": 1.0, "loss/mean": NaN}\n')
        desk.wait_for("a metric is not finite: loss/mean is nan at step 12")
        retry_until(lambda: len(alert_documents(box)) == 3)
        assert box.status()["step"] == 12
        assert [entry["alert"] for entry in journal(box)] == ["crash", "recovered", "metric"]
        settings.write_text("[alerts]\ncomand = []\n")
        retry_until(lambda: journal(box)[-1]["alert"] == "config")
    finally:
        desk.close()
        subprocess.run(
            ["tmux", "-L", own_tmux, "kill-server"], env=desk_env, check=False, capture_output=True
        )


@pytest.mark.slow
def test_the_tui_rings_and_tells_the_desktop(counters: Box) -> None:
    box = counters
    settings = box.root / "config/rltui/settings.toml"
    settings.parent.mkdir()
    settings.write_text("[alerts]\nosc9 = true\n")
    box.json(*UP)
    tui = Terminal([sys.executable, "-m", "rltui", "one"], cwd=box.work, env=box.env)
    try:
        tui.wait_for("trainer ●")
        notifications = box.root / "heard"
        tui._tmux("pipe-pane", "-t", "term", f"cat > {notifications}")
        os.kill(box.component("trainer")["pid"], signal.SIGKILL)
        tui.wait_for("✗ trainer failed")
        # The terminal is a tmux, which is asked to pass the notification on.
        notification = b"\x1bPtmux;\x1b\x1b]9;rltui one: trainer failed\x07\x1b\\"
        retry_until(lambda: notification in notifications.read_bytes())
        assert notifications.read_bytes().replace(notification, b"").count(b"\x07") == 1
    finally:
        tui.close()
