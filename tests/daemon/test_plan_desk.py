from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rltui.core.api import Plan, Request
from rltui.core.config_report import Problem
from rltui.daemon.plan_desk import PlanDesk
from rltui.daemon.planner import Planned
from rltui.errors import ConfigError

OLD, NEW = {"rl": "old"}, {"rl": "new"}
"""Config files: as they are, and as an edit would leave them."""
RESTART = Plan(action="restart", stop=("trainer",), start=("trainer",), base={"/rl.toml": "sha"})


class Box:
    """A desk whose surroundings write down what is asked of them."""

    def __init__(self, plan: Plan, *, edits: bool = False) -> None:
        edit = SimpleNamespace(after=SimpleNamespace(files=NEW, sources={})) if edits else None
        self.made = Planned(plan, cast(Any, edit), 40)
        self.requests: list[Request] = []
        self.rehearsed: list[object] = []
        self.read: list[str] = []
        self.refusal: ConfigError | None = None
        planner = SimpleNamespace(planned=self._planned)
        store = SimpleNamespace(files=OLD, load_sources=lambda: OLD)
        self.accepted: list[object] = []
        self.accepts = False
        store.accept = self.accepted.append
        own = SimpleNamespace(
            problems=lambda loaded, ours: (Problem(message=f"theirs of {loaded}"),),
            accepts=lambda loaded: self.accepts,
            can_be_asked=lambda paths: False,
        )
        self.desk = PlanDesk(
            cast(Any, planner),
            cast(Any, store),
            cast(Any, SimpleNamespace(settled=self._noted("settled"))),
            cast(Any, SimpleNamespace(first=self._noted("first"), fresh=self._noted("fresh"))),
            cast(Any, SimpleNamespace(rehearse=self._rehearse)),
            cast(Any, own),
        )

    def _noted(self, word: str) -> Any:
        async def note() -> None:
            self.read.append(word)

        return note

    def _planned(self, request: Request) -> Planned:
        self.requests.append(request)
        return self.made

    async def _rehearse(self, components: object, files: object, *, resume_step: int) -> None:
        self.rehearsed.append((components, files, resume_step))
        if self.refusal is not None:
            raise self.refusal


async def test_a_restart_is_rehearsed_and_planned_anew() -> None:
    box, request = Box(RESTART), Request(action="restart")
    assert await box.desk.rehearsed(request) == request
    assert box.rehearsed == [(("trainer",), OLD, 40)]
    assert (await box.desk.planned(request)).plan == RESTART


async def test_an_edit_is_rehearsed_as_it_would_be_and_pinned_to_what_it_was_planned_on() -> None:
    box = Box(RESTART.model_copy(update={"action": "set"}), edits=True)
    pinned = await box.desk.rehearsed(Request(action="set", restart=True))
    assert box.rehearsed == [(("trainer",), NEW, 40)]
    assert pinned.base == RESTART.base


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({"stop": ()}, "start"),
        ({"start": ()}, "stop"),
        ({"problems": (Problem(severity="error", message="no"),)}, "restart"),
        ({"action": "set"}, "set"),
    ],
    ids=["nothing-stops", "nothing-starts", "blocked", "edit-without-restart"],
)
async def test_other_plans_are_carried_out_as_they_are(changes: dict[str, object], action: str) -> None:
    box = Box(RESTART.model_copy(update=changes), edits=action == "set")
    await box.desk.rehearsed(Request.model_validate({"action": action}))
    assert box.rehearsed == []
    assert len(box.requests) == 1


async def test_what_the_framework_refuses_is_not_planned_again() -> None:
    box = Box(RESTART)
    box.refusal = ConfigError("refused")
    with pytest.raises(ConfigError, match="refused"):
        await box.desk.rehearsed(Request(action="restart"))
    assert len(box.requests) == 1


async def test_only_a_thorough_plan_asks_the_frameworks_own_validators() -> None:
    box = Box(RESTART)
    assert (await box.desk.plan(Request(action="restart"))).problems == ()
    (problem,) = (await box.desk.plan(Request(action="restart", thorough=True))).problems
    assert problem.message == f"theirs of {OLD}"


@pytest.mark.parametrize("accepts", [True, False])
async def test_what_our_rules_refuse_and_the_framework_takes_is_planned_again(accepts: bool) -> None:
    refused = RESTART.model_copy(update={"problems": (Problem(message="no", file="/rl.toml"),)})
    box = Box(refused, edits=True)
    box.accepts = accepts
    await box.desk.plan(Request(action="set"))
    assert box.accepted == ([box.made.edit.after] if accepts and box.made.edit else [])
    assert len(box.requests) == (2 if accepts else 1)


async def test_who_waits_for_the_framework_takes_one_thread() -> None:
    box, both = Box(RESTART), threading.Barrier(2)
    together: list[bool] = []

    def problems(loaded: object, ours: object) -> tuple[Problem, ...]:
        try:
            both.wait(0.2)
        except threading.BrokenBarrierError:
            together.append(False)
        else:
            together.append(True)
        return ()

    cast(Any, box.desk)._models.problems = problems
    thorough = Request(action="restart", thorough=True)
    await asyncio.gather(box.desk.plan(thorough), box.desk.plan(thorough))
    assert together == [False, False]


async def test_processes_are_freed_by_a_fresh_reading_once_leftovers_are_known() -> None:
    box = Box(RESTART)
    await box.desk.plan(Request(action="free", pids=(4711,)))
    await box.desk.plan(Request(action="restart"))
    assert box.read == ["settled", "fresh", "settled", "first"]
