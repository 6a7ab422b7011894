"""Commands that ask for evaluations."""

from __future__ import annotations

from rltui.core.runs.evals import EvalRequest
from rltui.ui.actions import key_of
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.evaluation import EvalDialog, targets
from rltui.ui.state import ExperimentState
from rltui.ui.text import clean_line
from rltui.views.evaluation import order_text


class EvaluationCommands:
    def __init__(self, frontend: Frontend, state: ExperimentState, *, names_screen: bool) -> None:
        """`names_screen`: say which key shows evaluations, where this is not that screen."""
        self._frontend = frontend
        self._state = state
        self._experiment = state.experiment
        self._names_screen = names_screen

    def evaluate(self, target: str) -> None:
        self._frontend.work(self._evaluate(target))

    async def _evaluate(self, target: str) -> None:
        message = await self._frontend.prompt(EvalDialog(self._list_targets, self._submit, target=target))
        if message:
            self._frontend.notify(clean_line(message), markup=False)
            self._state.show_journal()

    async def _list_targets(self) -> tuple[str, ...]:
        report = await self._experiment.evals()
        complete = (await self._experiment.checkpoints()).complete
        status = self._state.status
        has_sft = status is not None and any(component.id == "sft" for component in status.components)
        return targets([checkpoint.step for checkpoint in complete], report, has_sft=has_sft)

    async def _submit(self, request: EvalRequest, every: int | None) -> str:
        """Returns a text to report. `every`: evaluate one of so many checkpoints from now on; 0: none."""
        if every is not None:
            report = await self._experiment.order_evals(every, request)
            if not report.every:
                return "Automatic evaluation is off"
            return f"{order_text(report.every).capitalize()} is evaluated from now on"
        queued = await self._experiment.evaluate(request)
        where = f"; {key_of('screen.evals')} shows it" if self._names_screen else ""
        return f"Evaluation {queued.id}, {queued.label}: {queued.words}{where}"
