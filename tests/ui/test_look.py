"""What the screens look like. Review the pictures before `--snapshot-update`."""

from __future__ import annotations

from typing import Protocol

import pytest
from tests.fakes.experiment import (
    FAILED,
    NO_GPU,
    NOW,
    FakeExperiment,
    component,
    gpu_report,
    knob_table,
    running_status,
    stopped_status,
)
from tests.params import slow_but
from tests.ui.conftest import make_app, press, settle
from tests.ui.trouble import (
    SECOND_LEFTOVER,
    backoff_status,
    orphans_status,
    plan_with_everything,
    stalled_status,
    unwell_status,
    waiting_status,
)
from textual.pilot import Pilot

from rltui.core.api import Status
from rltui.core.servers import ServerStatus
from rltui.core.states import ComponentState

HUGE = (200, 50)
WIDE = (160, 45)
SMALL = (80, 24)
MIDDLE = (120, 36)


class SnapCompare(Protocol):
    def __call__(self, app: object, **options: object) -> bool: ...


def failed_status() -> Status:
    reason = "CUDA out of memory: lower inference.gpu_memory_utilization"
    return running_status(
        components=(
            component("inference", FAILED, exit_code=1, reason=reason, log="/run/inference.log", attempt=2),
            component("orchestrator", ComponentState.WAITING, reason="waits for inference"),
            component("trainer", ComponentState.STARTING, started_at=NOW - 12, log="/run/trainer.log"),
        )
    )


def done_status() -> Status:
    jobs = ("orchestrator", "trainer")
    exited = [component(job, ComponentState.EXITED, exit_code=0, log=f"/run/{job}.log") for job in jobs]
    progress = running_status().progress.model_copy(update={"step": 20, "eta_s": None})
    return running_status(
        done=True, components=(component("inference", port=8000), *exited), progress=progress
    )


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
        servers=(ServerStatus.model_validate(server | values),),
    )


CASES: dict[str, tuple[tuple[int, int], FakeExperiment, tuple[str, ...]]] = {
    "overview-wide": (WIDE, FakeExperiment(), ()),
    "overview-eight-gpus": (HUGE, FakeExperiment(running_status(), gpu_report(8), knob_table()), ()),
    "overview-small": (SMALL, FakeExperiment(), ()),
    "overview-small-knobs": (SMALL, FakeExperiment(), ("ctrl+k",)),
    "overview-small-gpus": (SMALL, FakeExperiment(), ("tab", "tab", "tab")),
    "overview-failed": (MIDDLE, FakeExperiment(failed_status(), NO_GPU, knob_table()), ()),
    "overview-done": (MIDDLE, FakeExperiment(done_status(), NO_GPU, knob_table()), ()),
    "overview-stopped": (SMALL, FakeExperiment(stopped_status(), NO_GPU, knob_table()), ()),
    "external-small": (SMALL, FakeExperiment(external_status()), ()),
    "external-down": (
        (130, 40),
        FakeExperiment(external_status(state="down", reason="Connection refused", source="warm", facts=())),
        (),
    ),
    "zoom": (SMALL, FakeExperiment(), ("t", "z")),
    "plan-dialog-small": (SMALL, FakeExperiment(), ("o", "r")),
    "kill-dialog": (MIDDLE, FakeExperiment(), ("X",)),
    "knob-editor-enum": (MIDDLE, FakeExperiment(), ("ctrl+k", *"jjjjjjjj", "enter")),
    "knob-editor-small": (SMALL, FakeExperiment(), ("ctrl+k", "enter")),
    "knob-editor-error": (MIDDLE, FakeExperiment(), ("ctrl+k", "enter", *"100")),
    "help": (WIDE, FakeExperiment(), ("question_mark",)),
    "restart-menu": (SMALL, FakeExperiment(), ("R",)),
}


ALWAYS = ("overview-wide", "overview-small", "overview-failed", "external-down", "knob-editor-error", "help")
"""Pictures of the default run; all the others are made with `-m slow`."""
TROUBLE: dict[str, tuple[Status, tuple[str, ...]]] = {
    "backoff": (backoff_status(), ("t",)),
    "waiting": (waiting_status(), ()),
    "stalled": (stalled_status(), ()),
    "unwell": (unwell_status(), ()),
    "orphans-of-two": (orphans_status(SECOND_LEFTOVER), ()),
    "free-dialog": (orphans_status(SECOND_LEFTOVER), ("K",)),
    "plan-of-everything": (orphans_status(), ("t", "r")),
    "readonly": (orphans_status(), ()),
}


@pytest.mark.parametrize("size", slow_but({"small": SMALL, "huge": HUGE}, "small"))
@pytest.mark.parametrize("name", slow_but(TROUBLE.keys(), "backoff", "orphans-of-two", "plan-of-everything"))
def test_look_of_trouble(name: str, size: tuple[int, int], snap_compare: SnapCompare) -> None:
    status, keys = TROUBLE[name]
    experiment = FakeExperiment(status, gpu_report(), knob_table(), readonly=name == "readonly")
    experiment.planner = plan_with_everything

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, *keys)

    app = make_app(experiment)
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)


def test_look_of_an_unwell_run_between_small_and_huge(snap_compare: SnapCompare) -> None:
    app = make_app(FakeExperiment(unwell_status(), gpu_report(), knob_table()))
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=(130, 40), run_before=settle)


@pytest.mark.parametrize("name", slow_but(CASES.keys(), *ALWAYS))
def test_look(name: str, snap_compare: SnapCompare) -> None:
    size, experiment, keys = CASES[name]

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, *keys)
        if name.startswith("knob-editor"):
            await pilot.pause(0.3)

    app = make_app(experiment)
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)


def rising_then_fallen() -> Status:
    curve = tuple((step, 0.98 * min(1.0, step / 150) if step < 420 else 0.03) for step in range(1, 501, 2))
    progress = running_status().progress.model_copy(update={"step": 500, "max_steps": 1000, "curve": curve})
    return running_status(progress=progress)


@pytest.mark.parametrize("size", slow_but({"middle": (130, 40), "huge": HUGE}, "middle"))
def test_look_of_curve(size: tuple[int, int], snap_compare: SnapCompare) -> None:
    """A collapse is seen, however long it is ago."""

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)

    app = make_app(FakeExperiment(rising_then_fallen(), gpu_report(), knob_table()))
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)
