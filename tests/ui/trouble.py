"""Experiments in trouble, as the supervisor tells of them."""

from __future__ import annotations

from tests.fakes.experiment import (
    FAILED,
    GIB,
    NO_GPU,
    NOW,
    ORPHANS,
    RESTART_PLAN,
    FakeExperiment,
    component,
    knob_table,
    running_status,
)

from rltui.core.experiment.api import Bottleneck, Lost, Orphan, Plan, Request, RollbackOffer, Status
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.report import OutOfMemory, Remedy
from rltui.core.metrics.health.findings import RULES, Finding, health_issue_of
from rltui.core.metrics.health.rule import Symptom

GPU_REASON = (
    "waiting for GPU 0: needs 71.9 GiB free, 12.1 GiB GiB held by pid 4711 VLLM::EngineCore, 9.8 GiB held"
    " by trainer pid 5120 python"
)
PARTNERS = (
    "trainer cannot restart alone: orchestrator restarts with it, because their step counters must agree"
)
STALL_EVIDENCE = (
    "no output for 6m20s, no metrics row for 6m25s (usually every 4s), 128 requests run, no tokens"
)
SECOND_LEFTOVER = Orphan(
    pid=5120, start=9, command="torchrun --nproc-per-node 8 train.py", component="trainer", attempt=3,
    age_s=7000.0, gpu_bytes=int(9.8 * GIB), evidence="environment",
)  # fmt: skip


TRAINER_MEMORY = OutOfMemory(
    kind="allocation", component="trainer", local_device=0, device=1, tried_bytes=2 * GIB,
    free_bytes=300 << 20, total_bytes=int(79.2 * GIB), in_use_bytes=int(20.1 * GIB),
    holders=((4242, int(58.6 * GIB)),),
)  # fmt: skip
REMEDIES = (
    Remedy(
        title="inference.gpu_memory_utilization 0.7 → 0.6",
        reason="leaves more of the GPU for trainer: tried to allocate 2.0 GiB, 0.3 GiB of 79.2 GiB free",
        edits={"inference.gpu_memory_utilization": 0.6},
        components=("inference", "trainer"),
    ),
    Remedy(
        title="trainer.model.seq_len 4096 → 2048",
        reason="shorter packed micro-batches, the trainer's peak: tried to allocate 2.0 GiB",
        edits={"trainer.model.seq_len": 2048},
    ),
    Remedy(
        title="trainer.model.ac.freq unset → 1",
        reason="recomputes activations instead of storing them; slower steps",
        edits={"trainer.model.ac.freq": 1},
    ),
)


EDIT = "trainer.optim.lr 1e-6 → 0.01"
COLLAPSE = Finding(
    RULES["reward-collapse"],
    Symptom(
        "reward collapsed",
        43,
        "the reward was 0.96 around step 38 and has been at most 0.01 since step 43",
        "go back to an earlier checkpoint with a lower learning rate",
        "error",
    ),
)
RUNAWAY = Finding(
    RULES["kl"],
    Symptom(
        "KL out of range",
        42,
        "the KL between trainer and sampler has been 4.59 since step 42; expected at most 0.2",
        "lower the learning rate",
    ),
)


def unwell_status() -> Status:
    """A run that goes on and has forgotten everything, after an edit."""
    back = RollbackOffer(edit=EDIT, component="trainer", reason="reward collapsed", resume_step=40)
    concerns = tuple(
        health_issue_of(each, component=each.rule.role, last_good=40, edits=(EDIT,), back=back)
        for each in (COLLAPSE, RUNAWAY)
    )
    status = running_status()
    parts = tuple(
        part.replace(concerns=tuple(each for each in concerns if each.component == part.id))
        for part in status.components
    )
    waits = Bottleneck(
        waits="trainer", waits_for="a batch", share_frac=0.62, steps=10,
        knob="orchestrator.max_inflight_rollouts",
        text=(
            "trainer waits for a batch 62 % of the time (last 10 steps); rollouts are slower than"
            " training: keep more rollouts in flight, or give inference more compute"
            " (orchestrator.max_inflight_rollouts)"
        ),
    )  # fmt: skip
    progress = status.progress.replace(concerns=concerns, bottleneck=waits, reward=0.01, step=12)
    return status.replace(components=parts, progress=progress)


def out_of_memory_status(*remedies: Remedy) -> Status:
    reason = (
        "exited 1 (out of GPU memory: 2.00 GiB asked for, 300.00 MiB of 79.20 GiB free; pid 4242 of the"
        " host holds 58.6 GiB; trainer: lower seq_len or the micro batch, or turn on activation"
        " checkpointing; inference: lower gpu_memory_utilization or max_num_seqs); a restart would fail"
        " the same way"
    )
    return running_status(
        components=(
            component("inference", kind="service", port=8000, facts=("KV 41 %",)),
            component("orchestrator", facts=("step 12",)),
            component(
                "trainer",
                FAILED,
                reason=reason,
                exit_code=1,
                attempt=1,
                log="/run/trainer.log",
                out_of_memory=TRAINER_MEMORY,
                remedies=remedies,
            ),
        )
    )


def with_out_of_memory(*remedies: Remedy, readonly: bool = False) -> FakeExperiment:
    return FakeExperiment(out_of_memory_status(*remedies), NO_GPU, knob_table(), readonly=readonly)


def backoff_status(retry_in_s: float = 12) -> Status:
    return running_status(
        components=(
            component("inference", kind="service", port=8000, facts=("KV 41 %",)),
            component("orchestrator", ComponentState.WAITING, reason="waiting for trainer"),
            component(
                "trainer",
                ComponentState.BACKOFF,
                reason="exited 1; failure 1 of 3",
                retry_at=NOW + retry_in_s,
                exit_code=1,
                attempt=1,
                log="/run/trainer.log",
            ),
        )
    )


def waiting_status() -> Status:
    return running_status(
        components=(
            component("inference", ComponentState.WAITING, reason=GPU_REASON),
            component("orchestrator", ComponentState.WAITING, reason="waiting for inference"),
            component(
                "trainer", FAILED, exit_code=1, reason="exited 1 (out of memory)", log="/run/trainer.log"
            ),
        )
    )


def stalled_status() -> Status:
    inference, orchestrator, trainer = running_status().components
    stalled = inference.replace(stalled=True, evidence=STALL_EVIDENCE)
    return running_status(components=(stalled, orchestrator, trainer))


def orphans_status(*more: Orphan) -> Status:
    parts = running_status().components
    failed = component(
        "inference", FAILED, signal="SIGKILL", reason="killed by SIGKILL", log="/run/inference.log"
    )
    return running_status(components=(failed, *parts[1:]), orphans=(*ORPHANS, *more))


def plan_with_everything(request: Request) -> Plan:
    if request.action == "free":
        return Plan(action="free", keep=("orchestrator", "trainer"), free=(*ORPHANS, SECOND_LEFTOVER))
    return RESTART_PLAN.replace(
        free=ORPHANS,
        estimate_s=45.0,
        lost=Lost(steps=2, resume_step=10, rollouts=37),
        reasons=(PARTNERS,),
    )
