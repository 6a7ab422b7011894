"""Models of the GPUs' state. They document `rltui gpus --json` and the `gpus` event.

Memory is in bytes, shares and utilisations are 0–1, times are seconds since the epoch. `None` means "unknown"
or "does not apply here". A device is named by its UUID, since indices change when one falls off the bus.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from rltui.base.values import Value

GpuOwner = Literal["component", "orphan", "experiment", "mine", "other", "unknown", "hidden"]
"""Owner of a process or of a share of the memory.

component: a living component of this experiment. orphan: left behind by a dead attempt of this user's.
experiment: a living component of another rltui experiment. mine: the same user's, not started by rltui.
other: another user's. unknown: cannot be told, as with pids of another namespace. hidden: used memory that no
listed process accounts for (driver, display, processes that NVML hides).
"""

MemoryKind = Literal["v2", "v1", "unified"]
"""Source and meaning of the memory sizes.

v2: `used` is allocations only. v1: `used` includes what the driver reserves (before R510, WSL). unified: the
machine's own memory, shared with the CPU (GB10, Jetson).
"""


class GpuProcess(Value):
    pid: int
    start: int | None = None
    """Clock ticks from boot to its start: with the pid it names the process for good. `None` if we cannot
    see it, as in another pid namespace.
    """
    used_bytes: int | None = None
    kind: str = "C"
    """Type in nvidia-smi's letters: `C` computes, `G` draws, `C+G` both, `M+C` computes through MPS."""
    name: str = ""
    """First argument of its command line, without folder."""
    command: str = ""
    """Command line or title, shortened for people."""
    user: str | None = None
    """Login name, or the number where it has none."""
    owner: GpuOwner = "unknown"
    experiment: str | None = None
    component: str | None = None
    attempt: int | None = None
    estimated: bool = False
    """`used_bytes` or the owner is inferred, not read."""


class GpuShare(Value):
    """The memory that one owner holds on a device."""

    owner: GpuOwner
    experiment: str | None = None
    component: str | None = None
    user: str | None = None
    pids: tuple[int, ...] = ()
    used_bytes: int = 0
    peak_bytes: int | None = None
    """Most it held since its attempt started, as far as samples saw it."""
    estimated: bool = False


class GpuBudget(Value):
    """Memory that an inference server may take of a device: `gpu_memory_utilization × total`."""

    component: str
    utilization: float
    budget_bytes: int


class GpuReservation(Value):
    """Memory of a device that a component is about to take, and that nobody else should count on."""

    experiment: str
    component: str = ""
    """Empty for a reservation of the experiment as a whole, which is only about to be started."""
    device: str
    """`GpuDevice.key`."""
    size_bytes: int = 0
    """The whole need there; 0 if unknown."""
    left_bytes: int = 0
    """The part of it that was not held yet at the reading."""


class GpuDevice(Value):
    """One reading of one device: a GPU, or a MIG slice of one."""

    index: int
    """NVML's index; a MIG slice has that of its parent."""
    mig: int | None = None
    """Number of the MIG slice within its parent, from 0."""
    uuid: str = ""
    """`GPU-…` or `MIG-…`."""
    name: str = ""
    host: str = ""
    """Name of the GPU source it was read by; empty for this machine."""
    memory_kind: MemoryKind = "v2"
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    utilization: float | None = None
    """Share of the last sample period in which a kernel ran."""
    memory_utilization: float | None = None
    """Share of the last sample period in which device memory was read or written; says nothing of capacity.
    """
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    """Reasons why it runs slower than it could, in words; idling and the normal power cap are not named."""
    ecc_errors: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    pcie_generation: int | None = None
    pcie_width: int | None = None
    nvlinks: int | None = None
    """Active NVLink connections."""
    processes: tuple[GpuProcess, ...] = ()
    shares: tuple[GpuShare, ...] = ()
    """Holders of the used memory, components of this experiment first, each group by size. They add up to
    `used_bytes`, the rest being the share `hidden`.
    """
    budgets: tuple[GpuBudget, ...] = ()
    """Budgets of the inference servers that are, or would be, on this device."""
    claims: tuple[GpuReservation, ...] = ()
    """Memory that other experiments that are starting will take besides what they hold."""
    recent: tuple[int, ...] = ()
    """Used memory in percent of the total, newest last, at most 60 values, `GpuReport.interval_s` apart."""
    problem: str | None = None

    @property
    def key(self) -> str:
        """Permanent name of the device, unique also among those of other hosts."""
        return f"{self.host}/{self.uuid or self.label}"

    @property
    def label(self) -> str:
        """Number for people: `0`, or `0.1` for the second MIG slice of GPU 0."""
        return str(self.index) if self.mig is None else f"{self.index}.{self.mig}"

    @property
    def as_choice(self) -> str:
        """Name in `CUDA_VISIBLE_DEVICES`: the number; for a MIG slice, which has none, the UUID."""
        return str(self.index) if self.mig is None else self.uuid or self.label

    @property
    def usable_bytes(self) -> int | None:
        """CUDA's and vLLM's total: without what the driver reserves (`facts/vllm.md`, Memory budget)."""
        return None if self.total_bytes is None else self.total_bytes - (self.reserved_bytes or 0)

    @property
    def component_bytes(self) -> dict[str, int]:
        """Component of this experiment → memory that it holds."""
        return {
            share.component: share.used_bytes
            for share in self.shares
            if share.owner == "component" and share.component is not None
        }

    @property
    def claimed_bytes(self) -> int:
        return sum(reservation.left_bytes for reservation in self.claims)

    @property
    def unclaimed_bytes(self) -> int | None:
        """Free memory that nobody is known to be about to take."""
        return None if self.free_bytes is None else max(0, self.free_bytes - self.claimed_bytes)


