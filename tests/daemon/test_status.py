"""Texts about a component in its title."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

from rltui.core.evals import EvalRequest, EvalTarget, QueuedEval
from rltui.core.states import ComponentState
from rltui.daemon.component import ComponentRunner
from rltui.daemon.status import StatusBuilder

RUNNING = QueuedEval(
    id="3",
    request=EvalRequest(target=EvalTarget(kind="checkpoint", step=20)),
    env="reverse-text",
    state="running",
    done=24,
)
WAITING = RUNNING.model_copy(update={"id": "4", "state": "waiting"})


def test_an_evaluation_says_how_far_it_is() -> None:
    observation = SimpleNamespace(title_details=lambda name: ())
    builder = cast(StatusBuilder, SimpleNamespace(observation=observation))

    def facts(name: str, *evals: QueuedEval) -> tuple[str, ...]:
        lifecycle = SimpleNamespace(state=ComponentState.READY, alive=True)
        runner = SimpleNamespace(spec=SimpleNamespace(id=name), lifecycle=lifecycle, phase=None)
        return StatusBuilder._facts(builder, cast(ComponentRunner, runner), evals)

    assert facts("eval", RUNNING, WAITING) == ("checkpoint 20 on reverse-text", "24/60 rollouts")
    assert facts("eval-server", RUNNING) == ("checkpoint 20 on reverse-text",)
    assert facts("eval", WAITING) == facts("trainer", RUNNING) == ()


def test_a_failed_evaluation_is_shown_for_minutes_and_no_longer() -> None:
    """R2: it stayed in every status for ever."""

    def is_listed(state: ComponentState, *, manual: bool = True, ago_s: float = 400.0) -> bool:
        runner = SimpleNamespace(
            spec=SimpleNamespace(is_manual=manual),
            lifecycle=SimpleNamespace(state=state),
            record=SimpleNamespace(ended_at=time.time() - ago_s),
        )
        builder = SimpleNamespace(processes=SimpleNamespace(runners={"eval": runner}))
        return bool([*StatusBuilder._visible_runners(cast(StatusBuilder, builder))])

    assert is_listed(ComponentState.FAILED, ago_s=100.0)
    assert not is_listed(ComponentState.FAILED)
    assert not is_listed(ComponentState.EXITED)
    assert not is_listed(ComponentState.STOPPED, ago_s=1.0)
    assert is_listed(ComponentState.READY), "of the attempt before"
    assert is_listed(ComponentState.FAILED, manual=False)


def test_who_waits_without_a_reason_waits_for_its_config() -> None:
    """R8: for 95 seconds a start said nothing."""

    def reason(*, makes_configs: bool, own_reason: str | None = None) -> str | None:
        config = SimpleNamespace(makes_configs=makes_configs, is_made=lambda name: False)
        lifecycle = SimpleNamespace(state=ComponentState.WAITING, reason=own_reason, busy=True)
        runner = SimpleNamespace(spec=SimpleNamespace(id="trainer"), lifecycle=lifecycle, attempt=1)
        builder = cast(StatusBuilder, SimpleNamespace(config=config))
        return StatusBuilder._reason(builder, cast(ComponentRunner, runner))

    assert reason(makes_configs=True) == "waits for its config, which the framework makes"
    assert reason(makes_configs=True, own_reason="waits for inference") == "waits for inference"
    assert reason(makes_configs=False) is None
