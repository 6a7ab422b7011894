"""All questions to an experiment, each declared once: name, parameters, answer.

Its supervisor answers over a unix socket; without one, a reader answers from the files. Names and parameters
are those of the socket's protocol: another version may ask them.
"""

from __future__ import annotations

import sys
from typing import Annotated

from msgspec import Meta

from rltui.base.questions import command, question
from rltui.base.values import Value
from rltui.core.config.report import BatchUnit, Conversion, KnobTable
from rltui.core.experiment.api import AgentProposal, Plan, Request, Status
from rltui.core.experiment.description import Panels
from rltui.core.experiment.journal import JournalEntry
from rltui.core.gpu.report import GpuHistories, GpuReport
from rltui.core.runs.checkpoints import CheckpointReport, PrunePlan, Retention
from rltui.core.runs.evals import EvalReport, EvalRequest, QueuedEval

_Count = Annotated[int, Meta(ge=0)]
_Number = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""Neither infinite nor NaN."""
ANY_TARGET = EvalRequest()
"""An order of evaluations says how, not what."""


class ExperimentApi:
    """Questions about one experiment. All may raise `RltuiError`."""

    @question()
    async def status(self) -> Status:
        """The current state of all that is shown at a glance."""

    @question()
    async def panels(self) -> Panels:
        """Return the panels of its overview, which never change."""

    @question()
    async def knobs(self) -> KnobTable:
        """The knobs of the config files, and what the components run with."""

    @question()
    async def gpus(self) -> GpuReport:
        """The newest reading of the devices."""

    @question()
    async def gpu_history(self) -> GpuHistories:
        """Memory of each device over time, since the supervisor started at the earliest."""

    @question(starts_supervisor=True)
    async def plan(self, request: Request) -> Plan:
        """Effects of `request`. No side effects."""

    @command()
    async def execute(self, request: Request) -> Plan:
        """Do it, and return the plan that is being carried out, once it has begun."""

    @question()
    async def convert(self, to: BatchUnit | None = None, mean_tokens: _Number | None = None) -> Conversion:
        """The batch counted the other way, or the way `to`; nothing is written.

        `mean_tokens` of an accepted rollout; `None`: what was measured.
        """

    @command(starts_supervisor=False)
    async def note(self, text: str) -> JournalEntry:
        """Have a person's words kept in the journal, also of a run that is only observed."""

    @question()
    async def checkpoints(self) -> CheckpointReport:
        """Checkpoints in the run's folder now. Sizes of large ones may take a while."""

    @question()
    async def plan_prune(self, retention: Retention) -> PrunePlan:
        """Checkpoints that `retention` would delete. No side effects."""

    @command()
    async def prune(self, retention: Retention, only: tuple[int, ...]) -> PrunePlan:
        """Delete those, as far as their steps are among `only`: what the person was shown."""

    @question()
    async def evals(self) -> EvalReport:
        """Finished evaluations, and those that wait or run (also in `Status.evals`)."""

    @command()
    async def evaluate(self, request: EvalRequest) -> QueuedEval:
        """Put an evaluation behind the others."""

    @command()
    async def cancel_eval(self, id_: str) -> EvalReport:
        """Take one from the queue, or end the one that runs."""

    @command()
    async def order_evals(self, every: _Count, request: EvalRequest = ANY_TARGET) -> EvalReport:
        """Evaluate one of so many checkpoints as `request` says, whatever its target; 0: none any more."""

    @command()
    async def answer_proposal(self, id_: str, accepted: bool, word: str = "") -> AgentProposal:
        """Do what an agent proposes, or decline it with a word. An agent is refused."""


class SupervisorApi(ExperimentApi):
    """Questions to a supervisor about itself besides."""

    @command()
    async def tokens(self, values: dict[str, str]) -> Value:
        """Variables with tokens, of the shell of who asks for a tool: what starts from now on has them. An
        agent's are left out where it may not start anything at once.
        """

    @command(starts_supervisor=False)
    async def shutdown(self, only_idle: bool = False) -> Status:
        """End everything, or with `only_idle` a supervisor that has nothing to do. The answer comes then."""
