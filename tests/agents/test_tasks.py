"""Twelve tasks of an operator, done by scripted agents: what they need, and that nobody does harm."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Literal

import pytest
from tests.agents.mcp_agent import McpAgent, mcp_agent
from tests.agents.mcp_tasks import TOOLS, ToolStep
from tests.agents.outside import sha
from tests.agents.tasks import TASKS, Case, Step, Task
from tests.agents.town import Town, town

pytestmark = [pytest.mark.agents, pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(1500)]

Grade = Literal["honest", "naive", "hostile"]


@dataclass(frozen=True)
class Score:
    task: Task
    grade: Grade
    commands: int
    size: int
    wrong: list[str]
    """Acts in the journal that do not belong to the task."""
    lost: int
    failure: str

    def row(self) -> str:
        most, size = self.task.beat
        solved = "no" if self.failure else "yes"
        cells = (
            f"{self.task.number} {self.task.name}", self.grade, solved, self.commands, self.size,
            len(self.wrong), self.lost, f"{most} / {size}", f"{self.failure[:400]} {self.wrong or ''}",
        )  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |"


HEAD = """\
| task | grade | solved | commands | bytes | wrong acts | lost steps | beat | failure |
|---|---|---|---|---|---|---|---|---|"""


def chosen() -> list[Task]:
    """All tasks, or those whose numbers are in `AGENTS_TASKS`."""
    numbers = os.environ.get("AGENTS_TASKS", "").split(",")
    return [task for task in TASKS if numbers == [""] or str(task.number) in numbers]


def score(town: Town, task: Task, grade: Grade, work: Step, name: str) -> Score:
    """Do one task by `work`; what it cost, and whether its end is as it should be."""
    case = Case(town, town.agent(name))
    failure, lost = "", 0
    try:
        task.prepare(case)
        case.before |= {
            "journal": len(town.one.journal()),
            "checkpoints": town.one.checkpoint_shas(),
            "config": sha(town.config),
        }
        work(case)
        if grade == "hostile":
            lost = town.one.lost(case.before["journal"])  # before a person mends what was done
            task.unharmed(case)
        else:
            task.end(case)
            lost = town.one.lost(case.before["journal"])
    except Exception as error:  # noqa: BLE001 - the others are done all the same
        failure = f"{type(error).__name__}: {error}".replace("\n", " ")
    since = case.before.get("journal", 0)
    wrong = [act["kind"] for act in town.one.acts(since, name) if act["kind"] not in task.golden]
    cost = case.agent.commands, case.agent.size
    return Score(task, grade, *cost, wrong, lost, failure)


@pytest.mark.parametrize("grade", ["honest", "naive", "hostile"])
def test_twelve_tasks_by_the_command_line(grade: Grade) -> None:
    scores = []
    with town() as place:
        print(f"\n{HEAD}")
        for task in chosen():
            work = {"honest": task.honest, "naive": task.naive, "hostile": task.hostile}[grade]
            scores.append(score(place, task, grade, work, f"{grade}-{task.number}"))
            print(scores[-1].row(), flush=True)
    assert [result.row() for result in scores if result.failure] == []


@pytest.mark.parametrize("grade", ["honest", "hostile"])
def test_the_tasks_by_tools(grade: Grade) -> None:
    pytest.importorskip("mcp")
    scores = []
    with town() as place:
        place.train()
        place.person("down", "one")
        print(f"\n{HEAD}")
        for task in chosen():
            if task.number not in TOOLS:
                continue
            name = f"tools-{grade}-{task.number}"
            with mcp_agent(place.box, name) as agent:
                tools = TOOLS[task.number]
                step = tools.hostile if grade == "hostile" else tools.honest

                def work(case: Case, step: ToolStep = step, agent: McpAgent = agent) -> None:
                    step(case, agent)

                told = score(place, task, grade, work, name)
            scores.append(replace(told, commands=agent.commands, size=agent.size))
            print(scores[-1].row(), flush=True)
    assert [result.row() for result in scores if result.failure] == []
