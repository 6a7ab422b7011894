from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rltui.core.api import Plan, Request
from rltui.core.config_report import Problem
from rltui.daemon.config import Setup
from rltui.daemon.planner import Planned, Planner
from rltui.errors import ConfigError
from rltui.services.runs.experiment_files import ExperimentRecord

OLD, NEW = {"rl": "old"}, {"rl": "new"}
"""Config files: as they are, and as an edit would leave them."""
RESTART = Plan(action="restart", stop=("trainer",), start=("trainer",), base={"/rl.toml": "sha"})


class Box:
    """A planner whose surroundings write down what is asked of them."""

    def __init__(self, plan: Plan, *, edits: bool = False) -> None:
        edit = SimpleNamespace(after=SimpleNamespace(files=NEW, sources={})) if edits else None
        self.made = Planned(plan, cast(Any, edit), 40)
        self.requests: list[Request] = []
        self.rehearsed: list[object] = []
        self.read: list[str] = []
        self.refusal: ConfigError | None = None
        self.accepted: list[object] = []
        self.accepts = False
        self.planner = cast(Any, Planner.__new__(Planner))
        self.planner._plan_now = self._planned
        self.planner._observation = SimpleNamespace(run_id="")
        self.planner._processes = SimpleNamespace(
            orphans=SimpleNamespace(wait_for_searches=self._noted("settled"))
        )
        self.planner._readings = SimpleNamespace(first=self._noted("first"), fresh=self._noted("fresh"))
        self.planner._servers = SimpleNamespace(refresh=self._noted("servers"))
        self.planner._config = SimpleNamespace(
            store=SimpleNamespace(files=OLD),
            validate=self._validate,
            framework_problems=self._framework_problems,
            is_accepted=self._is_accepted,
            can_be_asked=self._can_be_asked,
        )

    async def _framework_problems(self, edit: object, ours: object) -> tuple[Problem, ...]:
        return (Problem(message="theirs"),)

    async def _is_accepted(self, edit: object) -> bool:
        self.accepted.append(edit)
        return self.accepts

    async def _can_be_asked(self, edit: object) -> bool:
        return False

    def _noted(self, name: str) -> Any:
        async def note() -> None:
            self.read.append(name)

        return note

    def _planned(self, request: Request, *, automatic: bool) -> Planned:
        self.requests.append(request)
        return self.made

    async def _validate(self, components: object, files: object, *, resume_step: int, run_id: str) -> None:
        self.rehearsed.append((components, files, resume_step))
        if self.refusal is not None:
            raise self.refusal


async def test_a_restart_is_rehearsed_and_planned_anew() -> None:
    box, request = Box(RESTART), Request(action="restart")
    assert await box.planner.validate_request(request) == request
    assert box.rehearsed == [(("trainer",), OLD, 40)]
    assert (await box.planner.plan_with_edit(request)).plan == RESTART


async def test_an_edit_is_rehearsed_as_it_would_be_and_pinned_to_what_it_was_planned_on() -> None:
    box = Box(RESTART.model_copy(update={"action": "set"}), edits=True)
    pinned = await box.planner.validate_request(Request(action="set", restart=True))
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
    await box.planner.validate_request(Request.model_validate({"action": action}))
    assert box.rehearsed == []
    assert len(box.requests) == 1


async def test_what_the_framework_refuses_is_not_planned_again() -> None:
    box = Box(RESTART)
    box.refusal = ConfigError("refused")
    with pytest.raises(ConfigError, match="refused"):
        await box.planner.validate_request(Request(action="restart"))
    assert len(box.requests) == 1


async def test_only_a_thorough_plan_asks_the_frameworks_own_validators() -> None:
    box = Box(RESTART)
    assert (await box.planner.plan(Request(action="restart"))).problems == ()
    (problem,) = (await box.planner.plan(Request(action="restart", thorough=True))).problems
    assert problem.message == "theirs"


@pytest.mark.parametrize("accepts", [True, False])
async def test_what_our_rules_refuse_and_the_framework_takes_is_planned_again(accepts: bool) -> None:
    rejected = RESTART.model_copy(update={"problems": (Problem(message="no", file="/rl.toml"),)})
    box = Box(rejected, edits=True)
    box.accepts = accepts
    await box.planner.plan(Request(action="set"))
    assert box.accepted == [box.made.edit]
    assert len(box.requests) == (2 if accepts else 1)


async def test_a_dry_run_does_not_wait_for_the_framework() -> None:
    rejected = RESTART.model_copy(update={"problems": (Problem(message="no", file="/rl.toml"),)})
    box = Box(rejected, edits=True)
    assert await box.planner.plan(Request(action="set", unasked=True)) == rejected
    assert box.accepted == []


async def test_processes_are_freed_by_a_fresh_reading_once_leftovers_are_known() -> None:
    box = Box(RESTART)
    await box.planner.plan(Request(action="free", pids=(4711,)))
    await box.planner.plan(Request(action="restart"))
    assert box.read == ["settled", "fresh", "servers", "settled", "first", "servers"]


LAYOUT = '[[component]]\nid = "a"\ncommand = ["sleep", "9"]\n'


def test_a_layout_that_was_edited_is_told_in_every_plan(tmp_path: Path) -> None:  # G7
    file = tmp_path / "parts.toml"
    file.write_text(LAYOUT)
    setup = Setup.of(ExperimentRecord("one", str(tmp_path), str(tmp_path), (), str(file), "generic", 1.0))
    file.write_text(f"# a comment changes nothing\n{LAYOUT}")
    assert setup.layout_problems() == ()
    file.write_text(LAYOUT.replace("9", "10"))
    (problem,) = setup.layout_problems()
    assert problem.severity == "warning"
    assert "the layout was changed since this experiment's supervisor started" in problem.message
    file.write_text("[[component]]\n")
    (problem,) = setup.layout_problems()
    assert "cannot be read any more" in problem.message
