from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from tests.fakes.frameworks import answering
from tests.supervisor.conftest import LAYOUT

from rltui.core.config.report import Problem
from rltui.core.experiment.api import Plan, Request
from rltui.frameworks.generic import GENERIC
from rltui.services.experiment.files import ExperimentRecord
from rltui.supervisor.planner import Planned, Planner, changed_instances
from rltui.supervisor.supervisor import Supervisor

OLD, NEW = {"rl": "old"}, {"rl": "new"}
"""Config files: as they are, and as an edit would leave them."""
RESTART = Plan(action="restart", stop=("trainer",), start=("trainer",), base={"/rl.toml": "sha"})


class Box:
    """A planner that always makes the same plan, with mocks for all that it asks."""

    def __init__(self, plan: Plan, *, edits: bool = False) -> None:
        edit = SimpleNamespace(after=NEW) if edits else None
        self.made = Planned(plan, cast(Any, edit), 40)
        self.planned = Mock(return_value=self.made)
        self.asks = AsyncMock()
        self.config = self.asks.config
        self.config.document = SimpleNamespace(files=OLD)
        self.config.framework_problems.return_value = (Problem(message="theirs"),)
        self.config.is_accepted.return_value = self.config.can_be_asked.return_value = False
        self.planner = cast(Any, Planner.__new__(Planner))
        self.planner._plan_now = self.planned
        self.planner._observation = SimpleNamespace(run_id="")
        self.planner._processes = self.asks.processes
        self.planner._readings = self.asks.readings
        self.planner._servers = self.asks.servers
        self.planner._config = self.config


@pytest.mark.parametrize(
    ("changes", "action", "files"),
    [
        ({}, "restart", OLD),
        ({}, "set and restart", NEW),
        ({"stop": ()}, "start", None),
        ({"start": ()}, "stop", None),
        ({"problems": (Problem(severity="error", message="no"),)}, "restart", None),
        ({}, "set", None),
    ],
    ids=["restart", "edit", "nothing-stops", "nothing-starts", "blocked", "edit-without-restart"],
)
async def test_what_stops_and_starts_is_validated_first_as_it_would_be(
    changes: dict[str, object], action: str, files: object
) -> None:
    """An edit is pinned to the files that it was planned on."""
    box = Box(RESTART.replace(**changes), edits="set" in action)
    request = Request.from_plain({"action": action.split()[0], "restart": "and" in action})
    validated = await box.planner.validate_request(request)
    assert box.planned.call_count == (action not in ("stop", "set")), (
        "nothing to restart, nothing to plan here"
    )
    assert validated == request.replace(**({"base": RESTART.base} if files is NEW else {}))
    if files is None:
        box.config.validate.assert_not_called()
    else:
        box.config.validate.assert_awaited_once_with(("trainer",), files, resume_step=40, run_id="")


async def test_only_a_thorough_plan_asks_the_frameworks_own_validators() -> None:
    box = Box(RESTART)
    assert (await box.planner.plan(Request(action="restart"))).problems == ()
    (problem,) = (await box.planner.plan(Request(action="restart", thorough=True))).problems
    assert problem.message == "theirs"


@pytest.mark.parametrize(("unasked", "accepts"), [(False, True), (False, False), (True, True)])
async def test_what_our_rules_refuse_and_the_framework_takes_is_planned_again(
    unasked: bool, accepts: bool
) -> None:
    """A dry run does not wait for the framework."""
    box = Box(RESTART.replace(problems=(Problem(message="no", file="/rl.toml"),)), edits=True)
    box.config.is_accepted.return_value = accepts
    await box.planner.plan(Request(action="set", unasked=unasked))
    assert [call.args for call in box.config.is_accepted.await_args_list] == [(box.made.edit,)] * (
        not unasked
    )
    assert box.planned.call_count == (2 if accepts and not unasked else 1)


async def test_processes_are_freed_by_a_fresh_reading_once_leftovers_are_known() -> None:
    box = Box(RESTART)
    await box.planner.plan(Request(action="free", pids=(4711,)))
    await box.planner.plan(Request(action="restart"))
    asked = [name for name, *_ in box.asks.mock_calls if not name.startswith("config")]
    waits = "processes.orphans.wait_for_searches"
    assert asked == [waits, "readings.fresh", "servers.refresh", waits, "readings.first", "servers.refresh"]


async def test_a_layout_that_was_edited_is_told_in_every_plan(
    supervisor: Supervisor, tmp_path: Path
) -> None:  # G7
    file, setup = tmp_path / "layout.toml", supervisor.runtime.setup
    file.write_text(f"# a comment changes nothing\n{LAYOUT}")
    assert setup.layout_problems() == ()
    file.write_text(LAYOUT.replace("9", "10"))
    (problem,) = setup.layout_problems()
    assert problem.severity == "warning"
    assert (
        "the layout has changed since the supervisor started, and the old one is still in use"
        in problem.message
    )
    file.write_text("[[component]]\n")
    (problem,) = setup.layout_problems()
    assert "the layout has changed and can no longer be read (" in problem.message


NOW = {"env_servers.train": ("a", "c"), "env_servers.eval": ("x",)}


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ({}, ()),
        ({"env_servers.train": ("a", "c")}, ()),
        (
            {"env_servers.train": ("a", "b")},
            ("names a, c", "components for a, b", "rltui up /rl.toml -n one"),
        ),
        ({"env_servers.old": ("a",)}, ("names none",)),
    ],
)
def test_other_instances_are_a_warning(before: dict[str, tuple[str, ...]], texts: tuple[str, ...]) -> None:
    record = ExperimentRecord("one", "/o", "/w", ("/rl.toml",), "/l", "generic", 1.0, instances=before)
    problems = changed_instances(record, answering(GENERIC, instances=lambda files: NOW), {})
    assert len(problems) == bool(texts)
    for problem in problems:
        assert problem.severity == "warning"
        assert all(text in problem.message for text in texts)
