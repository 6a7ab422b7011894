"""One decision at a time, and none to start something once everything is being shut down."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rltui.core.experiment.api import Plan, Request
from rltui.errors import ConflictError
from rltui.services.experiment.trust import is_layout_trusted
from rltui.supervisor.planner import Planned, Planner
from rltui.supervisor.supervisor import Supervisor
from rltui.supervisor.transactions import Transactions

START = Request(action="start")


async def _unchanged(_: Planner, request: Request) -> Request:
    return request


async def test_one_decides_at_a_time(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding A5: between the look and the beginning, another had begun."""
    order: list[str] = []

    async def plan(_: Planner, request: Request) -> Any:
        order.append(f"{request.components[0]} looks")
        await asyncio.sleep(0)
        order.append(f"{request.components[0]} decides")
        raise ConflictError("no")

    monkeypatch.setattr(Planner, "validate_request", _unchanged)
    monkeypatch.setattr(Planner, "plan_with_edit", plan)
    requests = (START.replace(components=(name,)) for name in ("one", "two"))
    await asyncio.gather(*map(supervisor.commands.execute, requests), return_exceptions=True)
    assert order == ["one looks", "one decides", "two looks", "two decides"]


@pytest.mark.parametrize(
    ("plan", "trusted"), [(Plan(stop=("trainer",)), False), (Plan(start=("trainer",)), True)]
)
async def test_who_starts_something_means_its_programs_to_run_and_who_stops_it_does_not(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, plan: Plan, trusted: bool
) -> None:
    async def planned(*_: object) -> Planned:
        return Planned(plan)

    monkeypatch.setattr(Planner, "validate_request", _unchanged)
    monkeypatch.setattr(Planner, "plan_with_edit", planned)
    monkeypatch.setattr(Transactions, "start", lambda *_: None)
    await supervisor.commands.execute(Request(action="restart"))
    assert is_layout_trusted(Path(supervisor.runtime.setup.record.layout_file)) is trusted


async def test_a_shutdown_lets_a_decision_finish_and_then_nothing_starts(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    decides, decided = asyncio.Event(), asyncio.Event()

    async def plan(_: Planner, request: Request) -> Any:
        decides.set()
        await decided.wait()
        raise ConflictError("no")

    monkeypatch.setattr(Planner, "validate_request", _unchanged)
    monkeypatch.setattr(Planner, "plan_with_edit", plan)
    executing = asyncio.create_task(supervisor.commands.execute(START))
    await decides.wait()
    closing = asyncio.create_task(supervisor.shut_down("ada"))
    await asyncio.sleep(0.05)
    assert not supervisor.commands.finished.is_set(), "whoever decides is let finish"
    decided.set()
    await closing
    with pytest.raises(ConflictError, match="no"):
        await executing
    with pytest.raises(ConflictError, match="shut down by ada"):
        await supervisor.commands.execute(START)
