"""An agent that follows the skill line by line, on a real run of the embedded engine."""

from __future__ import annotations

import shlex
import subprocess
import venv
from pathlib import Path

import pytest
from tests.cli.test_skill import command_lines
from tests.conftest import Box
from tests.engine import write_example
from tests.waiting import retry_until

from rltui.cli.commands.skill import skill_text

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = {
    "interval = 10 ": "interval = 4 ",
    "batch_size = 128 ": "batch_size = 32 ",
    "rollouts_per_example = 16 ": "rollouts_per_example = 8 ",
}
WORDS = {
    "RUN": "one", "COMPONENT": "trainer", "RUN/COMPONENT": "one/trainer", "NAME": "two",
    "A": "one", "B": "two", "KEY=VALUE": "trainer.optim.lr=3e-4",
    "proposal:ID": "proposal:p1", "max_steps=20": "max_steps=2", "seed=0..2": "seed=0",
    "step>=200 or alert": "step>=6 or alert", "reward>0.9 and step>=50": "reward>=0 and step>=6",
    **{f"A{number}": "one" for number in (1, 2, 3)}, **{f"B{number}": "two" for number in (1, 2, 3)},
}  # fmt: skip
"""Words that the skill leaves open, and counts that would take long → those of this test."""


def test_every_line_of_the_skill_does_what_it_says(box: Box, free_port: int) -> None:
    write_example(box.work, port=free_port, steps=400, replaced=SMALL, sft_steps=30)
    agent = box.as_agent()
    agent.json("up", "sft.toml", "rl.toml", "-n", "one", "-o", "one", timeout_s=300.0)
    retry_until(lambda: (box.status("one")["step"] or 0) >= 9, timeout_s=120.0)
    words = dict(WORDS)
    failed = []
    for line in command_lines():
        code = 0
        if line[0] == "events" and "CURSOR" not in line:
            words["CURSOR"] = str(agent.json("events", "one", "--limit", "10")["cursor"])
        elif line[:2] == ["checkpoints", "restore"]:
            agent.json("wait", "one", "--until", "settled", "--timeout", "100", timeout_s=120.0)
            oldest = agent.json("checkpoints", "one")["checkpoints"][0]["step"]
            agent.json("restart", "one", "--from", str(oldest), "--yes", "--wait")
        elif line[0] == "bench":
            words["NAME"] = "tries"
        elif line[0] == "set" and "--reason" in line:
            agent, code, words["KEY=VALUE"] = box.as_agent(rights="propose"), 2, "trainer.optim.lr=4e-4"
        elif line[0] == "wait" and "proposal:ID" in line:
            assert box.run("agents", "accept", "one", "p1").returncode == 0
            agent = box.as_agent()
        command = [words.get(word, word) for word in line]
        result = agent.run(*command, timeout_s=300.0)
        print("$ rltui", shlex.join(command), "->", result.returncode, flush=True)
        if result.returncode != code or "Traceback" in result.stderr:
            failed.append(f"{shlex.join(command)}: {result.returncode}: {result.stderr or result.stdout}")
    assert not failed, "\n".join(failed)
    assert box.tagged("one") == box.tagged("two") == []


def test_the_public_validator_takes_the_skill(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    install = [str(tmp_path / "venv/bin/pip"), "install", "-q", "skills-ref"]
    if subprocess.run(install, capture_output=True, check=False, timeout=200).returncode:
        pytest.skip("skills-ref cannot be installed here")
    folder = tmp_path / "rltui"
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_text())
    command = [str(tmp_path / "venv/bin/agentskills"), "validate", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
