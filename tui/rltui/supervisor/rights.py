"""What agents may do in one experiment: allowed at once, kept as a proposal for a person, or refused."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from rltui.base.tasks import spawn
from rltui.base.text import join_words, steps_text
from rltui.core import hints
from rltui.core.experiment.api import AgentProposal, Plan, ProposalState, Request
from rltui.core.experiment.consent import with_consent
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.plan import carried_out
from rltui.core.experiment.rights import Act, Permission
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services.actor import acting_as, requester
from rltui.services.experiment.proposals import read_proposals, save_proposals
from rltui.services.experiment.rights import accepted_entry, granted, judge, refusal, require
from rltui.services.runs.metadata import read_metadata
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.runtime import Runtime
from rltui.views.plan import lost_text

_MOST_OPEN = 20
"""Most proposals that wait for a person."""
_LONGEST_WORD = 2000
_accepted_by: ContextVar[str] = ContextVar("accepted_by", default="")
"""Name of the person who has accepted the request in hand; empty: nobody has."""

Replay = Callable[[str, Mapping[str, Any]], Awaitable[object]]
"""Asks the supervisor a question, by method and arguments."""


class AgentRights:
    def __init__(self, runtime: Runtime, plan: Callable[[Request], Awaitable[Plan]]) -> None:
        self._name = runtime.setup.record.name
        self._control = runtime.setup.control.path
        self._processes = runtime.processes
        self._events = runtime.events
        self._plan = plan
        self._proposals = read_proposals(self._control)
        self._is_checking = False
        runtime.events.on_lifecycle(self._lifecycle_changed)
        runtime.events.on_change("knobs", self._check_open)

    @property
    def open(self) -> tuple[AgentProposal, ...]:
        """The proposals that wait for a person, as they may be shown."""
        return tuple(proposal.shown for proposal in self._proposals.open)

    # --- an act -------------------------------------------------------------------------------------------

    async def check(
        self,
        act: Act,
        method: str,
        params: Mapping[str, Any],
        *,
        plan: Plan | None = None,
        first: bool = False,
    ) -> None:
        """Return if whoever asks may do it at once. `first`: the first start of a new run.

        Raises:
            UsageError: if an agent may not, or needs a person, who finds its proposal.
        """
        who = requester()
        if who is None or not who.is_agent:
            return
        accepted = _accepted_by.get()
        if first and not accepted and (metadata := read_metadata(self._control)) is not None:
            accepted = accepted_entry(metadata.entry)
        rights = granted(self._control, accepted_by=accepted)
        act = replace(act, run=self._name)
        judgement = await asyncio.to_thread(judge, rights, who, act, folder=self._control.parent)
        if judgement.permission is Permission.PROPOSE:
            proposal = self._propose(act, method, params, plan)
            wait = hints.WAIT_PROPOSAL(name=self._name, id=proposal.id)
            raise UsageError(
                f"{judgement.text}: kept as proposal {proposal.id}",
                hint=f"a person accepts or declines it; to wait for the answer: {wait}",
                code=judgement.code,
            )
        if judgement.permission is Permission.REFUSE:
            raise refusal(judgement)

    def _propose(self, act: Act, method: str, params: Mapping[str, Any], plan: Plan | None) -> AgentProposal:
        who = requester()
        assert who is not None, "an agent asked"
        waiting = self._proposals.open
        for proposal in waiting:
            if (proposal.by.name, proposal.method, proposal.params) == (who.name, method, params):
                return proposal  # it asks again
        if len(waiting) >= _MOST_OPEN:
            raise ConflictError(
                f"{len(waiting)} proposals of {self._name} wait for a person", hint="wait for their answers"
            )
        proposal = AgentProposal(
            id=f"p{self._proposals.count + 1}",
            verb=act.verb,
            text=_effect(act.verb, plan, params),
            by=who,
            reason=who.reason,
            at=time.time(),
            method=method,
            params=dict(params),
            plan=plan,
            was_alive=bool(self._processes.alive()),
        )
        return self._save(proposal, f"{proposal.id}: {who.short} proposes: {proposal.text}")

    # --- the answer ---------------------------------------------------------------------------------------

    async def answer(self, id_: str, *, accepted: bool, word: str, replay: Replay) -> AgentProposal:
        """A person's answer. What is accepted is done as the agent's act.

        Raises:
            UsageError: if an agent answers, or there is no such proposal.
            ConflictError: if it was answered, or has expired.
            RltuiError: as the act itself; the proposal stays open.
        """
        require(Act("agents"))
        if (proposal := self._proposals.get(id_)) is None:
            raise UsageError(f"{self._name} has no proposal {id_[:20]}", hint=hints.PROPOSALS())
        if proposal.state == "open":
            proposal = await self._checked(proposal)
        if proposal.state != "open":
            raise ConflictError(
                f"proposal {id_} is {proposal.state}{f': {proposal.word}' if proposal.word else ''}",
                hint="nothing was done",
                code="stale_plan",
            )
        if not accepted:
            return self._close(proposal, "declined", word).shown
        answered = self._close(proposal, "accepted", word)
        params = proposal.params
        if proposal.plan is not None:
            params = with_consent(Request.from_plain(params), proposal.plan).to_plain()
        person = answered.answered_by
        token = _accepted_by.set(person.short if person is not None else "a person")
        try:
            with acting_as(proposal.by):
                await replay(proposal.method, params)
        except RltuiError as error:
            self._save(proposal, f"{id_} could not be carried out: {error.title}")
            raise
        finally:
            _accepted_by.reset(token)
        return answered.shown

    def expire(self, reason: str) -> None:
        """Nobody can accept any proposal any more."""
        for proposal in self._proposals.open:
            if proposal.method != "shutdown":
                self._close(proposal, "expired", reason)

    # --- expiry -------------------------------------------------------------------------------------------

    def _lifecycle_changed(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        if runner.lifecycle.state != previous.state:
            self._check_open()

    def _check_open(self) -> None:
        if self.open and not self._is_checking:
            self._is_checking = True
            spawn(self._check_all(), "proposals")

    async def _check_all(self) -> None:
        try:
            for proposal in self._proposals.open:
                with acting_as(None):
                    await self._checked(proposal)
        finally:
            self._is_checking = False

    async def _checked(self, proposal: AgentProposal) -> AgentProposal:
        """The proposal with a plan that is up to date, or expired."""
        if proposal.was_alive and not self._processes.alive():
            return self._close(proposal, "expired", "the run has ended")
        if proposal.plan is None:
            return proposal
        try:
            request = Request.from_plain(proposal.params)
            plan = carried_out(await self._plan(request), request)
        except RltuiError as error:
            return self._close(proposal, "expired", error.title)
        now = self._proposals.get(proposal.id) or proposal
        if now.state != "open":
            return now
        before = proposal.plan.made_from
        for changed, value in plan.made_from.items():
            if value != before[changed]:
                return self._close(now, "expired", changed)
        return now if plan == now.plan else self._save(now.replace(plan=plan))

    def _close(self, proposal: AgentProposal, state: ProposalState, word: str) -> AgentProposal:
        by = None if state == "expired" else requester()
        word = word.strip()[:_LONGEST_WORD]
        answered = proposal.replace(state=state, word=word, answered_by=by, answered_at=time.time())
        return self._save(answered, f"{proposal.id} {state}: {proposal.text}{f': {word}' if word else ''}")

    def _save(self, proposal: AgentProposal, text: str = "") -> AgentProposal:
        """`text`: of the entry in the journal, if it is worth one."""
        self._proposals = self._proposals.with_proposal(proposal)
        save_proposals(self._control, self._proposals)
        if text:
            self._events.journal.add("proposal", text, id=proposal.id, state=proposal.state)
        self._events.changed("status")
        return proposal


def _effect(verb: str, plan: Plan | None, params: Mapping[str, Any]) -> str:
    """The effect on one line: `rl.toml: lr 2e-4 → 1e-4; restart trainer; lose 6 steps`."""
    if plan is None:
        steps = params.get("only")
        return f"{verb}: steps {steps_text(sorted(steps))}" if steps else verb
    request = Request.from_plain(params)
    restarted = [name for name in plan.start if name in plan.stop]
    others = [("restart", restarted)] if restarted else []
    others += [("stop", [name for name in plan.stop if name not in restarted])]
    others += [("start", [name for name in plan.start if name not in restarted])]
    begin = " from the beginning" if request.resume == "scratch" else ""
    steps = [
        f"{verb} {join_words(names)}{'' if verb == 'stop' else begin}" for verb, names in others if names
    ]
    lost = lost_text(plan.lost)
    effects = [*plan.written, *steps, *([f"lose {lost}"] if lost else [])]
    for name, value in request.given.items():
        effects.append(f"{name}: {value if isinstance(value, str) else shlex.join(value)}")
    return "; ".join(effects) or verb
