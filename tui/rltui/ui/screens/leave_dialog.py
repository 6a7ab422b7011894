"""Asks before edits that were collected are lost."""

from __future__ import annotations

from rltui.core.api import Plan
from rltui.core.config_report import Problem
from rltui.ui.screens.plan_dialog import PlanDialog


class LeaveDialog(PlanDialog):
    """True to leave all the same; *no* is the default."""

    def __init__(self, unwritten: tuple[str, ...]) -> None:
        """`unwritten`: what would be lost, a line each."""
        lost = tuple(Problem(severity="warning", message=f"not written: {line}") for line in unwritten)
        super().__init__(Plan(action="set", problems=lost), "Leave?", verb="Leave", danger=True)
