"""Obstacles to a start, in words; and the order of stops."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from rltui.core.experiment.api import Alert, Orphan
from rltui.core.experiment.layout import Layout
from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport
from rltui.frameworks.engines.vllm import VLLM
from rltui.services.experiment.launch import Launch
from rltui.supervisor.processes import Processes, unmet_precondition

GIB = 1 << 30
FULL = GpuReport(
    available=True,
    devices=(
        GpuDevice(
            index=0,
            total_bytes=80 * GIB,
            free_bytes=12 * GIB,
            processes=(GpuProcess(pid=7, used_bytes=58 * GIB, name="python"),),
        ),
    ),
)


class Orphans:
    def __init__(self, *orphans: Orphan) -> None:
        self.orphans = orphans
        self.asked = 0

    async def wait_for_searches(self) -> None:
        self.asked += 1

    def of(self, component: str) -> Sequence[Orphan]:
        assert self.asked, "first what ended is looked into"
        return [orphan for orphan in self.orphans if orphan.component == component]


def launch(*, port: int | None = None, gpu_memory: float | None = None) -> Launch:
    return Launch(
        argv=("x",),
        cwd="/",
        env={},
        ready=None,
        port=port,
        gpus="0" if gpu_memory else "",
        gpu_memory=gpu_memory,
    )


class Readings:
    """The GPUs, where there is a reading; else nobody may need them."""

    def __init__(self, report: GpuReport | None = None) -> None:
        self._report = report

    async def fresh(self) -> GpuReport:
        assert self._report is not None, "nobody needs the GPUs"
        return self._report


async def unmet(
    component: str, what: Launch, *orphans: Orphan, report: GpuReport | None = None
) -> str | None:
    obstacle = await unmet_precondition(
        component, what, cast(Any, Orphans(*orphans)), cast(Any, Readings(report)), VLLM
    )
    return None if obstacle is None else f"{obstacle.code}: {obstacle.text}"


async def test_nothing_in_the_way(free_port: int) -> None:
    assert await unmet("serve", launch(port=free_port)) is None


async def test_busy_port_names_every_holder() -> None:
    with socket.socket() as first, socket.socket() as second:
        for listener in (first, second):  # as vLLM up to 0.21 does it
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        first.bind(("127.0.0.1", 0))
        first.listen()
        port = first.getsockname()[1]
        second.bind(("127.0.0.1", port))
        second.listen()
        obstacle = await unmet("serve", launch(port=port))
    assert obstacle is not None
    assert obstacle.startswith(f"port_taken: port {port}, in use by pid {os.getpid()} ")


async def test_full_gpu_names_what_is_needed_and_who_holds_it() -> None:
    obstacle = await unmet("serve", launch(gpu_memory=0.9), report=FULL)
    assert obstacle == "gpu_memory: GPU 0: needs 72.0 GiB free, 12.0 GiB free, 58.0 GiB held by pid 7 python"


async def test_leftovers_come_first_and_only_the_components_own() -> None:
    engine = Orphan(pid=11, start=1, command="VLLM::EngineCore", component="serve", attempt=3)
    other = Orphan(pid=12, start=1, command="train.py", component="trainer", attempt=1)
    assert await unmet("serve", launch(), engine, other) == (
        "leftovers: 1 leftover process of attempt 3: pid 11 VLLM::EngineCore"
        " (`rltui gpus orphans --end` ends them)"
    )
    assert await unmet("orchestrator", launch(), engine, other) is None


def test_a_stall_is_told_once_with_its_evidence_and_its_end_and_so_is_a_killed_shim() -> None:
    alerts: list[Alert] = []
    runner: Any = SimpleNamespace(
        spec=SimpleNamespace(id="trainer"), lifecycle=SimpleNamespace(alive=True), evidence=None, pid=4711
    )
    events = SimpleNamespace(alert=alerts.append, changed=lambda kind: None)
    owner: Any = SimpleNamespace(runners={"trainer": runner}, _events=events)
    for evidence in ("no output for 5m", "no output for 6m", None):
        Processes.set_stall(owner, "trainer", evidence)
    Processes.shim_lost(owner, runner)
    assert [(alert.kind, alert.severity, alert.text.partition(",")[0]) for alert in alerts] == [
        ("stall", "warning", "no output for 5m"),
        ("recovered", "information", "making progress again"),
        ("notice", "warning", "trainer keeps running as pid 4711"),
    ]


class SlowRunner:
    """Ends when the test lets it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.may_end = asyncio.Event()

    async def stop(self, *, kill: bool = False) -> bool:
        self.log.append(f"{self.name} asked")
        await self.may_end.wait()
        self.log.append(f"{self.name} ended")
        return self.name != "trainer"


async def test_who_needs_nobody_of_the_others_is_stopped_at_once() -> None:  # R5
    layout = Layout.model_validate(
        {
            "title": "x",
            "component": [
                {"id": "inference", "command": ["x"]},
                {"id": "env", "command": ["x"]},
                {"id": "gateway", "command": ["x"], "after": ["inference"]},
                {"id": "orchestrator", "command": ["x"], "after": ["gateway", "env"]},
                {"id": "trainer", "command": ["x"], "after": ["inference"]},
            ],
        }
    )
    log: list[str] = []
    runners = {spec.id: SlowRunner(spec.id, log) for spec in layout.component}
    owner = SimpleNamespace(runners=runners, _setup=SimpleNamespace(layout=layout))
    names = ("inference", "trainer", "orchestrator", "env")  # the gateway goes on, or is down already

    stopping = asyncio.create_task(Processes.stop(cast(Processes, owner), names))

    async def come_to(*expected: str) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        assert set(log) == set(expected)
        log.clear()

    await come_to("trainer asked", "orchestrator asked")
    runners["orchestrator"].may_end.set()
    await come_to("orchestrator ended", "env asked")
    runners["env"].may_end.set()
    await come_to("env ended")
    runners["trainer"].may_end.set()
    await come_to("trainer ended", "inference asked")
    runners["inference"].may_end.set()
    assert await stopping == ["trainer"], "which cannot be ended; what it needs is asked all the same"
