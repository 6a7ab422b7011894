"""Commands that go to a step of the run: one that a person types, or the moment at which it was reached."""

from __future__ import annotations

import asyncio
from typing import Protocol

from textual.app import App

from rltui.client.experiment import Experiment
from rltui.core.metrics.series import time_of_step
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.base import NoteDialog


class SteppedScreen(Frontend, Protocol):
    """The face of `BaseScreen` that `StepCommands` use."""

    @property
    def app(self) -> App[object]: ...

    @property
    def experiment(self) -> Experiment: ...

    def show_step(self, step: int) -> None: ...

    def go_to(self, moment: float, component: str | None) -> None: ...


class StepCommands:
    def __init__(self, screen: SteppedScreen) -> None:
        self._screen = screen

    def ask(self) -> None:
        screen = self._screen

        def take(text: str | None) -> None:
            if text is not None and text.isdecimal():
                screen.show_step(int(text))
            elif text is not None:
                screen.notify(f"not a step: {text}", severity="warning", markup=False)

        dialog = NoteDialog(title="Jump to step", placeholder="120", purpose="jump", max_length=12)
        screen.app.push_screen(dialog, take)

    def show_moment_of(self, step: int, component: str | None = None) -> None:
        """Have the screen go to the moment at which the run reached a step."""
        self._screen.work(self._show_moment_of(step, component), changes=False)

    async def _show_moment_of(self, step: int, component: str | None) -> None:
        screen = self._screen
        async with screen.waiting(f"Looking for step {step}"):
            series = await asyncio.to_thread(screen.experiment.open_series)
            moment = await asyncio.to_thread(time_of_step, series, step)
        if moment is None:
            screen.notify(f"no step {step} in the metrics of this run", severity="warning", markup=False)
        else:
            screen.go_to(moment, component)
