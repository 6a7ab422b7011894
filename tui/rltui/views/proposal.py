"""What agents propose, in all runs and in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rltui.base.text import duration
from rltui.views.plan import plan_rows
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.experiment.actor import Actor
    from rltui.core.experiment.api import AgentProposal
    from rltui.core.runs.queue import QueueEntry

STATE_ROLES = {"open": Cell("open", "busy"), "accepted": Cell("accepted", "good")}


class Proposed(NamedTuple):
    """A proposal in a run, or an entry of the queue that waits for a person."""

    run: str
    id: str
    """Empty for an entry, which has the name of its run."""
    by: Actor
    at: float
    text: str
    state: str = "open"
    word: str = ""


def of_run(run: str, proposal: AgentProposal) -> Proposed:
    return Proposed(run, proposal.id, proposal.by, proposal.at, proposal.text, proposal.state, proposal.word)


def of_entry(entry: QueueEntry) -> Proposed:
    assert entry.by is not None, "an agent added it"
    text = f"start it{f': {entry.told}' if entry.told else ''}"
    return Proposed(entry.name, "", entry.by, entry.added_at, text)


def _what_text(proposed: Proposed, _: float) -> str:
    answer = f" ({proposed.word})" if proposed.word else ""
    reason = f" · {proposed.by.reason}" if proposed.by.reason else ""
    return f"{proposed.text}{answer}{reason}"


VIEW: View[Proposed] = View(
    key=lambda proposed: f"{proposed.run}/{proposed.id}",
    columns=(
        Column("run", lambda proposed, _: proposed.run, least=12, cut="middle"),
        Column("id", lambda proposed, _: proposed.id or "queue"),
        Column("agent", lambda proposed, _: proposed.by.name, least=8, goes=2),
        Column("age", lambda proposed, now: duration(max(0.0, now - proposed.at)), is_right=True, goes=1),
        Column("state", lambda proposed, _: STATE_ROLES.get(proposed.state, Cell(proposed.state))),
        Column("what", _what_text, least=20),
    ),
)


def proposal_rows(proposal: AgentProposal) -> list[tuple[str, str]]:
    """Labels with their texts, for a question: who, why, and what it changes and loses."""
    effects = [] if proposal.plan is None else plan_rows(proposal.plan)
    rows = [("agent", proposal.by.text), ("reason", proposal.reason), ("does", proposal.text), *effects]
    return [(label, text) for label, text in rows if text]
