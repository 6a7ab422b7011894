"""Decides when a person is asked for consent: the loss of each verb, and the one decision on it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from rltui.core.experiment.api import Loss, Plan, Request


class Decision(StrEnum):
    ACT = "act"
    ASK = "ask"
    REFUSE = "refuse"
    """Refuse with the plan: nobody is there to be asked."""


Verb = Literal[
    "start", "stop", "restart", "set", "write", "undo", "redo", "free", "up", "down", "down-all", "eval",
    "convert", "rerun", "publish", "rm", "prune-runs", "empty-trash", "prune-checkpoints",
    "restore-checkpoints", "forget", "promote", "k8s-install", "k8s-uninstall", "queue", "note", "label",
    "rename", "restore", "agents", "settings", "trust",
]  # fmt: skip
"""`eval` is also to cancel and to order evaluations, `up` also a fork, `label` also the star, the archive and
the note of a run.
"""

LOSSES: Mapping[Verb, Loss | None] = {
    "start": None, "stop": None, "restart": None, "up": None, "down": None, "down-all": None, "free": None,
    "set": None, "write": None, "undo": None, "redo": None,
    "eval": Loss.NOTHING, "queue": Loss.NOTHING, "note": Loss.NOTHING, "label": Loss.NOTHING,
    "rename": Loss.NOTHING, "restore": Loss.NOTHING,
    "agents": Loss.NOTHING, "settings": Loss.NOTHING, "trust": Loss.NOTHING,
    "convert": Loss.INTERVAL, "rerun": Loss.INTERVAL, "publish": Loss.INTERVAL, "rm": Loss.INTERVAL,
    "restore-checkpoints": Loss.INTERVAL, "k8s-install": Loss.INTERVAL, "k8s-uninstall": Loss.INTERVAL,
    "forget": Loss.MORE, "promote": Loss.MORE, "prune-runs": Loss.MORE,
    "empty-trash": Loss.FOR_GOOD, "prune-checkpoints": Loss.FOR_GOOD,
}  # fmt: skip
"""`None`: `loss_of_plan` computes it from the plan."""
_UNASKED: frozenset[Verb] = frozenset({"down"})
"""Executed whatever they lose, with a report of the loss: scripts end runs by it. An agent says `--yes`."""


def decide(verb: Verb, loss: Loss, *, has_terminal: bool, yes: bool, is_agent: bool = False) -> Decision:
    """Whether `verb`, which loses `loss`, is executed at once. `yes`: consent was already given.

    `is_agent`: an agent asks, which answers no questions, whatever terminal it has.
    """
    if yes or loss is Loss.NOTHING or (verb in _UNASKED and not is_agent):
        return Decision.ACT
    if has_terminal and not is_agent:
        return Decision.ASK
    return Decision.REFUSE if loss >= Loss.MORE or verb in _UNASKED else Decision.ACT


def loss_of_plan(plan: Plan, request: Request) -> Loss:
    is_foreign = any(process.evidence == "gpu" for process in plan.free)
    if is_foreign or is_warned(plan) or (request.moves and _loses_more(plan)):
        return Loss.MORE
    is_plain_start = (
        request.action == "start"
        and plan.start == request.components
        and not (plan.stop or plan.free or plan.problems or plan.lost.steps)
    )
    if not request.moves or not (plan.stop or plan.start or plan.free) or is_plain_start:
        return Loss.NOTHING
    return Loss.INTERVAL


def with_consent(request: Request, plan: Plan) -> Request:
    """`request`, once somebody has seen `plan` and said yes to it.

    Of a run that goes on, each second of reading makes the way back to a named checkpoint longer: who agreed
    to that checkpoint agreed to all the steps since.
    """
    loss = max(request.accepts, loss_of_plan(plan, request))
    if request.resume_step is not None:
        loss = max(loss, Loss.MORE)
    return request.replace(accepts=loss)


def is_warned(plan: Plan) -> bool:
    """An edit brings a warning with it. Going back to an earlier value is the cure, never the risk."""
    return plan.action in ("set", "write", "redo") and any(
        problem.severity == "warning" and not problem.standing for problem in plan.problems
    )


def _loses_more(plan: Plan) -> bool:
    """Whether more than the steps between two checkpoints are lost. If the run goes on from the newest one,
    the next may just be being written.
    """
    resume, newest = plan.lost.resume_step or 0, max(plan.checkpoints, default=0)
    lost_steps = max(plan.lost.steps, newest - resume if plan.checkpoints else 0)
    if plan.lost.interval is None:
        return lost_steps > 0
    return lost_steps > plan.lost.interval if resume < newest else lost_steps >= 2 * plan.lost.interval
