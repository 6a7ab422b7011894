"""Commands on the experiment as a whole: a plan carried out, a note, a link, a shell."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.base.text import truncate
from rltui.core.experiment.api import Link
from rltui.core.experiment.consent import Decision, decide, loss_of_plan, with_consent
from rltui.errors import RltuiError
from rltui.ui.commands.frontend import Frontend
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.base import LinkMenu, MessageDialog, NoteDialog, PlanDialog
from rltui.ui.requests import ConfirmableRequest, done_text, nothing_text
from rltui.ui.state import ExperimentState
from rltui.ui.text import clean_line


class ExperimentCommands:
    def __init__(self, frontend: Frontend, state: ExperimentState) -> None:
        self._frontend = frontend
        self._state = state
        self._experiment = state.experiment

    def allows(self, command: str, *arguments: object) -> bool:
        """Links need an address to open, notes the right to write."""
        del arguments
        experiment, status = self._experiment, self._state.status
        match command:
            case "open_links":
                return status is not None and bool(status.links)
            case "answer_proposal":
                return status is not None and bool(status.proposals)
            case "note":  # it is none of the run's business: also who may change nothing else can write one
                may_open_again = experiment.finished and not self._state.app_state.runs.readonly
                return not experiment.readonly or experiment.observed or may_open_again
            case _:
                return True

    def request(self, confirmable: ConfirmableRequest) -> None:
        """Plan it, ask where it is more than a plain start, and do it."""
        self._frontend.work(self.execute(confirmable))

    async def execute(self, confirmable: ConfirmableRequest) -> None:
        """Do what `request` does, within work that has begun."""
        frontend, request = self._frontend, confirmable.request
        async with frontend.waiting(f"Planning: {confirmable.heading.rstrip('?')}", cancels=True):
            plan = await self._experiment.plan(request)
        if not (plan.stop or plan.start or plan.diff or plan.free or plan.blocked):
            frontend.notify(nothing_text(plan), markup=False)
            return
        loss = loss_of_plan(plan, request)
        must_ask = decide(request.action, loss, has_terminal=True, yes=False) is Decision.ASK
        if confirmable.danger or must_ask or plan.blocked:
            dialog = PlanDialog(plan, confirmable.heading, verb=confirmable.verb, danger=confirmable.danger)
            answer = await frontend.prompt(dialog)
            if isinstance(answer, str):
                await self._edit(answer)
            if answer is not True:
                return
        async with frontend.waiting(confirmable.heading.rstrip("?")):
            result = await self._experiment.execute(with_consent(request, plan))
        frontend.notify(done_text(result), markup=False)

    async def _edit(self, key: str) -> None:
        from rltui.ui.commands.config_dialogue import ConfigDialogue  # has commands of an experiment itself

        knob = next((knob for knob in self._state.knobs if knob.key.rpartition(".")[2] == key), None)
        if knob is not None:
            await ConfigDialogue(self._frontend, self._state).edit(knob)

    def answer_proposal(self) -> None:
        """Ask about the oldest proposal of an agent."""
        self._frontend.work(self._answer_proposal())

    async def _answer_proposal(self) -> None:
        from rltui.ui.dialogs.proposal import ProposalDialog

        waiting = () if self._state.status is None else self._state.status.proposals
        if not waiting:
            return
        proposal, frontend = waiting[0], self._frontend
        number = f" (1 of {len(waiting)})" if len(waiting) > 1 else ""
        answer, word = await frontend.prompt(ProposalDialog(proposal, number=number)), ""
        if answer == "decline":
            title, hint = f"Decline {proposal.id}", "a word for the agent"
            dialog = NoteDialog(title=title, placeholder=hint, purpose="decline", may_be_empty=True)
            typed = await frontend.prompt(dialog)
            answer, word = (None, "") if typed is None else (answer, typed)
        if answer is not None:
            async with frontend.waiting(f"Answering {proposal.id}"):
                done = await self._experiment.answer_proposal(proposal.id, answer == "accept", word)
            frontend.notify(f"{done.id} {done.state}: {clean_line(done.text)}", markup=False)

    def note(self) -> None:
        """Ask for words, and keep them with the events."""
        self._frontend.work(self._note(), changes=False)

    async def _note(self) -> None:
        """Asks again until the note is saved, so that no typed text is lost."""
        text = ""
        while text := await self._frontend.prompt(NoteDialog(text)) or "":
            try:
                async with self._frontend.waiting("Adding the note"):
                    entry = await self._experiment.note(text)
            except RltuiError as error:
                await self._frontend.prompt(MessageDialog.for_error(error))
                continue
            step = "" if entry.step is None else f" at step {entry.step}"
            self._frontend.notify(f"Note added{step}: {truncate(clean_line(entry.text), 40)}", markup=False)
            self._state.show_journal()
            return

    def open_links(self) -> None:
        if self._state.status is not None:
            self._frontend.work(self._open_link(self._state.status.links), changes=False)

    async def _open_link(self, links: Sequence[Link]) -> None:
        url = await self._frontend.prompt(LinkMenu(links))
        if url is not None:
            await self.open_page(url)

    async def open_page(self, url: str, *, why: str = "") -> None:
        """Open it in a browser; where none can be opened, its address goes to the clipboard, with `why` it
        must be opened.
        """
        async with self._frontend.waiting("Opening a browser"):
            url = await self._experiment.reachable_url(url)
            is_opened = await self._experiment.open_url(url)
        if is_opened:
            self._frontend.notify(f"Opened {clean_line(url)}", markup=False)
        else:
            text = clean_line(url)
            what = f"the address, as {why}: {text}" if why else f"{text}; open it in a browser"
            self._frontend.post_message(CopyRequested(url, what))
