"""What the screens share about the GPUs: the newest reading, and the screen that shows all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import App

from rltui.client.protocol import Experiment
from rltui.core.gpu.report import GpuReport
from rltui.ui.widgets.gpu_words import claims

if TYPE_CHECKING:
    from rltui.ui.screens.gpus import GpuScreen


class GpuDesk:
    """Keeps the reading, and hands it on to the GPU screen once there is one."""

    def __init__(self, experiment: Experiment, clock: Callable[[], float]) -> None:
        self._experiment = experiment
        self._clock = clock
        self._report: GpuReport | None = None
        self._screen: GpuScreen | None = None
        self.claim: int | None = None
        """Pid of the process that a person most likely wants to end; `None` where there is none."""

    def show(self, report: GpuReport) -> None:
        """Take over a new reading."""
        self._report = report
        found = claims(report)
        self.claim = found[0][0].pid if found else None
        if self._screen is not None:
            self._screen.show(report)

    def show_connection(self, problem: str | None) -> None:
        """Say that no more readings come; `None`: they come again."""
        if self._screen is not None:
            self._screen.show_connection(problem)

    def open(self, app: App[None], *, pid: int | None = None) -> None:
        """Put the GPU screen on top, its cursor on the process `pid`. It is made when first used."""
        if self._screen is None:
            from rltui.ui.screens.gpus import GpuScreen

            self._screen = GpuScreen(self._experiment, clock=self._clock)
            app.install_screen(self._screen, "gpus")
        self._screen.show(self._report, pid=pid)
        app.push_screen(self._screen)
