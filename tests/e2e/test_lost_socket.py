"""The folder of the sockets is removed, as systemd-logind does at logout, or is another one for a client."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.services.processes import is_alive, read_process_id

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


def test_without_its_sockets_the_same_supervisor_is_found_and_all_is_ended(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    before = {item["id"]: item["pid"] for item in counters.status()["components"]}
    shutil.rmtree(counters.root / "run/rltui")
    after = {item["id"]: item["pid"] for item in counters.json("status", "one")["components"]}
    assert after == before

    command = ["tmux", "-L", counters.env["RLTUI_TMUX_SOCKET"], "display-message", "-p", "#{pid}"]
    result = subprocess.run(command, env=counters.env, capture_output=True, text=True, check=True).stdout
    server = read_process_id(int(result))
    assert server is not None
    shutil.rmtree(counters.root / "tmux")
    assert counters.run("down", "one").returncode == 0
    assert not list((counters.root / "run/rltui").iterdir())
    retry_until(lambda: not is_alive(server))  # finding F4: it stayed, with its dead panes
    assert (counters.work / "out/.rltui/journal.jsonl").read_text().count("supervisor started") == 1


@pytest.mark.slow
def test_a_client_with_another_environment_finds_the_same_supervisor(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    before = {item["id"]: item["pid"] for item in counters.status()["components"]}
    (counters.root / "elsewhere").mkdir(mode=0o700)
    cron = replace(counters, env={**counters.env, "XDG_RUNTIME_DIR": str(counters.root / "elsewhere")})
    assert {item["id"]: item["pid"] for item in cron.status()["components"]} == before
    assert cron.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    assert cron.component("trainer")["attempt"] == 2
    assert cron.run("down").returncode == 0
    assert (counters.work / "out/.rltui/journal.jsonl").read_text().count("supervisor started") == 1
