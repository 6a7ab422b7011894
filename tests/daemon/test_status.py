"""What is said of a component in its title."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from rltui.core.api import ComponentState
from rltui.core.evals import EvalRequest, EvalTarget, QueuedEval
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
    seen = SimpleNamespace(facts=lambda name: ())
    builder = cast(StatusBuilder, SimpleNamespace(observation=seen))

    def facts(name: str, *evals: QueuedEval) -> tuple[str, ...]:
        life = SimpleNamespace(state=ComponentState.READY, alive=True)
        runner = SimpleNamespace(spec=SimpleNamespace(id=name), life=life, phase=None)
        return StatusBuilder._facts(builder, cast(ComponentRunner, runner), evals)

    assert facts("eval", RUNNING, WAITING) == ("checkpoint 20 on reverse-text", "24/60 rollouts")
    assert facts("eval-server", RUNNING) == ("checkpoint 20 on reverse-text",)
    assert facts("eval", WAITING) == facts("trainer", RUNNING) == ()