ForecastVerdict = Literal["fits", "will_refuse", "no_kv_cache", "trainer_short", "trainer_tight", "unknown"]
"""will_refuse: vLLM's start check fails. no_kv_cache: it starts, and has no room for keys and values.
trainer_short: the engine fits, and leaves the trainer less than it is known to need. trainer_tight: what the
trainer needs is not known, and the engine leaves it little.
"""


class MemoryVerdict(Value):
    """Outcome on a device if the components in question start with the config as it is."""

    verdict: ForecastVerdict
    text: str
    """One line with the sizes: `inference needs 71.9 GiB free, 60.1 are free`."""
    component: str
    device: int
    uuid: str = ""
    total_bytes: int | None = None
    free_bytes: int | None = None
    """Free memory when it starts: what the plan stops is gone by then."""
    budget_bytes: int | None = None
    utilization: float | None = None
    left_bytes: int | None = None
    """Memory for the trainer, beside the engine and everybody else."""
    peak_bytes: int | None = None
    """Most that the trainer held in its last attempt."""
    safe_utilization: float | None = None
    """Largest `gpu_memory_utilization` with which both fit, rounded down to 0.01; `None` if none does or
    nothing is known of the trainer.
    """
    suggested_utilization: float | None = None
    """Value to write instead if the verdict is bad; `None` if no other value helps. With a verdict on a
    trainer it is meant for the engine that runs beside it.
    """
    kv_cache_tokens: int | None = None
    kv_cache_requests: float | None = None
    """Number of requests of `max_model_len` tokens that fit into the KV cache at once."""
    notes: tuple[str, ...] = ()
    """Origin of the sizes, and their uncertainties."""

    @property
    def is_bad(self) -> bool:
        return self.verdict in ("will_refuse", "no_kv_cache", "trainer_short", "trainer_tight")


class GpuSource(Value):
    """A command that reads the GPUs of another machine."""

    name: str
    problem: str | None = None
    sampled_at: float | None = None


class GpuReport(Value):
    """`rltui gpus --json`."""

    available: bool
    reason: str | None = None
    """Explanation for people if `available` is false."""
    driver: str | None = None
    devices: tuple[GpuDevice, ...] = ()
    """Devices of this machine first, by index."""
    verdicts: tuple[MemoryVerdict, ...] = ()
    """Verdicts on the engines of this experiment that do not run, with the config as it is now."""
    sources: tuple[GpuSource, ...] = ()
    sampled_at: float | None = None
    interval_s: float | None = None
    """Time until the next reading. One that is three times later than promised is stale."""


class GpuSeries(Value):
    """Memory that one owner held over time."""

    label: str
    """A component's id, or `others`."""
    used_bytes: tuple[int, ...]
    """Most in each interval, in the order of `GpuHistory.times`."""


class GpuHistory(Value):
    """Memory that each owner held of one device, from the start of the supervisor at the earliest."""

    device: str
    """`GpuDevice.key`."""
    times: tuple[float, ...] = ()
    """End of each interval, oldest first; the intervals of the last ten minutes or so are shorter."""
    series: tuple[GpuSeries, ...] = ()


class GpuHistories(Value):
    """The answer to `gpu_history`."""

    histories: tuple[GpuHistory, ...] = ()


class OutOfMemory(Value):
    """Device memory that did not suffice, according to a program's own error text."""

    kind: Literal[
        "start_check",
        "no_kv_cache",
        "kv_cache_small",
        "load",
        "warm_up",
        "graph_capture",
        "allocation",
        "other",
    ]
    """start_check: less free than vLLM's budget. no_kv_cache, kv_cache_small: the budget leaves too little.
    load: while weights were loaded. warm_up: vLLM's sampler. graph_capture: vLLM's CUDA graphs.
    allocation: torch names what it asked for."""
    component: str = ""
    local_device: int | None = None
    """`cuda:N`: counts inside the process's `CUDA_VISIBLE_DEVICES`."""
    device: int | None = None
    """NVML's index, where the devices of the component are known."""
    total_bytes: int | None = None
    tried_bytes: int | None = None
    free_bytes: int | None = None
    in_use_bytes: int | None = None
    """Memory that the failing process held itself, at least."""
    utilization: float | None = None
    needed_bytes: int | None = None
    """Budget of the start check, or KV cache for one request."""
    available_bytes: int | None = None
    """Size of the KV cache in that attempt."""
    possible_model_len: int | None = None
    """vLLM's estimate of a `max_model_len` that would fit."""
    requests: int | None = None
    """Number of dummy requests in the warm-up."""
    holders: tuple[tuple[int, int], ...] = ()
    """(pid on the host, bytes) of the other processes that torch names."""


class Remedy(Value):
    """An edit that is likely to help, ready to be sent as a `set` request."""

    title: str
    """The change in short: `seq_len 4096 → 2048`."""
    reason: str
    edits: dict[str, Any] = field(default_factory=dict)
    """Same shape as `Request.edits`."""
    components: tuple[str, ...] = ()
    """Same meaning as `Request.components`: all to restart, if what failed reads none of the edited knobs."""
