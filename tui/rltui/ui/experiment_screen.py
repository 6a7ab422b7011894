"""What every screen of an experiment can do."""

from __future__ import annotations

from collections.abc import Coroutine

from textual.screen import Screen

from rltui.client.protocol import Experiment
from rltui.ui.one_request import run_alone


class ExperimentScreen(Screen[None]):
    """Carries out work on `experiment`, one at a time, and shows the help."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment

    def work(self, coroutine: Coroutine[None, None, None]) -> None:
        """Carry it out, unless the last one is still busy or nothing may be changed."""
        run_alone(self, coroutine, readonly=self.experiment.readonly)

    @property
    def is_open(self) -> bool:
        """It is seen, be it below a dialog."""
        return self.is_mounted and self in self.app.screen_stack

    def action_show_help(self) -> None:
        """All keys."""
        from rltui.ui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(readonly=self.experiment.readonly))
