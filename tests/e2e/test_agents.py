"""An agent on real processes: what waits for a person, what wants `--yes`, and a pause."""

from __future__ import annotations

import pytest
from tests.conftest import Box
from tests.following import follow
from tests.waiting import retry_until

from rltui.core import hints

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def test_an_agent_proposes_a_person_accepts_and_the_wait_ends(counters: Box) -> None:
    agent = counters.as_agent(rights="propose")
    refused = agent.run(*UP)
    assert refused.returncode == 2
    assert hints.QUEUE_ADD() in refused.stderr
    assert agent.run("queue", "add", *UP[1:], "--reason", "try it").returncode == 0
    follow(counters, counters.run("queue"), hints.ACCEPT_ENTRY, entry="one")
    retry_until(lambda: counters.run("status", "one").returncode == 0, timeout_s=30)
    counters.wait_for("trainer", "ready")
    proposed = agent.run("set", "one", "max_steps=900", "--restart", "--reason", "longer", "--yes")
    assert proposed.returncode == 2
    assert agent.run("agents", "accept", "one").returncode == 2
    assert "longer" in counters.run("agents", "proposals").stdout
    assert counters.run("agents", "accept", "one", "p1").returncode == 0
    waited = follow(agent, proposed, hints.WAIT_PROPOSAL, name="one", id="p1")
    assert waited.returncode == 0, waited.stderr
    assert "max_steps = 900" in (counters.work / "run.toml").read_text()


def test_an_agent_ends_a_run_with_yes_alone_and_nothing_while_agents_are_paused(counters: Box) -> None:
    counters.json(*UP)
    counters.wait_for("trainer", "ready")
    agent = counters.as_agent()
    for words in (("down", "one"), ("down", "--all")):
        refused = agent.run(*words)
        assert refused.returncode == 2, refused.stderr
        assert "trainer" in refused.stderr, "with what would end"
    assert counters.component("trainer")["state"] == "ready"
    paused = counters.run("agents", "pause")
    assert agent.run("down", "one", "--yes").returncode == 2
    assert agent.run("agents", "resume").returncode == 2
    assert follow(counters, paused, hints.AGENTS_RESUME).returncode == 0
    ended = agent.run("down", "one", "--yes")
    assert ended.returncode == 0, ended.stderr
