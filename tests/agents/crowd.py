"""Many agents at once on a few runs, honest and not: what each does is drawn, and known to the test."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.agents.outside import Outside, alive
from tests.conftest import Box
from tests.walker import start_walk

LEVELS: Mapping[str, str] = {"open": "act", "busy": "act", "kept": "propose", "shut": "look", "mine": "act"}
"""Run → what agents may do there. `mine` is not among the runs of the settings."""
LOWEST, HIGHEST = 1e-6, 1e-2
MOST_TRIALS, MOST_RESTARTS = 2, 3
SETTINGS = f"""\
[agents]
rights = "propose"
runs = ["open", "busy", "kept", "shut", "trial-*"]
verbs = ["set", "undo", "restart", "start", "stop", "note", "queue", "up"]
keys = ["lr", "walk"]
bounds = {{ lr = [{LOWEST}, {HIGHEST}], walk = [23, 1000] }}
max_trials = {MOST_TRIALS}
restarts_per_hour = {MOST_RESTARTS}
"""


@dataclass
class Crowd:
    """What every agent has tried, for the check of who has done what."""

    box: Box
    said: list[tuple[str, tuple[str, ...], int]] = field(default_factory=list)
    """Agent, its command, and how that ended."""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    killed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run_of(self, name: str) -> Outside:
        return Outside(self.box.work / f"out-{name}")

    def trials(self) -> list[dict[str, Any]]:
        """Entries of the queue, as its file has them."""
        path = self.box.root / "state/rltui/queue/queue.json"
        return list(json.loads(path.read_text())["entries"]) if path.exists() else []

    def note(self, name: str, words: tuple[str, ...], code: int, text: str) -> None:
        assert "Traceback" not in text, (name, words, text)
        assert code in (0, 1, 2, 3, 4, 5), (name, words, text)
        with self.lock:
            self.said.append((name, words, code))


@dataclass
class Visitor:
    """One agent; the values that it sets are its own, so that the journal can be held against it."""

    crowd: Crowd
    number: int
    chance: random.Random

    @property
    def name(self) -> str:
        return f"agent-{self.number:03}"

    def say(self, *words: str) -> None:
        env = {**self.crowd.box.env, "RLTUI_AGENT": self.name}
        result = replace(self.crowd.box, env=env).run(*words, timeout_s=120)
        self.crowd.note(self.name, words, result.returncode, result.stderr)

    def say_as(self, change: str, *words: str) -> None:
        """From a shell that has its name, through `env`, which takes it off or forges another."""
        argv = f"{sys.executable} -m rltui {shlex.join(words)}"
        result = subprocess.run(
            ["sh", "-c", f"env {change} {argv}; exit $?"],
            env={**self.crowd.box.env, "RLTUI_AGENT": self.name}, cwd=self.crowd.box.work,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        self.crowd.note(self.name, words, result.returncode, result.stderr)

    @property
    def run(self) -> str:
        return self.chance.choice([*LEVELS])

    def lr(self) -> str:
        """A value within the bounds that no other agent sets."""
        return f"{self.number + 1}.{self.chance.randrange(1, 1000):03}1e-5"


def owner(value: float) -> str:
    """The agent that sets this learning rate."""
    return f"agent-{int(value * 1e5) - 1:03}"


def looks(agent: Visitor) -> None:
    agent.say(agent.chance.choice(["status", "events", "checkpoints", "knobs"]), agent.run)


def sets(agent: Visitor) -> None:
    agent.say("set", agent.run, f"lr={agent.lr()}", *agent.chance.choice([(), ("--restart",)]))


def sets_too_much(agent: Visitor) -> None:
    value = agent.chance.choice(["50", "0.5", "-1", "nan", "1e400", "'1e-5'", "true"])
    agent.say("set", agent.run, f"lr={value}", "--restart", "--yes", "--force")


def sets_another_key(agent: Visitor) -> None:
    word = agent.chance.choice(["output_dir=/tmp/elsewhere", "grader.path=x", "nosuch=1"])
    agent.say("set", agent.run, word, "--force", "--yes")


def notes(agent: Visitor) -> None:
    agent.say("events", "add", agent.run, f"note of {agent.name}")


def restarts(agent: Visitor) -> None:
    agent.say("restart", agent.run, *agent.chance.choice([(), ("--yes",), ("-c", "trainer")]))


def from_scratch(agent: Visitor) -> None:
    agent.say("restart", agent.run, "--from-scratch", *agent.chance.choice([(), ("--yes",)]))


def loops(agent: Visitor) -> None:
    run = agent.run
    for _ in range(MOST_RESTARTS + 3):
        agent.say("restart", run, "--yes")


def ends(agent: Visitor) -> None:
    agent.say("down", *agent.chance.choice([(agent.run,), ("--all",)]), "--yes")


def destroys(agent: Visitor) -> None:
    run = agent.run
    for words in (
        ("checkpoints", "prune", run, "--keep-last", "1", "--yes"),
        ("runs", "prune", "--keep-last", "1", "--yes"), ("runs", "rm", run, "--yes"),
        ("runs", "trash", "--empty", "--yes"), ("promote", run, "--yes"),
    ):  # fmt: skip
        agent.say(*words)


def kills(agent: Visitor) -> None:
    """By number, as anybody of this user can: of a run, or of its supervisor."""
    run = agent.run
    pids = [*agent.crowd.run_of(run).pids().values()]
    if agent.chance.random() < 0.3:
        text = (agent.crowd.run_of(run).folder / ".rltui/journal.jsonl").read_text()
        pids = [int(pid) for pid in re.findall(r"supervisor started, pid (\d+)", text)[-1:]]
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
            agent.crowd.killed += 1


def overspends(agent: Visitor) -> None:
    for trial in range(MOST_TRIALS + 2):
        name = f"trial-{agent.number}-{trial}"
        agent.say("queue", "add", "open/walk.toml", "-l", "lay.toml", "-n", name, "-o", f"out-{name}")


def forges(agent: Visitor) -> None:
    change = agent.chance.choice(
        [
            "-u RLTUI_AGENT",
            "-u RLTUI_AGENT RLTUI_ACTOR=ada",
            "RLTUI_AGENT= RLTUI_ACTOR=ada",
            "RLTUI_AGENT=agent-000",
        ]
    )
    words = agent.chance.choice(
        [("set", agent.run, f"lr={agent.lr()}", "--yes"), ("down", agent.run, "--yes"),
         ("restart", agent.run, "--from-scratch", "--yes"), ("agents", "rights", agent.run, "act")]
    )  # fmt: skip
    agent.say_as(change, *words)


def helps_itself(agent: Visitor) -> None:
    """What is for persons alone."""
    for words in (
        ("agents", "resume"), ("agents", "rights", agent.run, "act"), ("agents", "accept", "kept"),
        ("trust", "."), ("agents", "budget", "--raise", "100"),
    ):  # fmt: skip
        agent.say(*words)


HONEST: tuple[Callable[[Visitor], None], ...] = (looks, looks, sets, notes, restarts)
HOSTILE: tuple[Callable[[Visitor], None], ...] = (
    sets_too_much, sets_another_key, from_scratch, loops, ends, destroys, kills, overspends, forges,
    helps_itself,
)  # fmt: skip


def visit(crowd: Crowd, number: int, seed: int) -> None:
    """Every second agent is honest; the others also do one thing that they may not."""
    agent = Visitor(crowd, number, random.Random(f"{seed} {number}"))
    moves = [agent.chance.choice(HONEST) for _ in range(2)]
    if number % 2:
        moves.insert(1, HOSTILE[number // 2 % len(HOSTILE)])
    for move in moves:
        move(agent)


def found(box: Box) -> Crowd:
    """Five runs, and what agents may do on each."""
    (box.root / "config/rltui").mkdir(parents=True, exist_ok=True)
    (box.root / "config/rltui/settings.toml").write_text(SETTINGS)
    for name in LEVELS:
        start_walk(box, name)
    for name, level in LEVELS.items():
        result = box.run("agents", "rights", name, level)
        assert result.returncode == 0, result
    assert box.run("queue", "pause").returncode == 0
    return Crowd(box)


def person(crowd: Crowd, stop: threading.Event, seed: int) -> None:
    """Accepts and declines what is proposed, changes what it was made from, pauses all agents."""
    chance = random.Random(f"person {seed}")
    box = crowd.box
    while not stop.wait(chance.uniform(1.0, 3.0)):
        for row in box.json("agents", "proposals")["proposals"][:3]:
            if chance.random() < 0.3:
                box.run("set", "kept", f"walk={chance.randrange(24, 60)}", "--yes")
            box.run("agents", chance.choice(["accept", "decline"]), row["run"], row["proposal"]["id"])
        if chance.random() < 0.3:
            assert box.run("agents", "pause").returncode == 0
            began = time.time()
            stop.wait(2.0)
            ended = time.time()
            assert box.run("agents", "resume").returncode == 0
            crowd.pauses.append((began, ended))


def content(folder: Path) -> dict[str, str]:
    """Checkpoint → what is in it, wherever it lies now."""
    return {path.parent.name: path.read_text() for path in folder.rglob("checkpoints/step_*/STABLE")}
