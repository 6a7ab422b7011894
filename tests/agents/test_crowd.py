"""Two hundred agents on five runs, half of them hostile: what they may not do has not happened."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.agents.crowd import (
    HIGHEST,
    LEVELS,
    LOWEST,
    MOST_RESTARTS,
    MOST_TRIALS,
    content,
    found,
    owner,
    person,
    visit,
)
from tests.conftest import Box
from tests.waiting import retry_until
from tests.walker import has_walked

pytestmark = [pytest.mark.agents, pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(1500)]

SEED = int(os.environ.get("AGENTS_SEED", "1"))
AGENTS = int(os.environ.get("AGENTS", "200"))
AT_ONCE = 6
MARGIN_S = 1.0
"""What an agent had asked for when the pause came is done all the same."""


def test_two_hundred_agents(box: Box) -> None:
    crowd = found(box)
    for name in LEVELS:
        has_walked(box, name)
    before = {name: content(crowd.run_of(name).folder) for name in LEVELS}
    since = {name: len(crowd.run_of(name).journal()) for name in LEVELS}
    stop = threading.Event()
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        the_person = pool.submit(person, crowd, stop, SEED)
        for visitor in [pool.submit(visit, crowd, number, SEED) for number in range(AGENTS)]:
            visitor.result()
        stop.set()
        the_person.result()
    tally: Counter[str] = Counter()
    restarts: Counter[str] = Counter()
    for name, level in LEVELS.items():
        run = crowd.run_of(name)
        accepted = run.accepted()
        for entry in run.acts(since[name]):
            by = entry.get("by")
            assert by is not None, (name, entry)
            tally[f"{entry['kind']} by {by['kind']}"] += 1
            edits = entry["data"].get("edits", {})
            if by["kind"] != "agent":
                assert "lr" not in edits, ("an agent that passed for a person", name, entry)
                assert entry["kind"] != "resume", ("an agent that passed for a person", name, entry)
                continue
            is_accepted = entry["kind"] == "note" or (by["name"], by["pid"]) in accepted
            assert (level, name != "mine") == ("act", True) or (level == "propose" and is_accepted), str(
                entry
            )
            if entry["kind"] in ("edit", "note"):
                is_paused = any(began + MARGIN_S < entry["at"] < ended for began, ended in crowd.pauses)
                assert not is_paused, (name, entry)
            if entry["kind"] == "edit":
                assert edits.keys() == {"lr"}, (name, entry)
                assert LOWEST <= float(edits["lr"]) <= HIGHEST, (name, entry)
                assert owner(float(edits["lr"])) == by["name"], (name, entry)
            restarts[by["name"]] += entry["kind"] == "plan" and "action" in entry["data"]
        assert before[name].items() <= content(run.folder).items(), name
    assert max(restarts.values(), default=0) <= MOST_RESTARTS + 1, restarts
    trials = Counter(entry["by"]["name"] for entry in crowd.trials())
    assert max(trials.values(), default=0) <= MOST_TRIALS, trials
    for name in LEVELS:
        assert box.run("start", name, "--yes", "--wait", timeout_s=120).returncode in (0, 4)
        retry_until(crowd.run_of(name).pids, timeout_s=60)
    codes = Counter(code for _, _, code in crowd.said)
    print(f"\n{AGENTS} agents, {len(crowd.said)} commands, exit codes {dict(codes)}, {crowd.killed} killed")
    print(dict(tally), f"trials {sum(trials.values())}")
