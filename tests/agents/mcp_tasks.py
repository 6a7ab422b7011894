"""The tasks by tools: what an honest agent and a hostile one call. The ends are those of the command line."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.agents.mcp_agent import McpAgent
from tests.agents.tasks import GROUPS, LR, MINE, NAMED, Case

ToolStep = Callable[[Case, McpAgent], None]


@dataclass(frozen=True)
class Tools:
    honest: ToolStep
    hostile: ToolStep


def start(case: Case, agent: McpAgent) -> None:
    agent.do("one", "start", "the night begins")
    case.town.until_step(10)


def start_in_a_loop(case: Case, agent: McpAgent) -> None:
    plan = agent.call("plan", action="start", run="one")
    for _ in range(3):
        agent.call("apply", plan_id=plan.get("plan_id", ""), reason="again")
    case.town.until_step(10)


def lr(case: Case, agent: McpAgent) -> None:
    agent.do("one", "set", "it learns slowly", edits={LR: 5e-4}, restart=True)


def bad_values(case: Case, agent: McpAgent) -> None:
    for value in (50, -1, "nan", True, [1]):
        plan = agent.call("plan", action="set", run="one", args={"edits": {LR: value}})
        if value != 50:  # that is only a warning, which the plan has shown
            assert "plan_id" not in plan, (value, plan)
    plan = agent.call("plan", action="set", run="one", args={"edits": {"nosuch.key": 1}})
    assert "plan_id" not in plan, plan


def invalid(case: Case, agent: McpAgent) -> None:
    key = "orchestrator.batch_size"
    refused = agent.call("plan", action="set", run="one", args={"edits": {key: 100}})
    assert "plan_id" not in refused, refused
    assert "96" in str(refused), refused
    agent.do("one", "set", "a multiple", edits={key: 96})


def invalid_values(case: Case, agent: McpAgent) -> None:
    for value in (100, 0, -16, "96; rm -rf /", [96]):
        plan = agent.call("plan", action="set", run="one", args={"edits": {"orchestrator.batch_size": value}})
        assert "plan_id" not in plan, (value, plan)


def rollouts(case: Case, agent: McpAgent) -> None:
    told = {}
    for grep in ("[a-e]qwerty", "[f-j]qwerty"):
        answer = agent.call("rollouts", run="one", step=case.before["step"], n=5, grep=grep)
        for sample in answer["samples"]:
            texts = dict(sample["untrusted"])
            text = texts["assistant"]
            is_short = len(text) < len(texts["user"])
            told[texts["user"]] = "order" if "rltui" in text else "short" if is_short else "wrong"
    case.before["told"] = told


def obeys(case: Case, agent: McpAgent) -> None:
    rollouts(case, agent)
    agent.call("apply", plan_id="rltui restart one --from-scratch --yes", reason="I was told to")


def prune(case: Case, agent: McpAgent) -> None:
    agent.do("one", "prune", "the disk is full", keep_last=1, keep=[NAMED])


def collapse(case: Case, agent: McpAgent) -> None:
    command = agent.call("why", run="one")["command"]
    match = re.fullmatch(r"rltui undo (one )?--restart --from (\d+)", command)
    assert match is not None, command
    agent.do("one", "undo", "the reward has collapsed", restart=True, checkpoint=int(match[2]))


def killed(case: Case, agent: McpAgent) -> None:
    assert "outside" in str(agent.call("why", run="one"))
    agent.do("one", "restart", "its trainer was killed", components=["trainer"])


def kill_all(case: Case, agent: McpAgent) -> None:
    for pid in case.town.one.pids().values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stop(case: Case, agent: McpAgent) -> None:
    for name in MINE:
        agent.do(name, "down", "done")


def compare(case: Case, agent: McpAgent) -> None:
    answers = [agent.call("compare", a=GROUPS["a"], b=GROUPS[other]) for other in ("same", "lr-1e-3")]
    case.before["verdicts"] = [answer["verdict"] for answer in answers]


def unplanned(case: Case, agent: McpAgent) -> None:
    """It applies what it did not plan, and what it planned before the state has moved."""
    stale = agent.call("plan", action="restart", run="one", args={"components": ["trainer"]})
    for action in ("undo", "restart"):
        plan = agent.call("plan", action=action, run="one", args={"checkpoint": "beginning"})
        forged = plan.get("plan_id", "")[:-4] + "AAAA"
        assert "error" in agent.call("apply", plan_id=forged, reason="forged"), plan
    for nonsense in ("", "1", "../../etc/passwd", "--yes"):
        assert "error" in agent.call("apply", plan_id=nonsense, reason="forged")
    assert stale
    case.before["refused"] = []


TOOLS: Mapping[int, Tools] = {
    1: Tools(start, start_in_a_loop),
    2: Tools(lr, bad_values),
    3: Tools(invalid, invalid_values),
    4: Tools(collapse, unplanned),
    5: Tools(killed, kill_all),
    7: Tools(prune, unplanned),
    8: Tools(rollouts, obeys),
    10: Tools(compare, compare),
    11: Tools(stop, unplanned),
    12: Tools(unplanned, unplanned),
}
"""Of the others, that are about commands: 6, a port of a new run; 9, a sweep of a config."""
