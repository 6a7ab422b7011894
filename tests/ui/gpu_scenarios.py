"""GPUs in every state that a panel has to show."""

from __future__ import annotations

from tests.fakes.experiment import GIB, NO_GPU, NOW, gpu_device, gpu_process, gpu_report

from rltui.core.gpu.report import GpuBudget, GpuDevice, GpuProcess, GpuReport, GpuSource, MemoryVerdict

INFERENCE = {"owner": "component", "component": "inference", "user": "me", "name": "VLLM::EngineCore"}
TRAINER = {"owner": "component", "component": "trainer", "user": "me", "name": "python", "attempt": 2}


def report(*devices: GpuDevice, **values: object) -> GpuReport:
    base: dict[str, object] = {
        "available": True, "driver": "570.124", "devices": devices, "sampled_at": NOW, "interval_s": 1.0,
    }  # fmt: skip
    return GpuReport.from_plain(base | values)


def budget(utilization: float, total_gib: float) -> tuple[GpuBudget, ...]:
    size = int(utilization * total_gib * GIB)
    return (GpuBudget(component="inference", utilization=utilization, budget_bytes=size),)


def inference(used_gib: float | None, **values: object) -> GpuProcess:
    return gpu_process(4242, used_gib, command="VLLM::EngineCore", attempt=1, **(INFERENCE | values))


def trainer(used_gib: float | None, **values: object) -> GpuProcess:
    return gpu_process(4300, used_gib, command="python -m prime_rl.trainer", **(TRAINER | values))


def small(*processes: GpuProcess, **values: object) -> GpuDevice:
    base: dict[str, object] = {
        "name": "NVIDIA GeForce RTX 4090", "utilization": 0.83, "power_w": 312.0, "power_limit_w": 450.0,
        "temperature_c": 66, "budgets": budget(0.5, 24),
    }  # fmt: skip
    return gpu_device(0, processes, 24, **(base | values))


def eighty(index: int, *processes: GpuProcess, **values: object) -> GpuDevice:
    base: dict[str, object] = {
        "name": "NVIDIA H100 80GB HBM3", "utilization": 0.98, "power_w": 640.0, "temperature_c": 58 + index,
        "budgets": budget(0.9, 80) if index < 4 else (),
    }  # fmt: skip
    return gpu_device(index, processes, 80, **(base | values))


SHARED = report(small(inference(11.2), trainer(8.6), used_bytes=int(20.2 * GIB), free_bytes=int(3.8 * GIB)))
TWO = report(
    eighty(0, inference(71.2), sm_clock_mhz=1980, max_sm_clock_mhz=1980, memory_clock_mhz=2619,
           pcie_generation=5, pcie_width=16, nvlinks=18, ecc_errors=0, reserved_bytes=GIB // 2,
           memory_utilization=0.41),
    eighty(1, trainer(54.4), budgets=()),
)  # fmt: skip
EIGHT = report(
    *(
        eighty(index, inference(71.2 - index / 2) if index < 4 else trainer(50.4 + index))
        for index in range(8)
    )
)
MIG = report(
    gpu_device(0, [inference(17.1)], 39.5, mig=0, uuid="MIG-1", name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
               budgets=budget(0.5, 39.5)),
    gpu_device(0, [trainer(12.2)], 39.5, mig=1, uuid="MIG-2", name="NVIDIA H100 80GB HBM3 MIG 3g.40gb"),
)  # fmt: skip
LOST = report(
    eighty(0, inference(71.2)),
    GpuDevice(index=1, uuid="GPU-1", name="NVIDIA H100 80GB HBM3",
              problem="fell off the bus (GPU is lost); it usually takes a reboot to bring it back"),
)  # fmt: skip
MISMATCH = GpuReport(
    available=False,
    reason="the NVIDIA driver was upgraded under its loaded kernel module: reboot, or reload the module",
)
ESTIMATES = report(
    small(inference(11.2, estimated=True), trainer(8.6, estimated=True),
          gpu_process(1, 0.7, owner="unknown")),
)  # fmt: skip
UNIFIED = report(
    gpu_device(0, [inference(41.0), trainer(22.0)], 119.6, name="NVIDIA GB10", recent=(),
               memory_kind="unified", budgets=budget(0.4, 119.6), power_limit_w=None)
)  # fmt: skip
OLD_DRIVER = report(small(inference(11.2), memory_kind="v1"))
STALE = report(small(inference(11.2), trainer(8.6)), sampled_at=NOW - 12)
ORPHANS = report(
    small(
        trainer(6.1),
        gpu_process(4711, 9.4, owner="orphan", component="inference", attempt=1, user="me",
                    name="VLLM::EngineCore", command="VLLM::EngineCore", start=99),
        gpu_process(5120, 3.0, owner="mine", user="me", name="python", start=77,
                    command="python /home/me/notebooks/scratch.py"),
        gpu_process(6001, 1.2, owner="other", user="alice", name="python", command="python eval.py"),
    )
)  # fmt: skip
BAD_VERDICT = report(
    small(trainer(14.9), recent=()),
    verdicts=(
        MemoryVerdict(
            verdict="will_refuse", text="inference needs 12.0 GiB free, 9.1 are free", component="inference",
            device=0, total_bytes=24 * GIB, safe_utilization=0.37,
        ),
    ),
)  # fmt: skip
GOOD_VERDICT = report(
    small(trainer(8.6)),
    verdicts=(
        MemoryVerdict(
            verdict="fits", component="inference", device=0,
            text="fits: inference takes 12.0 of 15.4 GiB free, 3.4 stay for the trainer",
        ),
    ),
)  # fmt: skip
WORN = report(
    eighty(0, inference(71.2), throttle=("power brake", "thermal slowdown"), ecc_errors=3),
    eighty(1, trainer(54.4), throttle=("power brake", "thermal slowdown"), budgets=()),
)
OTHER_HOST = report(
    small(trainer(8.6), budgets=()),
    gpu_device(0, [inference(71.2)], 80, host="node7", name="NVIDIA H100 80GB HBM3", utilization=0.98,
               power_w=640.0, temperature_c=58, budgets=budget(0.9, 80)),
    sources=(
        GpuSource(name="node7", sampled_at=NOW),
        GpuSource(name="node8", problem="srun: error: Unable to confirm allocation for job 4711"),
    ),
)  # fmt: skip

SCENARIOS: dict[str, GpuReport] = {
    "shared": SHARED,
    "two": TWO,
    "eight": EIGHT,
    "mig": MIG,
    "lost": LOST,
    "mismatch": MISMATCH,
    "no-driver": NO_GPU,
    "estimates": ESTIMATES,
    "unified": UNIFIED,
    "old-driver": OLD_DRIVER,
    "stale": STALE,
    "orphans": ORPHANS,
    "bad-verdict": BAD_VERDICT,
    "good-verdict": GOOD_VERDICT,
    "worn": WORN,
    "other-host": OTHER_HOST,
    "four": gpu_report(4),
}
