"""An experiment without processes: tests push events and read what was asked for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from tests.fakes.series import FakeSeries

from rltui.client.experiment import ConfigText, Description, Event, Experiment
from rltui.core.config.report import BatchUnit, Conversion, KnobInfo, KnobTable, Problem
from rltui.core.experiment.api import (
    ComponentStatus,
    Lost,
    Orphan,
    Plan,
    Progress,
    Publication,
    Request,
    Status,
)
from rltui.core.experiment.dashboard import DashboardPage, DashboardPlace
from rltui.core.experiment.description import (
    AttemptDescription,
    ComponentDescription,
    Readiness,
    RunDescription,
    ScreenLayout,
)
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.questions import ANY_TARGET
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.report import (
    GpuBudget,
    GpuDevice,
    GpuHistories,
    GpuHistory,
    GpuProcess,
    GpuReport,
    GpuSeries,
    GpuShare,
)
from rltui.core.logs.lines import Level, LineFilter, plain_text
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogChange, LogEntry, LogHit
from rltui.core.rollouts.batches import RolloutSource
from rltui.core.runs.checkpoints import CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.core.runs.evals import EvalReport, EvalRequest, QueuedEval
from rltui.core.runs.state import is_expected, run_state
from rltui.errors import RltuiError, UsageError
from rltui.services.rollouts import open_rollouts

NOW = 1_800_000_000.0
GIB = 1024**3
READY, STOPPED, FAILED = ComponentState.READY, ComponentState.STOPPED, ComponentState.FAILED

LOGS = {
    "inference": [
        "INFO 11-20 23:33:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny'",
        "INFO 11-20 23:33:01 [gpu_worker.py:298] Available KV cache memory: 60.10 GiB",
        "INFO 11-20 23:33:04 [loggers.py:257] Engine 000: generation 8213.0 tokens/s, Running: 128 reqs",
    ],
    "orchestrator": [
        f"23:33:{20 + step} INFO Step {step} | Time: 4.1s | Reward: 0.{40 + 2 * step} | Length: 211.3"
        for step in range(1, 13)
    ],
    "trainer": [
        *(f"23:33:{20 + step} INFO Step {step} | Loss: 0.0{30 - step} | Peak 11.2 GiB" for step in range(12)),
        "23:33:33 WARNING Waiting for batch 13 since 2.1s",
        "\x1b[31m23:33:34 ERROR [red]not markup[/red]\x1b[0m \x1b]0;title\x07",
    ],
}


class FakeLog:
    """A `LogSource` over a list that does not change."""

    problem: str | None = None
    is_waiting = False

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.start = 0
        self.closed = False

    @property
    def stop(self) -> int:
        return len(self.lines)

    def line(self, number: int) -> str:
        return self.lines[number]

    def offset(self, number: int) -> int:
        return sum(len(line.encode()) + 1 for line in self.lines[:number])

    def number_at(self, offset: int) -> int | None:
        return next((n for n in reversed(range(self.stop)) if self.offset(n) <= offset), None)

    def line_at(self, offset: int) -> str:
        return self.lines[self.number_at(offset) or 0]

    def label(self, number: int) -> str:
        return ""

    def poll(self, *, may_skip: bool) -> LogChange:
        return LogChange.NONE

    def load_older(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


class FakeMergedLog(FakeLog):
    """Lines of several logs, as they come."""

    def __init__(self, lines: list[tuple[str, str]]) -> None:
        super().__init__([line for _, line in lines])
        self.names = [name for name, _ in lines]

    def label(self, number: int) -> str:
        return f"{self.names[number]:<12} "

    def offset(self, number: int) -> int:
        return number

    def number_at(self, offset: int) -> int | None:
        return offset

    def number_near(self, time: float) -> int | None:
        return 0


class FakeSearch:
    """A search through a list of lines, as if they were a file."""

    def __init__(self, lines: list[str], query: Query | None, level: Level | None, start: int) -> None:
        self.progress = 0.0
        self.size = sum(len(line.encode()) + 1 for line in lines)
        self._lines, self._query, self._level, self._start = lines, query, level, start
        self.is_cancelled = False

    def batches(self) -> Iterator[list[LogHit]]:
        offset, line_filter = 0, LineFilter(level=self._level)
        for line in self._lines:
            text = plain_text(line)
            passes = line_filter.accepts(text) and (self._query is None or self._query.matches(text))
            if passes and offset >= self._start and not self.is_cancelled:
                yield [LogHit(offset, text)]
            offset += len(line.encode()) + 1
        self.progress = 1.0

    def cancel(self) -> None:
        self.is_cancelled = True


def component(component_id: str, state: ComponentState = READY, **values: object) -> ComponentStatus:
    is_job = values.get("kind", "job") == "job" and not values.get("prepares")
    base: dict[str, object] = {"id": component_id, "state": state, "writes_run": is_job}
    if state is READY:
        base |= {"pid": 4242, "attempt": 1, "started_at": NOW - 2470, "log": f"/run/{component_id}.log"}
    return ComponentStatus.from_plain(base | values)


def with_state(status: Status) -> Status:
    """The status with the state that a supervisor would report of these components."""
    growing = status.alive if status.observed else None
    state, reason = run_state(status.components, down=status.down, is_growing=growing)
    alive = status.alive if status.observed else is_expected(status.components)
    return status.replace(state=state, reason=reason, alive=alive)


def running_status(**values: object) -> Status:
    base: dict[str, object] = {
        "experiment": "reverse-text",
        "state": "running",
        "framework": "prime-rl",
        "title": "prime-rl 0.8",
        "output_dir": "/run",
        "components": (
            component("inference", kind="service", port=8000, facts=("KV 41 %", "128 run 12 wait")),
            component("orchestrator", facts=("step 12", "4.1 s/step")),
            component("trainer", facts=("step 12", "loss 0.02", "waiting for batch")),
        ),
        "progress": Progress(
            step=12,
            max_steps=20,
            reward=0.62,
            rewards=tuple(0.2 + 0.035 * step + (0.05 if step % 3 else 0) for step in range(12)),
            tokens_per_s=8213,
            step_time_s=4.1,
            eta_s=100,
        ),
    }
    return with_state(Status.from_plain(base | values))


def stopped_status() -> Status:
    components = tuple(component(name, STOPPED) for name in LOGS)
    return running_status(components=components, progress=Progress())


def gpu_report(count: int = 2) -> GpuReport:
    devices = []
    for index in range(count):
        holder = "inference" if index % 2 == 0 else "trainer"
        processes = [
            gpu_process(1, 60.1 - 3 * index, owner="component", component=holder, attempt=1),
            gpu_process(2, 1.3, owner="other", user="alice", name="python", command="python eval.py"),
        ]
        if index == 0:
            processes.append(gpu_process(3, 9.8, owner="component", component="trainer", attempt=1))
        devices.append(
            gpu_device(
                index,
                processes,
                utilization=0.97 - index / 20,
                power_w=412.0 - 9 * index,
                temperature_c=61 + index,
                budgets=(GpuBudget(component="inference", utilization=0.5, budget_bytes=int(70.5 * GIB)),)
                if holder == "inference"
                else (),
            )
        )
    return GpuReport(available=True, driver="570.1", devices=tuple(devices), sampled_at=NOW, interval_s=1.0)


def gpu_process(pid: int, used_gib: float | None, **values: object) -> GpuProcess:
    base: dict[str, object] = {"pid": pid, "used_bytes": None if used_gib is None else int(used_gib * GIB)}
    return GpuProcess.from_plain(base | values)


def gpu_device(
    index: int, processes: Sequence[GpuProcess] = (), total_gib: float = 141, **values: object
) -> GpuDevice:
    """A device as the supervisor reports it: a share per owner, `used_bytes` their sum by default."""
    shares = tuple(
        GpuShare(
            owner=process.owner,
            experiment=process.experiment,
            component=process.component,
            user=process.user,
            pids=(process.pid,),
            used_bytes=process.used_bytes or 0,
            peak_bytes=(process.used_bytes or 0) + GIB // 2 if process.owner == "component" else None,
            estimated=process.estimated,
        )
        for process in sorted(
            processes, key=lambda item: (item.owner != "component", -(item.used_bytes or 0))
        )
    )
    used = sum(share.used_bytes for share in shares)
    base: dict[str, object] = {
        "index": index,
        "uuid": f"GPU-{index:08x}-0000-4000-8000-000000000000",
        "name": "NVIDIA H200",
        "total_bytes": int(total_gib * GIB),
        "used_bytes": used,
        "free_bytes": int(total_gib * GIB) - used,
        "power_limit_w": 700.0,
        "processes": tuple(processes),
        "shares": shares,
        "recent": tuple(min(100, 20 + step) for step in range(40)),
    }
    return GpuDevice.from_plain(base | values)


def gpu_histories(report: GpuReport) -> GpuHistories:
    """Twenty minutes, coarse at first, in which the trainer comes, grows, and everybody else keeps still."""
    times = (*range(-1200, -600, 15), *range(-600, 1))
    histories = []
    for device in report.devices:
        series: dict[str, list[int]] = {}
        for share in device.shares:
            label = share.component if share.owner == "component" and share.component else "others"
            sizes = series.setdefault(label, [0] * len(times))
            for index, time in enumerate(times):
                grown = 1.0 if label != "trainer" else max(0.0, min(1.0, (time + 480) / 300))
                sizes[index] += int(share.used_bytes * grown)
        histories.append(
            GpuHistory(
                device=device.key,
                times=tuple(NOW + time for time in times),
                series=tuple(
                    GpuSeries(label=label, used_bytes=tuple(sizes)) for label, sizes in series.items()
                ),
            )
        )
    return GpuHistories(histories=tuple(histories))


NO_GPU = GpuReport(available=False, reason="the NVIDIA driver is not installed (libnvidia-ml.so.1 not found)")


def knob(key: str, value: object, *readers: str, **values: object) -> KnobInfo:
    base: dict[str, object] = {
        "key": key,
        "file": "/work/rl.toml",
        "value": value,
        "default": value,
        "running": value,
        "is_set": True,
        "is_running": True,
        "kind": "int",
        "readers": readers,
    }
    return KnobInfo.from_plain(base | values)


def knob_table(**values: object) -> KnobTable:
    orch, train, infer = "orchestrator", "trainer", "inference"
    base: dict[str, object] = {
        "files": ("/work/rl.toml",),
        "knobs": (
            knob("max_steps", 20, orch, train, bounds=(1, None), help="Training steps."),
            knob("seq_len", 2048, orch, train, unit="tokens", help="Longest sample."),
            knob(
                "orchestrator.batch_size", 64, orch, running=128, bounds=(1, 4096), unit="rollouts",
                help="Rollouts per step; a multiple of the group size.",
            ),
            knob("orchestrator.group_size", 16, orch, bounds=(2, None), help="Rollouts per prompt."),
            knob("orchestrator.sampling.temperature", 1.0, orch, kind="float", bounds=(0, 2), is_set=False),
            knob("orchestrator.max_inflight_rollouts", None, orch, nullable=True, is_set=False),
            knob("orchestrator.max_async_level", 1, orch, bounds=(0, None), unit="steps", is_set=False),
            knob("trainer.optim.lr", 1e-5, train, kind="float", bounds=(0, 1), help="Learning rate."),
            knob("trainer.loss.type", "grpo", train, kind="enum", choices=("grpo", "cispo", "dppo")),
            knob("trainer.model.ac", False, train, kind="bool", help="Activation checkpointing."),
            knob("trainer.max_async_level", 1, train, bounds=(0, None), unit="steps", is_set=False),
            knob("inference.gpu_memory_utilization", 0.5, infer, kind="float", bounds=(0.05, 0.98)),
            knob("inference.max_model_len", 2048, infer, bounds=(1, None), unit="tokens"),
            knob("inference.parallel.tp", 1, infer, bounds=(1, 8), unit="GPUs"),
            knob("ckpt.interval", 10, train, orch, bounds=(1, None), unit="steps", nullable=True),
        ),
    }  # fmt: skip
    return KnobTable.from_plain(base | values)


RESTART_PLAN = Plan(
    action="restart",
    stop=("trainer", "orchestrator"),
    start=("orchestrator", "trainer"),
    keep=("inference",),
    reasons=("orchestrator and trainer share the step counter: they restart together",),
    lost=Lost(steps=2, resume_step=10, interval=10),
)
SET_PLAN = RESTART_PLAN.replace(
    action="set",
    diff="--- rl.toml\n+++ rl.toml\n@@ -3,3 +3,3 @@\n [orchestrator]\n-batch_size = 128\n"
    "+batch_size = 64\n group_size = 16\n",
)
BLOCKED_PLAN = Plan(
    action="set",
    problems=(
        Problem(
            key="orchestrator.batch_size",
            message="orchestrator.batch_size 100 is not a multiple of orchestrator.group_size 16: "
            "the nearest valid values are 96 and 112",
            file="/work/rl.toml",
            line=4,
        ),
    ),
)


ORPHANS = (
    Orphan(pid=4711, start=1, command="VLLM::EngineCore", component="inference", attempt=1, age_s=252.0,
           gpu_bytes=58 * GIB, evidence="descendant"),
    Orphan(pid=4712, start=2, command="python -c worker", component="inference", attempt=1, ports=(8000,)),
)  # fmt: skip


def simple_plan(request: Request) -> Plan:
    """A plan that does just what is asked."""
    match request.action:
        case "start":
            return Plan(action="start", start=request.components or tuple(LOGS))
        case "stop":
            return Plan(action="stop", stop=request.components or tuple(LOGS))
        case "restart":
            return RESTART_PLAN
        case "free":
            return Plan(action="free", free=ORPHANS)
        case "set" | "write" | "undo" | "redo":
            return BLOCKED_PLAN if 100 in request.edits.values() else SET_PLAN


def simple_conversion(mean_tokens: float | None) -> Conversion:
    """128 rollouts in tokens. Nothing was measured."""
    if mean_tokens is None:
        return Conversion(to="tokens")
    tokens = round(128 * mean_tokens)
    return Conversion(
        to="tokens",
        edits={
            "orchestrator.token_batch_size": tokens,
            "orchestrator.max_inflight_rollouts": 256,
            "orchestrator.batch_size": None,
        },
        mean_tokens=mean_tokens,
        arithmetic=(f"token_batch_size = 128 rollouts × {mean_tokens:g} tokens = {tokens}",),
    )


class FakeExperiment(Experiment):
    """An experiment that answers what a test says."""

    def __init__(self, *events: Event, screen: ScreenLayout | None = None, readonly: bool = False) -> None:
        super().__init__(
            Description(
                name="reverse-text",
                layout_name="fake",
                screen=screen or ScreenLayout(),
                readonly=readonly,
                observed=False,
                finished=False,
                component_ids=tuple(LOGS),
                log_ids=(),
            )
        )
        self.planned: list[Request] = []
        self.executed: list[Request] = []
        self.opened: list[str] = []
        self.series = FakeSeries()
        self.connections = 0
        self.down: RltuiError | None = None
        """Somebody has taken it down."""
        self.plan_delay_s = 0.0
        self.planner: Callable[[Request], Plan] = simple_plan
        self.error: RltuiError | None = None
        self.refusals: list[RltuiError] = []
        """Errors that the next calls of `execute` raise, one each."""
        self.texts: dict[str, str] = {}
        """Config files, for an editor."""
        self.editor: Callable[[str], str] = lambda text: text
        self.edited: list[str] = []
        """Every text that the editor was given."""
        self.converter: Callable[[float | None], Conversion] = simple_conversion
        self.histories = GpuHistories()
        self.histories_read = 0
        self.checkpoint_report = CheckpointReport(experiment=self.name)
        self.pruned: list[PrunePlan] = []
        self.rollouts = Path("/run/without/rollouts")
        """Folder of a run with rollouts, if there is one."""
        self.entries: list[JournalEntry] = []
        """Entries of the journal, oldest first."""
        self.pinned: tuple[str, ...] = ()
        self.saved: dict[str, str] = {}
        """Exported files by name."""
        self.has_browser = False
        self.page = DashboardPage(url="http://localhost:7788/#run=out")
        self.shown: list[DashboardPlace] = []
        self.eval_report = EvalReport(experiment=self.name)
        self.evaluated: list[EvalRequest] = []
        """Evaluations that were asked for, and standing orders."""
        self._first = events or (running_status(), gpu_report(), knob_table())
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    @property
    def run_id(self) -> str:
        return f"id-{self.name}"

    def push(self, event: Event) -> None:
        self._queue.put_nowait(event)

    def end_stream(self) -> None:
        """End the events, as a killed supervisor does."""
        self._queue.put_nowait(None)

    async def events(self) -> AsyncIterator[Event]:
        if self.down:
            raise self.down
        self.connections += 1
        for event in self._first:
            yield event
        while (event := await self._queue.get()) is not None:  # type: ignore[assignment]
            yield event
        if self.down:
            raise self.down

    async def plan(self, request: Request) -> Plan:
        self.planned.append(request)
        if self.plan_delay_s:
            await asyncio.sleep(self.plan_delay_s)
        if self.error:
            raise self.error
        return self.planner(request)

    async def execute(self, request: Request) -> Plan:
        if self.error:
            raise self.error
        if self.refusals:
            raise self.refusals.pop(0)
        self.executed.append(request)
        return self.planner(request)

    async def gpu_history(self) -> GpuHistories:
        self.histories_read += 1
        if self.error:
            raise self.error
        return self.histories

    async def checkpoints(self) -> CheckpointReport:
        return self.checkpoint_report

    async def plan_prune(self, retention: Retention) -> PrunePlan:
        return prune_plan(self.checkpoint_report, retention)

    async def prune(self, retention: Retention, only: tuple[int, ...]) -> PrunePlan:
        plan = prune_plan(self.checkpoint_report, retention, only)
        self.pruned.append(plan)
        deleted_steps = {checkpoint.step for checkpoint in plan.delete}
        remaining = tuple(
            checkpoint
            for checkpoint in self.checkpoint_report.checkpoints
            if checkpoint.step not in deleted_steps
        )
        self.checkpoint_report = self.checkpoint_report.replace(checkpoints=remaining)
        return plan.replace(done=True)

    async def bring_back(self, name: str) -> CheckpointReport:
        if self.error:
            raise self.error
        remaining = tuple(folder for folder in self.checkpoint_report.set_aside if folder.name != name)
        self.checkpoint_report = self.checkpoint_report.replace(set_aside=remaining)
        return self.checkpoint_report

    async def evals(self) -> EvalReport:
        return self.eval_report

    async def evaluate(self, request: EvalRequest) -> QueuedEval:
        if self.error:
            raise self.error
        self.evaluated.append(request)
        return QueuedEval(id=str(len(self.evaluated)), request=request, env=request.env or "reverse-text")

    async def cancel_eval(self, id_: str) -> EvalReport:
        remaining = tuple(entry for entry in self.eval_report.queue if entry.id != id_)
        self.eval_report = self.eval_report.replace(queue=remaining)
        return self.eval_report

    async def order_evals(self, every: int, request: EvalRequest = ANY_TARGET) -> EvalReport:
        self.evaluated.append(request)
        self.eval_report = self.eval_report.replace(every=every)
        return self.eval_report

    async def convert(self, to: BatchUnit | None = None, mean_tokens: float | None = None) -> Conversion:
        if self.error:
            raise self.error
        return self.converter(mean_tokens).replace(to=to)

    def read_config(self, path: str) -> ConfigText:
        if (text := self.texts.get(path)) is None:
            raise RltuiError(f"{path} does not exist")
        return ConfigText(path, text, hashlib.sha256(text.encode()).hexdigest())

    def edit_text(self, path: str, text: str) -> str:
        self.edited.append(text)
        return self.editor(text)

    def open_log(self, path: str) -> FakeLog:
        self.opened.append(path)
        return FakeLog(LOGS[path.removeprefix("/run/").removesuffix(".log")])

    def open_series(self) -> FakeSeries:
        if self.error:
            raise self.error
        return self.series

    async def journal(self) -> tuple[JournalEntry, ...]:
        if self.error:
            raise self.error
        return tuple(self.entries)

    def pins(self) -> tuple[str, ...]:
        return self.pinned

    def save_pins(self, pins: Sequence[str]) -> None:
        if self.error:
            raise self.error
        self.pinned = tuple(pins)

    def save(self, name: str, text: str) -> str:
        if self.error:
            raise self.error
        self.saved[name] = text
        return f"/run/.rltui/exports/{name}"

    async def note(self, text: str) -> JournalEntry:
        if self.error:
            raise self.error
        entry = JournalEntry(at=self.entries[-1].at + 1 if self.entries else 1.0, kind="note", text=text)
        self.entries.append(entry)
        return entry

    def open_rollouts(self, folder: str = "") -> RolloutSource:
        return open_rollouts(Path(folder) if folder else self.rollouts)

    def describe(self) -> RunDescription:
        env = {"CUDA_VISIBLE_DEVICES": "0", "HF_TOKEN": "(hidden)"}
        components = tuple(
            ComponentDescription(
                id=name,
                argv=("python", "-m", name, "@", "rl.toml", "--note", "a b"),
                env=env,
                cwd="/work",
                pid=4000 + number,
                ports=(8000 + number,),
                ready=Readiness(http=f"http://127.0.0.1:{8000 + number}/health", timeout_s=600.0),
                attempts=(
                    AttemptDescription(
                        number=1, started_at=NOW - 2470, is_running=True, log=f"/run/{name}.log"
                    ),
                ),
            )
            for number, name in enumerate(LOGS)
        )
        return RunDescription(
            name=self.name, output_dir="/run", command="rltui up rl.toml -n demo", components=components
        )

    def logs(self) -> tuple[LogEntry, ...]:
        return tuple(LogEntry(name, 1, f"/run/{name}.log", NOW - 2470) for name in LOGS)

    def open_merged(self, logs: Sequence[LogEntry]) -> FakeMergedLog:
        return FakeMergedLog([(log.component, line) for log in logs for line in LOGS[log.component]])

    def log_offset_at(self, log: LogEntry, time: float) -> int | None:
        return 0

    def search_log(
        self, path: str, query: Query | None, level: Level | None, start: int, *, with_text: bool = True
    ) -> FakeSearch:
        return FakeSearch(LOGS[path.removeprefix("/run/").removesuffix(".log")], query, level, start)

    def pager_command(self, path: str) -> list[str]:
        return ["less", path]

    async def publication(self, step: int, repo: str) -> Publication:
        if "/" not in repo:
            raise UsageError(f"{repo!r} is no name of a repository on the hub")
        folder = f"/run/weights/step_{step}"
        return Publication(
            repo=repo, folder=folder, files=("config.json", "[x].safetensors"), size_bytes=3 << 30
        )

    async def publish(self, published: Publication, *, private: bool) -> None:
        self.opened.append(f"{published.repo} private={private}")

    async def open_shell(self, like: str | None) -> str:
        self.opened.append(f"shell as {like}")
        return "shell"

    async def show_in_dashboard(self, place: DashboardPlace) -> DashboardPage:
        self.shown.append(place)
        return self.page

    async def open_url(self, url: str) -> bool:
        self.opened.append(url)
        return self.has_browser

    def attach_command(self, component: str) -> list[str]:
        return ["tmux", "-L", "rltui", "attach", "-t", f"{self.name}:{component}"]
