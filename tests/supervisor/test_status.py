"""The status that a supervisor builds: which components there are, and the texts about them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.supervisor.conftest import enter

from rltui.core.experiment.api import ComponentStatus
from rltui.core.experiment.states import ComponentState
from rltui.core.runs.evals import EvalRequest, EvalTarget, QueuedEval
from rltui.supervisor.supervisor import Supervisor

RUNNING = QueuedEval(
    id="3",
    request=EvalRequest(target=EvalTarget(kind="checkpoint", step=20)),
    env="reverse-text",
    state="running",
    done=24,
)
WAITING = RUNNING.replace(id="4", state="waiting")


def components(supervisor: Supervisor, *evals: QueuedEval) -> dict[str, ComponentStatus]:
    status = supervisor.builder.build(
        transaction=None, down=None, rollback=None, evals=evals, proposals=(), agents=()
    )
    return {component.id: component for component in status.components}


async def test_an_evaluation_says_how_far_it_is(supervisor: Supervisor) -> None:
    for name in ("trainer", "eval", "eval-server"):
        enter(supervisor, name, ComponentState.READY)
    shown = components(supervisor, RUNNING, WAITING)
    assert shown["eval"].facts == ("checkpoint 20 on reverse-text", "24/60 rollouts")
    assert shown["eval-server"].facts == ("checkpoint 20 on reverse-text",)
    assert components(supervisor, WAITING)["eval"].facts == shown["trainer"].facts == ()


@pytest.mark.parametrize(
    ("component", "state", "ago_s", "is_listed"),
    [
        ("eval", ComponentState.FAILED, 100.0, True),
        ("eval", ComponentState.FAILED, 400.0, False),
        ("eval", ComponentState.EXITED, 400.0, False),
        ("eval", ComponentState.STOPPED, 1.0, False),
        ("eval", ComponentState.READY, 400.0, True),
        ("trainer", ComponentState.FAILED, 400.0, True),
    ],
)
async def test_a_failed_evaluation_is_shown_for_minutes_and_no_longer(
    supervisor: Supervisor, component: str, state: ComponentState, ago_s: float, is_listed: bool
) -> None:
    """R2: it stayed in every status for ever. `ago_s`: when its last attempt ended."""
    record = SimpleNamespace(started_at=0.0, ended_at=time.time() - ago_s, main=None)
    attempt = SimpleNamespace(number=1, log=None, launch=None, record=record)
    handle: Any = SimpleNamespace(attempt=attempt, status=None, main=None)
    supervisor.runtime.processes.runners[component].handle = handle
    enter(supervisor, component, state)
    assert (component in components(supervisor)) == is_listed


async def test_who_waits_without_a_reason_waits_for_its_config(supervisor: Supervisor) -> None:
    """R8: for 95 seconds a start said nothing."""
    enter(supervisor, "trainer", ComponentState.WAITING)
    assert components(supervisor)["trainer"].reason is None
    supervisor.runtime.config.makes_configs = True
    assert (
        components(supervisor)["trainer"].reason == "waiting for its config, which the framework is writing"
    )
    enter(supervisor, "trainer", ComponentState.WAITING, "waiting for inference")
    assert components(supervisor)["trainer"].reason == "waiting for inference"
