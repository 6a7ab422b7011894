"""The screens of what a run has written: logs, events, metrics, rollouts, checkpoints, evaluations."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.experiment import FakeExperiment, running_status
from tests.ui.checkpoint_cases import with_checkpoints
from tests.ui.conftest import make_app, press, screen_text, until
from tests.ui.eval_cases import with_evals
from tests.ui.journal import journal
from tests.ui.metric_cases import experiment_with_run
from tests.ui.rollout_cases import stream
from tests.ui.scenes.scene import Scene, Walk, on, scene
from textual.pilot import Pilot
from textual.widgets import Input

from rltui.ui.app import RltuiApp
from rltui.ui.charts.plot import Plot
from rltui.ui.dialogs.base import ChoiceMenu

LOGS = ("trainer      Waiting for batch 13 since 2.1s", "orchestrator Step 12 | Time: 4.1s", "0 all")
MARKS = "✗ 1 crash · e 1 edit · n 1 note · r 1 restart · ▴ 11 checkpoints"
ROLLOUTS = "31 samples · reward 0.790 ± 0.202 · 4 groups, 1 zero std (=)"
CHECKPOINTS = ("reverse-text · Checkpoints · step 503", "5 complete, 2 incomplete, 14.2 GiB · 182 GiB free")
GOING_BACK = (
    "▸  420",
    "evals     math 0.823 · code 0.64",
    "trainer.optim.lr 1e-06 → 0.01 (1h35m ago)",
    "back      83 later steps will be repeated",
)


def with_status() -> FakeExperiment:
    experiment = FakeExperiment()
    experiment.push(running_status())
    return experiment


def with_journal() -> FakeExperiment:
    experiment = FakeExperiment()
    experiment.entries = journal()
    return experiment


def with_rollouts(folder: Path) -> RltuiApp:
    experiment = FakeExperiment()
    experiment.rollouts = stream(folder)
    return make_app(experiment)


async def search_logs(pilot: Pilot[None]) -> None:
    await press(pilot, "ctrl+f")
    await until(pilot, lambda: pilot.app.screen.query(Input))
    pilot.app.screen.query_one(Input).value = "step 1[0-2]|loss"
    await press(pilot, "enter")


async def to_prune(pilot: Pilot[None]) -> None:
    await press(pilot, "9", "delete")
    await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceMenu))
    await press(pilot, "enter")


def charts(*keys: str) -> Walk:
    """Keys that mean something once there are charts."""

    async def walk(pilot: Pilot[None]) -> None:
        await press(pilot, "4")
        await until(pilot, lambda: any(plot.border_title for plot in pilot.app.screen.query(Plot)))
        await press(pilot, *keys)

    return walk


def rollouts(*keys: str) -> Walk:
    """Keys that mean something once the newest step has been read."""

    async def walk(pilot: Pilot[None]) -> None:
        await press(pilot, "5")
        await until(pilot, lambda: "31 samples" in screen_text(pilot))
        for key in keys:
            await press(pilot, key)
            await pilot.pause(0.1)  # the cursor rests before a sample is read

    return walk


SCENES: dict[str, Scene] = {
    "logs": scene(
        on(with_status), ("2",), "reverse-text", "▸ all merged   inference   orchestrator   trainer", *LOGS,
        small=(),
        medium=("inference    Engine 000: generation 8213.0", "E errors", "w wrap"),
        huge=("inference    Engine 000: generation 8213.0", "E errors", "w wrap"),
    ),
    "logs-search": scene(
        on(with_status), search_logs, "▸ found", "“step 1[0-2]|loss” 15 · enter opens the log there",
        "orchestrator#1 Step 12 | Time: 4.1s", "trainer#1      Step 11 | Loss: 0.019", "enter open",
        middle=(),
    ),
    "events": scene(
        on(with_journal), ("8", "k", "k"), "Events · 14 of 15 · without checkpoints", "⚠ stall",
        "stacks of trainer: /run/stall.txt", "trainer attempt 2 · 1h06m ago", "✗ crash",
        "… 30 more lines", "enter go there", small=(),
        medium=("↻ restart",),
        huge=("── 2027-01-14 Thursday ──", "take back the edit of the learning rate (B)"),
    ),
    "metrics": scene(
        on(experiment_with_run), charts(), "Metrics · 17 charts of 20 series · by step", "Reward 0.834",
        "Loss 0.122", "Entropy 0.321 nats", MARKS, small=(),
    ),
    "metrics-read": scene(
        on(experiment_with_run), charts("M", "comma", "comma"), "by step · mean of 5", "Reward 0.927",
        "Learning rate 1e-05 log", "Step time 3.88 s", "step 582 · 07:58:32 · 1m ago", medium=(),
    ),
    "metrics-chosen": scene(
        on(experiment_with_run), charts("right"), "━ Reward by environment code 0.788 math 0.895",
        "KL to the sampler 0.00394 log", "GPU memory inference 60.1 trainer 10 GiB", MARKS, huge=(),
    ),
    "metrics-zoom": scene(
        on(experiment_with_run), charts("enter", "left_square_bracket"), "Reward 0.941",
        "step 180 07:31:08 e trainer.optim.lr 1e-05 → 0.0001", "step 480 07:51:38 n looks good from here",
        "step 550 · 07:56:20 · 3m ago  ▴ checkpoint 550", small=(),
    ),
    "metrics-zoom-by-time": scene(
        on(experiment_with_run),
        charts("down", "right", "enter", "colon", *"axis", "enter", "colon", *"scale", "enter",
               "left_square_bracket"),
        "20 series · by time", "Gradient norm 0.465", "At the cursor", "60.1 GiB",
        "step 206 07:32:50 ✗ trainer ended with code 1: CUDA error", "37m in · step 551", huge=(),
    ),
    "metrics-filter": scene(
        on(experiment_with_run), charts("slash", *"env|kl"), "2 charts of 20 series · by step · /env|kl/",
        "Reward by environment code 0.788 math 0.895", "KL to the sampler 0.00394 log", MARKS, small=(),
    ),
    "rollouts": scene(
        with_rollouts, rollouts("j", "j"), ROLLOUTS, "Samples of step 8 · worst first",
        "Sample 3 of 31 · step 8", "answer 818 to t2", "enter read", small=(),
        medium=("3 truncated ✂",), huge=("✂ max_output_tokens",),
    ),
    "rollouts-grouped": scene(
        with_rollouts, rollouts("b"), ROLLOUTS, "Groups of step 8", "=▸", "82c4f2e91", "0.881", "0.125",
        "1 zero std (=)", "answer 816 to t2", medium=(),
    ),
    "rollouts-reading": scene(
        with_rollouts, rollouts("j", "enter"), ROLLOUTS, "Sample 2 of 31 · step 8",
        "reward 0.500 · advantage 0.250 · 11 → 54 tokens · agent_completed", "You reverse text.",
        "answer 817 to t2", "esc back", small=(),
    ),
    "rollouts-comparing": scene(
        with_rollouts, rollouts("enter", "c"), ROLLOUTS, "This sample · step 8 · reward 0.500",
        "The other sample · step 7 · reward 0.500", "group 72c4f2e91 · reverse-text", "Reverse: t2", small=(),
        medium=("answer 816 to t2", "answer 716 to t2"),
    ),
    "checkpoints": scene(
        on(with_checkpoints), ("9", *"jjjj"), *CHECKPOINTS, *GOING_BACK,
        "/data/outputs/reverse-text/checkpoints/step_420", "0.91 → 0.62", "0.42 → 0.12",
        "incomplete: no orchestrator", "room for 86 more", "enter restart from", small=(),
        medium=("0.82 +1", "checkpoints 440 to 500 (4) set aside", "u undo restart"),
        huge=("parts     trainer orchestrator weights", "u undo restart"),
    ),
    "checkpoints-prune": scene(
        on(with_checkpoints), to_prune, "Delete checkpoints? This cannot be undone.",
        "checkpoint 440 (2.1 GiB), incomplete: no orchestrator", "free      6.3 GiB",
        "checkpoint 480: default for resume", "enter: Cancel · y: Delete · esc: Cancel", small=(),
    ),
    "checkpoints-upload": scene(
        on(with_checkpoints), ("9", "colon", *"upload", "enter", *"alice/m", "enter"), "Upload to alice/m?",
        "2 files, 3.0 GiB: config.json, [x].safetensors", "A missing repository is created.",
        "enter: Cancel · y: Upload as private · esc: Cancel", small=(),
    ),
    "evaluations": scene(
        on(with_evals), ("V", *"jjjjjj"), "reverse-text · Evaluations · from base to the last step",
        "◐ checkpoint 40 on reverse-text · 24/60 rollouts", "0.702 ± 0.012  +0.650 ± 0.013 ▲",
        "with base (#1): +0.650 ± 0.013 ▲, paired over 20 examples", "⚠ truncated", "c compare",
        small=(),
        medium=("▸ 4   checkpoint 20 (run 1)", "requested by eval_every · 31s", "it needs 40", "90 %"),
    ),
    "description": scene(
        on(with_status), ("t", "I"), "trainer of reverse-text", "command", "python -m trainer @ rl.toml",
        "CUDA_VISIBLE_DEVICES=0", "enter: copy the line", small=(), huge=("/run/trainer.log",),
    ),
    "evaluations-ask": scene(
        on(with_evals), ("V", "s"), "─ Evaluate ─", "empty: as in training", "per example",
        "60 rollouts · the newest weights, on the run's own server", "enter: evaluate", small=(),
    ),
}  # fmt: skip
