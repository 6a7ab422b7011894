"""The folder of the sockets is removed, as systemd-logind does when its user logs out."""

from __future__ import annotations

import shutil

import pytest
from tests.conftest import Box

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


def test_a_removed_socket_comes_back_with_the_same_supervisor(counters: Box) -> None:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    before = {item["id"]: item["pid"] for item in counters.json("status")["components"]}
    shutil.rmtree(counters.root / "run/rltui")
    after = {item["id"]: item["pid"] for item in counters.json("status", "one")["components"]}
    assert after == before
    journal = (counters.work / "out/.rltui/journal.jsonl").read_text()
    assert journal.count("supervisor started") == 1
    assert counters.run("down", "one").returncode == 0
    assert not list((counters.root / "run/rltui").iterdir())
