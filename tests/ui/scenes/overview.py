"""The overview, what is told on it, and the dialogs over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fakes.experiment import (
    NO_GPU,
    FakeExperiment,
    gpu_report,
    knob_table,
    running_status,
    stopped_status,
)
from tests.ui.conftest import make_app
from tests.ui.scenes.scene import Scene, on, scene
from tests.ui.status_cases import (
    done_status,
    external_status,
    failed_status,
    rising_then_fallen,
    with_links,
)
from tests.ui.trouble import (
    REMEDIES,
    SECOND_LEFTOVER,
    backoff_status,
    orphans_status,
    plan_with_everything,
    stalled_status,
    unwell_status,
    waiting_status,
    with_out_of_memory,
)
from tests.ui.watch_cases import LOG_IDS, watching

from rltui.core.experiment.api import Status
from rltui.ui.app import RltuiApp

RUNNING = "● running · step 12/20 "
INFERENCE = "inference ● ready 41m · :8000 · KV 41 % · 128 run 12 wait"
TRAINER = "trainer ● running 41m · step 12 · loss 0.02 · waiting for batch"
CHANGE = "1 change needs a restart: A"
FAILED = "✗ failed: inference · step 12/20"
UNWELL = ("· ⚠ reward collapsed", "⚠ reward collapsed: the reward was 0.96 around step 38")
LEFTOVERS = (
    "⚠ 2 leftover processes of inference attempt 1: pid 4711 VLLM::EngineCore 4m12s 58.0 GiB,",
    "⚠ 1 leftover process of trainer attempt 3: pid 5120 torchrun --nproc-per-node 8 train.py 1h56m 9.8 GiB",
)
RESTART = ("stop       trainer → orchestrator", "keep       inference (not touched)", "lose       2 steps")


def with_gpus(status: Status) -> Callable[[Path], RltuiApp]:
    return on(lambda: FakeExperiment(status, gpu_report(), knob_table()))


def without_gpu(status: Status) -> Callable[[Path], RltuiApp]:
    return on(lambda: FakeExperiment(status, NO_GPU, knob_table()))


def in_trouble(status: Status, *, readonly: bool = False) -> Callable[[Path], RltuiApp]:
    def experiment() -> FakeExperiment:
        made = FakeExperiment(status, gpu_report(), knob_table(), readonly=readonly)
        made.planner = plan_with_everything
        return made

    return on(experiment)


def with_eight_gpus() -> FakeExperiment:
    return FakeExperiment(running_status(), gpu_report(8), knob_table())


SCENES: dict[str, Scene] = {
    "overview": scene(
        on(FakeExperiment), (), RUNNING, "ETA 1m40s", INFERENCE, "Step 12 | Time: 4.1s",
        TRAINER, CHANGE, small=("GPUs · 0: 71.2/141 GiB 97 % · 1: 58.4/141 GiB 92 %",),
        wide=("▒ trainer 57.1 · peak 57.6", "128 → 64", "8.2k tok/s", "E errors  w wrap"),
    ),
    "overview-knobs": scene(
        on(FakeExperiment), ("ctrl+k",), "▸ orchestrator.batch_size", "128 → 64",
        "default 64 · 1 to 4096 rollouts · read by orchestrator", small=(),
    ),
    "overview-gpus": scene(
        on(FakeExperiment), ("tab", "tab"), "▸ trainer ● running", "█ inference 60.1 · peak 60.6",
        "▤ alice 1.3  ░ free 69.8", small=(),
    ),
    "overview-eight-gpus": scene(
        on(with_eight_gpus), (), "71.2/141  97%  61°", "█ inference 204 · on 4 GPUs · peak 60.6 each",
        "▤ alice 10.4  ░ free 711", huge=(),
    ),
    "failed": scene(
        without_gpu(failed_status()), (), FAILED, "inference ✗ failed code 1",
        "✗ CUDA out of memory: lower inference.gpu_memory_utilization",
        "orchestrator ◌ waiting for inference", "trainer ◐ starting 10s", "s start", middle=(),
    ),
    "done": scene(
        without_gpu(done_status()), (), "✓ done · inference still up · step 20/20", "100 %",
        "orchestrator ✓ exited 0", "No GPUs: the NVIDIA driver is", middle=(),
    ),
    "stopped": scene(
        without_gpu(stopped_status()), (), "○ stopped", "Not started yet. s starts it, S starts everything.",
        "GPUs · none", "s start", small=(),
    ),
    "external": scene(
        on(lambda: FakeExperiment(external_status())), (), RUNNING, "▸ orchestrator ● running",
        "inference (external) ● ready · KV 41 % · 128 run 12 wait · http://gpu-2:8000/", small=(),
    ),
    "external-down": scene(
        on(lambda: FakeExperiment(
            external_status(state="down", reason="Connection refused", source="warm", facts=())
        )), (), "inference (of warm) ✗ down · http://gpu-2:8000/v1 · Connection refused", RUNNING, medium=(),
    ),
    "zoom": scene(on(FakeExperiment), ("t", "z"), "▸ " + TRAINER, "[red]not markup[/red]", small=()),
    "overview-scrolled": scene(
        on(FakeExperiment), ("t", "g"), "▸ trainer ● running 41m · 7 lines below, G follows · step 12",
        small=(),
    ),
    "curve": scene(
        with_gpus(rising_then_fallen()), (), "step 500/1000", "reward 0.98 ┤", "0.03 ┤", "50 %",
        medium=("⢸⣀⣀⣀",), huge=("⣀⣀⣀⣀",),
    ),
    "plan": scene(
        on(FakeExperiment), ("o", "r"), "Restart orchestrator?", *RESTART,
        "because    orchestrator and trainer share the step counter: they",
        "enter / y: Restart · esc: Cancel", small=(),
    ),
    "kill": scene(
        on(FakeExperiment), ("colon", *"kill", "enter"), "Kill orchestrator and all its processes?",
        "enter: Cancel · y: Kill · esc: Cancel", middle=(),
    ),
    "restart-menu": scene(
        on(FakeExperiment), ("R",), "Restart orchestrator and its dependents",
        "Restart everything from scratch",
        "Trainers resume from the newest complete checkpoint", "enter: choose · esc: cancel", small=(),
    ),
    "knob-editor-enum": scene(
        on(FakeExperiment), ("ctrl+k", *"jjjjjjjj", "enter"), "(●) grpo", "( ) not set: default grpo",
        "rl.toml: grpo · running grpo · default grpo", *RESTART, middle=(),
    ),
    "knob-editor": scene(
        on(FakeExperiment), ("ctrl+k", "enter"), "rl.toml: 64 · running 128 · default 64",
        "-batch_size = 128", "+batch_size = 64", *RESTART,
        "enter: write · ctrl+r: write + restart · ctrl+n: collect · esc: cancel", small=(),
    ),
    "knob-editor-error": scene(
        on(FakeExperiment), ("ctrl+k", "enter", *"100"), "▊  100",
        "✗ orchestrator.batch_size 100 is not a multiple of orchestrator.group_size 16:",
        "the nearest valid values are 96 and 112 (rl.toml, line 4)", "No change.", middle=(),
    ),
    "help": scene(
        on(FakeExperiment), ("question_mark",), "Keys that work here", "This pane: log pane",
        "f  Filter by level: warnings and errors, errors, all lines",
        "?: all screens · ↓↑: scroll · esc: close",
        wide=(),
    ),
    "palette": scene(
        on(FakeExperiment), ("colon", *"restart"), "Restart the component and its dependents, plan first",
        "Choose what to restart, and from which", "search all logs for restart", middle=(),
    ),
    "links": scene(
        on(with_links), ("colon", *"links", "enter"), "Links of this run", "W&B run (trainer)", "http://localhost:7788",
        "enter: open in a browser · y: copy the URL · esc: close", small=(),
    ),
    "backoff": scene(
        in_trouble(backoff_status()), ("t",), "◐ starting · step 12/20", "orchestrator ◌ waiting for trainer",
        "▸ trainer ↻ backoff 12s · exited 1; failure 1 of 3", "s start  x stop", small=(),
        huge=("trainer · backoff",),
    ),
    "waiting": scene(
        in_trouble(waiting_status()), (), "◌ waiting for GPU 0", "orchestrator ◌ waiting for inference",
        "trainer ✗ failed code 1", "✗ exited 1 (out of memory)", small=(), huge=(),
    ),
    "stalled": scene(
        in_trouble(stalled_status()), (), "⚠ stalled: inference · step 12/20",
        "inference ● ready 41m · ⚠ stalled · :8000",
        "⚠ no output for 6m20s, no metrics row for 6m25s (usually every 4s), 128",
        small=(), huge=("inference · stalled",),
    ),
    "unwell": scene(
        in_trouble(unwell_status()), (), *UNWELL, "last good checkpoint 40", "⚠ KL out of range:",
        small=(), medium=(), huge=("trainer waits for a batch 62 %",),
    ),
    "orphans-of-two": scene(
        in_trouble(orphans_status(SECOND_LEFTOVER)), (), FAILED, "inference ✗ failed SIGKILL",
        "✗ killed by SIGKILL", "K end", "K ends them",
        small=("⚠ 3 leftover processes: 67.8 GiB, :8000",), huge=LEFTOVERS,
    ),
    "free": scene(
        in_trouble(orphans_status(SECOND_LEFTOVER)), ("K",), "End these leftover processes?",
        "end        pid 4711 VLLM::EngineCore", "of inference attempt 1: a child of its processes",
        "of trainer attempt 3: has its tag in the environment", "keep       orchestrator and trainer",
        "enter: Cancel · y: End them · esc: Cancel", small=(), huge=(),
    ),
    "plan-of-everything": scene(
        in_trouble(orphans_status()), ("t", "r"), "Restart trainer?",
        "end first  2 leftover processes of inference attempt 1:", *RESTART[:2],
        "2 steps and 37 rollouts in flight · resumes after step 10", "ready in about 45s, as before",
        "it, because their step counters must agree", "enter / y: Restart · esc: Cancel",
        small=(), huge=(),
    ),
    "readonly": scene(
        in_trouble(orphans_status(), readonly=True), (), "reverse-text · read-only", FAILED,
        "⚠ 2 leftover processes of inference attempt 1:", "d diff  / search",
        small=("1 change needs a restart─",), huge=("1 change needs a restart ─",),
    ),
    "memory-fix": scene(
        on(lambda: with_out_of_memory(*REMEDIES)), ("t",), "✗ failed: trainer", "▸ trainer ✗ failed code 1",
        "✗ out of memory on GPU 1: tried to allocate 2.0 GiB, 0.3 GiB of 79.2 GiB",
        "→ F inference.gpu_memory_utilization 0.7 → 0.6 · or 2 more", "F fix memory", small=(), middle=(),
    ),
    "memory-fix-menu": scene(
        on(lambda: with_out_of_memory(*REMEDIES)), ("t", "F"), "trainer ran out of memory",
        "inference.gpu_memory_utilization 0.7 → 0.6", "trainer.model.seq_len 4096 → 2048",
        "leaves more of the GPU for trainer: tried to allocate 2.0 GiB", "enter: choose · esc: cancel",
        small=(), middle=(),
    ),
    "watch": scene(
        lambda folder: make_app(watching(), component_ids=(), log_ids=LOG_IDS), (), "observed · step 12/20",
        "▸ inference ● growing · logs/latest/inference.log", "trainer ○ quiet 12m · logs/latest/trainer.log",
        "envs ◌ no file yet",
        small=(), huge=("observed run",),
    ),
}  # fmt: skip
