"""Configs, plans and conflicts for the tests of the config keys."""

from __future__ import annotations

from tests.fakes.experiment import (
    GIB,
    SET_PLAN,
    FakeExperiment,
    gpu_report,
    knob,
    knob_table,
    running_status,
)

from rltui.core.config.report import DerivedValue, FileConflict, KeyConflict, KnobTable, Problem
from rltui.core.experiment.api import Plan, Request, RollbackOffer
from rltui.core.gpu.report import MemoryVerdict

BATCH = "orchestrator.batch_size"
SHARE = "inference.gpu_memory_utilization"
BASE = {"/work/rl.toml": "aa" * 32}
OTHER_BASE = {"/work/rl.toml": "bb" * 32}
WARNING = Problem(
    severity="warning",
    key=BATCH,
    message="orchestrator.batch_size 64 / orchestrator.group_size 16 = 4 prompts: the reward will be noisy",
    file="/work/rl.toml",
    line=4,
)
UNKNOWN = Problem(
    severity="hint",
    key="trainer.optim.lrr",
    message="trainer.optim.lrr is no key that prime-rl knows: did you mean trainer.optim.lr?",
    file="/work/rl.toml",
    line=17,
)
DERIVED = (
    DerivedValue(name="prompts per step", value=4, unit="prompts", text="64 rollouts / 16 per prompt"),
    DerivedValue(name="tokens per step", value=131072, unit="tokens", text="64 rollouts × 2048 tokens"),
    DerivedValue(name="rollouts in flight", value=128, text="64 × (1 + 1 steps ahead)"),
)
OFFER = RollbackOffer(edit="orchestrator.batch_size 128 → 64", component="orchestrator", reason="exited 1")


def config_table(**values: object) -> KnobTable:
    """As of a config with a list, a share of the GPU's memory, keys of no knob, and doubtful values."""
    knobs = [item.replace(control="fraction") if item.key == SHARE else item for item in knob_table().knobs]
    knobs.append(
        knob(
            "trainer.lora.target_modules", ["q_proj", "k_proj", "v_proj"], "trainer", kind="list",
            default=["q_proj"], help="Modules that get an adapter.",
        )
    )  # fmt: skip
    others = (
        knob("trainer.optim.lrr", 1e-6, "trainer", kind="float", known=False, default=None),
        knob("wandb.project", "rlvr", kind="str", known=False, default=None, is_running=False),
    )
    base: dict[str, object] = {
        "knobs": tuple(knobs),
        "others": others,
        "derived": DERIVED,
        "problems": (WARNING, UNKNOWN),
        "undo": "orchestrator.batch_size 128 → 64",
        "redo": "seq_len 2048 → 4096",
        "converts_to": "tokens",
    }
    return knob_table(**base | values)


def verdict(utilization: float) -> MemoryVerdict:
    """Of an H200 that the engine shares with a trainer, which needs 40 GiB."""
    left = int((1 - utilization) * 141 * GIB)
    is_short = left < 40 * GIB
    return MemoryVerdict(
        verdict="trainer_short" if is_short else "fits",
        text=f"leaves the trainer {left / GIB:.1f} GiB, it held up to 40.0",
        component="inference",
        device=0,
        total_bytes=141 * GIB,
        budget_bytes=int(utilization * 141 * GIB),
        utilization=utilization,
        left_bytes=left,
        peak_bytes=40 * GIB,
        safe_utilization=0.71,
    )


def plan_of(request: Request) -> Plan:
    """As a supervisor would plan it: with base, figures, the memory, and a line of diff per edit."""
    diff = "--- /work/rl.toml\n+++ /work/rl.toml\n@@ -3,4 +3,5 @@\n [orchestrator]\n"
    derived: tuple[DerivedValue, ...] = ()
    memory: tuple[MemoryVerdict, ...] = ()
    problems: list[Problem] = []
    for key, value in request.edits.items():
        name = key.rpartition(".")[2]
        diff += f"-{name} = old\n" if value is None else f"-{name} = old\n+{name} = {value}\n"
        if key == BATCH and isinstance(value, int):
            derived = (DERIVED[0].replace(value=value // 16),)
            if value == 1:
                problems.append(WARNING.replace(message="one rollout teaches nothing"))
        if key == SHARE and isinstance(value, float):
            memory = (verdict(value),)
            if memory[0].is_bad:
                problems.append(Problem(severity="warning", key=SHARE, message=memory[0].text))
    for text in request.texts.values():
        diff += f"-old\n+{text.splitlines()[0] if text else ''}\n"
    if request.action in ("undo", "redo"):
        diff += "-batch_size = 64\n+batch_size = 128\n"
    update = {
        "action": request.action, "base": BASE, "diff": diff, "derived": derived, "memory": memory,
        "problems": tuple(problems),
    }  # fmt: skip
    if not request.restart:
        update |= {"stop": (), "start": (), "keep": (), "reasons": ()}
    return SET_PLAN.replace(**update)


CONFLICT = FileConflict(
    file="/work/rl.toml",
    theirs="--- rl.toml\n+++ rl.toml\n@@ -3,3 +3,3 @@\n [orchestrator]\n-batch_size = 64\n+batch_size = 96\n",
    yours="--- rl.toml\n+++ rl.toml\n@@ -3,3 +3,3 @@\n [orchestrator]\n-batch_size = 64\n+batch_size = 128\n",
    keys=(KeyConflict(key=BATCH, base=64, theirs=96, yours=128),),
)


class ChangedMeanwhile:
    """Somebody changes the file after the first look: whoever saw it as it was is told."""

    def __init__(self) -> None:
        self._looks = 0

    def __call__(self, request: Request) -> Plan:
        self._looks += 1
        base = BASE if self._looks == 1 else OTHER_BASE
        conflicts = (CONFLICT,) if request.base == BASE else ()
        return plan_of(request).replace(base=base, conflicts=conflicts)


def config_experiment(**table: object) -> FakeExperiment:
    """The app on `config_table`, planned by `plan_of`."""
    experiment = FakeExperiment(running_status(), gpu_report(), config_table(**table))
    experiment.planner = plan_of
    return experiment


SINCE_ORIGIN = (
    "--- a/rl.toml\n+++ b/rl.toml\n@@ -1,5 +1,8 @@\n [model]\n"
    '-name = "Qwen/Qwen3-0.6B"\n+name = "outputs/weights/step_100"\n \n [orchestrator]\n'
)
"""Options of the command line in a copy of the run's own."""


def own_copy_experiment() -> FakeExperiment:
    return config_experiment(since_origin=SINCE_ORIGIN)


def conflicting() -> FakeExperiment:
    """As `config_experiment`, with a file that somebody changes after the first look."""
    experiment = config_experiment()
    experiment.planner = ChangedMeanwhile()
    return experiment


COLLECT = ("ctrl+k", "enter", "asterisk", "ctrl+n")
