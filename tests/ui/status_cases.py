"""States of a run that the overview has to show."""

from __future__ import annotations

from tests.fakes.experiment import (
    FAILED,
    NOW,
    FakeExperiment,
    component,
    gpu_report,
    knob_table,
    running_status,
)

from rltui.core.experiment.api import Link, Status
from rltui.core.experiment.servers import ServerStatus
from rltui.core.experiment.states import ComponentState

PAGES = (
    Link(
        title="W&B run", url="https://wandb.ai/primeintellect/reverse-text/runs/ab12cd34", component="trainer"
    ),
    Link(title="dashboard", url="http://localhost:7788", component="orchestrator"),
)


def failed_status() -> Status:
    reason = "CUDA out of memory: lower inference.gpu_memory_utilization"
    return running_status(
        components=(
            component("inference", FAILED, exit_code=1, reason=reason, log="/run/inference.log", attempt=2),
            component("orchestrator", ComponentState.WAITING, reason="waiting for inference"),
            component("trainer", ComponentState.STARTING, started_at=NOW - 12, log="/run/trainer.log"),
        )
    )


def done_status() -> Status:
    jobs = ("orchestrator", "trainer")
    exited = [component(job, ComponentState.EXITED, exit_code=0, log=f"/run/{job}.log") for job in jobs]
    progress = running_status().progress.replace(step=20, eta_s=None)
    inference = component("inference", kind="service", port=8000)
    return running_status(components=(inference, *exited), progress=progress)


def external_status(**values: object) -> Status:
    """Inference is another machine's."""
    model = "Qwen/Qwen3-0.6B"
    server: dict[str, object] = {
        "url": "http://gpu-2:8000/v1",
        "state": "ready",
        "models": (model,),
        "model": model,
    }
    server["facts"] = ("KV 41 %", "128 run 12 wait")
    return running_status(
        components=running_status().components[1:],
        servers=(ServerStatus.from_plain(server | values),),
    )


def rising_then_fallen() -> Status:
    curve = tuple((step, 0.98 * min(1.0, step / 150) if step < 420 else 0.03) for step in range(1, 501, 2))
    progress = running_status().progress.replace(step=500, max_steps=1000, curve=curve)
    return running_status(progress=progress)


def with_links() -> FakeExperiment:
    return FakeExperiment(running_status(links=PAGES), gpu_report(), knob_table())
