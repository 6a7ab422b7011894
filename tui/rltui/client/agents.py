"""Agents on this machine, as a person sees them: rights, pause, what each uses, and what they propose."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

from rltui.base.values import Value
from rltui.client import launch
from rltui.core import hints
from rltui.core.experiment.api import AgentProposal
from rltui.core.experiment.gpu_use import GpuUser
from rltui.core.experiment.questions import ExperimentApi
from rltui.core.experiment.rights import Counts, Level
from rltui.core.runs.queue import QueueEntry
from rltui.errors import RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.gpu_use import GpuUseReader
from rltui.services.experiment.proposals import read_proposals
from rltui.services.experiment.registry import known_experiments
from rltui.services.experiment.rights import granted, uses_now
from rltui.services.runs.queue_file import read_queue


class AgentUse(Value):
    """The runs and restarts of one agent on this machine now."""

    name: str
    runs: int = 0
    """Living runs that it has created or started."""
    trials: int = 0
    """Its runs in the queue, waiting or running."""
    restarts: int = 0
    """Number of its restarts in the last hour."""


class ProposalOfRun(Value):
    run: str
    proposal: AgentProposal


class AgentsReport(Value):
    """The document that `rltui agents --json` prints."""

    level: Level
    source: str
    """Where the level comes from: the settings, a pause, settings that cannot be read."""
    limits: dict[str, object]
    """The table `[agents]` of the settings."""
    agents: tuple[AgentUse, ...] = ()
    proposals: tuple[ProposalOfRun, ...] = ()
    """Those that wait for a person, oldest first; with `answered` the others, too."""
    entries: tuple[QueueEntry, ...] = ()
    """Entries of the queue that wait for a person."""


class RunUse(Value):
    run: str
    gpu_hours: float


class UserBudget(Value):
    name: str
    gpu_hours: float
    left_hours: float | None = None
    """The hours that an agent has left, if the settings limit it."""
    runs: tuple[RunUse, ...] = ()
    """The runs that it used GPUs for, those of most hours first."""


class BudgetReport(Value):
    """The document that `rltui agents budget --json` prints: GPU hours of processes that lived."""

    limit_hours: float | None
    """GPU hours of each agent, as the settings limit them."""
    agents: tuple[UserBudget, ...] = ()
    people: tuple[UserBudget, ...] = ()


def budget() -> BudgetReport:
    """GPU hours by who used them, most first. Blocking.

    Raises:
        RltuiError: if the index of runs cannot be read.
    """
    limit = granted().rights.gpu_hours
    runs: defaultdict[GpuUser, list[RunUse]] = defaultdict(list)
    for run, use in GpuUseReader().by_run().items():
        for user, seconds in use.items():
            runs[user].append(RunUse(run=run, gpu_hours=seconds / 3600))
    users: dict[bool, list[UserBudget]] = {True: [], False: []}
    for user, uses in runs.items():
        hours = sum(use.gpu_hours for use in uses)
        left = max(0.0, limit - hours) if user.is_agent and limit is not None else None
        uses.sort(key=lambda use: -use.gpu_hours)
        of_user = UserBudget(name=user.name, gpu_hours=hours, left_hours=left, runs=tuple(uses))
        users[user.is_agent].append(of_user)
    agents, people = (sorted(users[is_agent], key=lambda user: -user.gpu_hours) for is_agent in (True, False))
    return BudgetReport(limit_hours=limit, agents=tuple(agents), people=tuple(people))


def report(*, answered: bool = False) -> AgentsReport:
    """Report the rights of agents, their use and their proposals. Blocking."""
    rights, queue = granted(), read_queue()
    uses: dict[str, Counts] = uses_now(rights.rights, queue)
    return AgentsReport(
        level=rights.level,
        source=rights.source,
        limits=rights.rights.model_dump(mode="json", exclude={"rights"}),
        agents=tuple(
            AgentUse(name=name, runs=counts.runs, trials=counts.trials, restarts=counts.restarts)
            for name, counts in sorted(uses.items())
        ),
        proposals=tuple(
            ProposalOfRun(run=record.name, proposal=proposal.shown)
            for record in known_experiments()
            for proposal in _proposals_of(record, answered=answered)
        ),
        entries=tuple(entry for entry in queue.entries if entry.is_proposed),
    )


def _proposals_of(record: ExperimentRecord, *, answered: bool = False) -> tuple[AgentProposal, ...]:
    with suppress(RltuiError):  # damaged: its supervisor says so
        found = read_proposals(record.control.path)
        return found.proposals if answered else found.open
    return ()


def answer(record: ExperimentRecord, id_: str | None, *, accepted: bool, word: str = "") -> AgentProposal:
    """Accept or decline what an agent proposes in a run; without an id its only open proposal.

    Raises:
        UsageError: if there is none, or several.
        ConflictError, ConfigError, RltuiError: as the act itself; the proposal stays open.
    """
    if id_ is None:
        waiting = [proposal.id for proposal in _proposals_of(record)]
        if len(waiting) != 1:
            title = f"{record.name} has {len(waiting) or 'no'} open proposals"
            raise UsageError(title, hint=f"{'name one; ' if waiting else ''}to list all: {hints.PROPOSALS}")
        id_ = waiting[0]
    with launch.connect_or_start(record) as wire:
        return wire.request(ExperimentApi.answer_proposal, id_, accepted, word)
