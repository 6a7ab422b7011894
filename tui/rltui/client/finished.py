"""An experiment of which nothing lives, read from its files alone: no supervisor is started for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Never

from rltui.client import launch, offline
from rltui.client.protocol import Event
from rltui.client.reading import ReadExperiment
from rltui.core import hints
from rltui.core.api import Alert, JournalEntry, Status
from rltui.core.batch import Way
from rltui.core.checkpoints import CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.core.config_report import Conversion, KnobTable
from rltui.core.evals import EvalReport
from rltui.core.gpu.report import GpuHistories, GpuReport
from rltui.errors import RltuiError, UsageError
from rltui.services.metrics.sources import bring_series_up_to_date
from rltui.services.runs.evaluations import EvalFolder
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.journal import Journal

_LOOK_S = 3.0
"""Between two looks whether somebody has started it."""


class FinishedRun(ReadExperiment):
    """`Experiment` from files. What would change it is refused; a note may be made."""

    readonly = True
    finished = True

    def __init__(self, record: ExperimentRecord, *, is_done: bool, may_write: bool = True) -> None:
        """`is_done`: it came to its end. `may_write`: also notes and pins, which are the person's own."""
        super().__init__(record)
        self.is_done = is_done
        self._may_write = may_write

    async def events(self) -> AsyncGenerator[Event, None]:
        """What there is to know, and then a word when it lives again. A config that is broken becomes one."""
        yield await asyncio.to_thread(self._status)
        yield GpuReport(available=False, reason="nothing of this run lives")
        yield await asyncio.to_thread(self._knobs)
        is_alive = False
        while True:
            was_alive, is_alive = is_alive, await asyncio.to_thread(launch.is_alive, self.record)
            if is_alive and not was_alive:
                yield Alert(
                    kind="client",
                    severity="information",
                    title=f"{self.name} has a supervisor again",
                    text="What is shown here is what its files said before. S looks at it as it goes on.",
                )
            await asyncio.sleep(_LOOK_S)

    def _status(self) -> Status:
        bring_series_up_to_date(self.record)
        status = offline.offline_status(self.record)
        return status.model_copy(update={"done": self.is_done and status.state == "stopped"})

    def _knobs(self) -> KnobTable | Alert:
        try:
            return offline.offline_knobs(self.record)
        except RltuiError as error:
            return Alert(
                kind="config", severity="warning", title="the config cannot be read", text=str(error)
            )

    async def gpu_history(self) -> GpuHistories:
        return GpuHistories()

    async def checkpoints(self) -> CheckpointReport:
        return await asyncio.to_thread(offline.offline_checkpoints, self.record)

    async def plan_prune(self, retention: Retention) -> PrunePlan:
        return prune_plan(await self.checkpoints(), retention)

    async def evals(self) -> EvalReport:
        return await asyncio.to_thread(EvalFolder(self._control).report, self.name)

    async def convert(self, to: Way, mean_tokens: float | None = None) -> Conversion:
        return await asyncio.to_thread(offline.offline_conversion, self.record, to, mean_tokens)

    async def note(self, text: str) -> JournalEntry:
        if not self._may_write:
            raise RltuiError("this client is read-only: no note was made", hint=hints.NOTE(name=self.name))
        return await asyncio.to_thread(Journal(self._control.journal_file).note, text)

    def keep_pins(self, pins: Sequence[str]) -> None:
        """Keep these instead; by a client that may only look, until it ends."""
        if self._may_write:
            self._kept.keep_pins(pins)

    # --- what takes a supervisor --------------------------------------------------------------------------

    def _refuse(self, *_: object, **__: object) -> Never:
        raise UsageError(
            f"nothing of {self.name} lives: it is read from its files, and nothing was done",
            hint=f"S opens it with a supervisor, and so does `rltui -n {self.name}`",
        )

    async def _refused(self, *_: object, **__: object) -> Never:
        self._refuse()

    attach_command = _refuse
    plan = execute = prune = bring_back = evaluate = cancel_eval = order_evals = _refused
    publication = publish = open_shell = _refused
