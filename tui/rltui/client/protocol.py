"""What the UI needs of an experiment. The real one talks to a supervisor, tests bring their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from rltui.core.api import Alert, JournalEntry, KnobTable, Plan, Request, Status
from rltui.core.gpu.report import GpuHistories, GpuReport
from rltui.core.layout import Screen
from rltui.core.log_source import LogSource

Event = Status | GpuReport | KnobTable | JournalEntry | Alert
"""A pushed message: a new whole value replaces the older one of its type."""


class Experiment(Protocol):
    """One experiment as its clients see it. All calls may raise `RltuiError`."""

    name: str
    screen: Screen
    """What the layout wants to see."""
    readonly: bool
    """`execute` is refused; `plan` is not."""
    observed: bool
    """Somebody else runs it. Then it is read-only as well."""

    def events(self) -> AsyncIterator[Event]:
        """Current values first (status, gpus, knobs), then every change. Ends when the supervisor ends."""
        ...

    async def plan(self, request: Request) -> Plan:
        """What `request` would do. No side effects."""
        ...

    async def execute(self, request: Request) -> Plan:
        """Do it, and return the plan that is being carried out, once it has begun."""
        ...

    async def gpu_history(self) -> GpuHistories:
        """Memory of each device over time, since the supervisor started at the earliest."""
        ...

    def open_log(self, path: str) -> LogSource:
        """Open the output of an attempt (`ComponentStatus.log`)."""
        ...

    def attach_command(self, component: str) -> list[str]:
        """Argument list of the program that shows the component's raw terminal until the person detaches."""
        ...
