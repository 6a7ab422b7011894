"""The supervisor's side of the socket API (`SupervisorApi`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rltui.base.questions import Question, questions_of
from rltui.base.values import Value
from rltui.core.config.report import BatchUnit, Conversion, KnobTable
from rltui.core.experiment.api import AgentProposal, Plan, Request, Status
from rltui.core.experiment.consent import Verb
from rltui.core.experiment.description import Panels
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.questions import ANY_TARGET, SupervisorApi
from rltui.core.experiment.rights import Act
from rltui.core.gpu.report import GpuHistories, GpuReport
from rltui.core.runs.checkpoints import CheckpointReport, PrunePlan, Retention
from rltui.core.runs.evals import EvalReport, EvalRequest, QueuedEval
from rltui.errors import UsageError
from rltui.services.actor import requester
from rltui.services.experiment.rights import require
from rltui.supervisor.supervisor import Supervisor

_VERBS: Mapping[str, Verb] = {
    "note": "note", "prune": "prune-checkpoints", "evaluate": "eval", "cancel_eval": "eval",
    "order_evals": "eval", "shutdown": "down",
}  # fmt: skip
"""Question → the act that it is, where rights need not know its plan."""


class SupervisorAnswers(SupervisorApi):
    """Answers from the state of one supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def respond(self, question: Question, params: Mapping[str, Any]) -> Value:
        """The answer to a question, if whoever asks has the right to it."""
        verb = _VERBS.get(question.name)
        if verb is not None and not params.get("only_idle"):
            await self._supervisor.commands.rights.check(Act(verb), question.name, params)
        answer: Value = await getattr(self, question.name)(**question.decode(params))
        return answer

    async def answer_proposal(self, id_: str, accepted: bool, word: str = "") -> AgentProposal:
        async def replay(method: str, params: Mapping[str, Any]) -> Value:
            return await self.respond(questions_of(SupervisorApi)[method], params)

        rights = self._supervisor.commands.rights
        return await rights.answer(id_, accepted=accepted, word=word, replay=replay)

    async def status(self) -> Status:
        self._supervisor.runtime.observation.progress.poll()
        return self._supervisor.status()

    async def panels(self) -> Panels:
        return self._supervisor.runtime.setup.layout.panels

    async def knobs(self) -> KnobTable:
        return self._supervisor.runtime.knobs()

    async def gpus(self) -> GpuReport:
        return await self._supervisor.runtime.gpu_readings.first()

    async def gpu_history(self) -> GpuHistories:
        return self._supervisor.runtime.gpu_account.histories()

    async def plan(self, request: Request) -> Plan:
        return await self._supervisor.commands.plan(request)

    async def execute(self, request: Request) -> Plan:
        return await self._supervisor.commands.execute(request)

    async def convert(self, to: BatchUnit | None = None, mean_tokens: float | None = None) -> Conversion:
        return self._supervisor.convert(to, mean_tokens)

    async def note(self, text: str) -> JournalEntry:
        return self._supervisor.runtime.events.journal.note(text)

    async def checkpoints(self) -> CheckpointReport:
        return await self._supervisor.checkpoints.report()

    async def plan_prune(self, retention: Retention) -> PrunePlan:
        return await self._supervisor.checkpoints.plan(retention)

    async def prune(self, retention: Retention, only: tuple[int, ...]) -> PrunePlan:
        return await self._supervisor.commands.prune(retention, only)

    async def evals(self) -> EvalReport:
        return await self._supervisor.evals.report()

    async def evaluate(self, request: EvalRequest) -> QueuedEval:
        return await self._supervisor.evals.enqueue(request)

    async def cancel_eval(self, id_: str) -> EvalReport:
        return await self._supervisor.evals.cancel(id_)

    async def order_evals(self, every: int, request: EvalRequest = ANY_TARGET) -> EvalReport:
        return await self._supervisor.evals.order(every, request)

    async def tokens(self, values: dict[str, str]) -> Value:
        with suppress(UsageError):  # of an agent that may not: what it wants them for is judged by itself
            require(Act("start"), control=self._supervisor.runtime.setup.control.path)
            os.environ.update(values)
        return Value()

    async def shutdown(self, only_idle: bool = False) -> Status:
        by = requester()
        await self._supervisor.shut_down("somebody" if by is None else by.text, only_idle=only_idle)
        return self._supervisor.status()
