"""Asks a person about what an agent proposes."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.content import Content

from rltui.core.experiment.api import AgentProposal
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.dialogs.base import ButtonDialog, KeyHint, button
from rltui.ui.key_bindings import keys, own
from rltui.ui.plan_view import diff_lines, plan_row
from rltui.ui.text import clean_line
from rltui.views.proposal import proposal_rows

ProposalAnswer = Literal["accept", "decline"]


class ProposalDialog(ButtonDialog[ProposalAnswer]):
    """Who wants what and why, and what it changes and loses. `esc` leaves it open."""

    BINDINGS: ClassVar = keys(
        KeyContext.PROPOSAL,
        own("proposal.decline", "x", "decline", "decline", "Decline the proposal, with a word", Scope.DIALOG),
    )  # fmt: skip

    def __init__(self, proposal: AgentProposal, *, number: str) -> None:
        """`number`: which of several it is, in words; empty: the only one."""
        styles = {"lose": "bold $text-warning", "reason": "italic"}
        rows = proposal_rows(proposal)
        lines = [plan_row(label, clean_line(text), styles.get(label, "")) for label, text in rows]
        diff = proposal.plan.diff if proposal.plan is not None else ""
        super().__init__(
            f"Proposal {proposal.id}{number}",
            Content("\n").join([*lines, *([Content(""), *diff_lines(diff)] if diff else [])]),
            [button("Accept", "yes", "primary"), button("Decline", "decline"), button("Later", "no")],
            {"yes": "accept", "decline": "decline"},
            default="yes",
        )

    def footer_hints(self) -> list[KeyHint]:
        accept = super().footer_hints()[0]
        return [accept, ("proposal.decline", ""), ("dialog.no", "later"), ("dialog.other", "")]

    def action_decline(self) -> None:
        self.dismiss("decline")
