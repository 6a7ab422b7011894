"""Asks on the command line before something is lost: see `core/experiment/consent.py`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rltui.cli.command import Arguments
from rltui.cli.terminal import confirm
from rltui.errors import UsageError
from rltui.services.actor import actor

if TYPE_CHECKING:
    from rltui.core.experiment.api import Loss, Plan, Request
    from rltui.core.experiment.consent import Verb


def require_consent(
    verb: Verb,
    arguments: Arguments,
    question: str,
    *,
    loss: Loss | None = None,
    plan: str = "",
) -> None:
    """Return where `verb` may be done. `arguments.yes`: it was agreed to beforehand.

    `loss`: where the table does not say it. `plan`: shown before an answer is asked for or refused, for want
    of who would give it; empty: it was shown already.

    Raises:
        UsageError: if a person says no, or nobody is there to be asked and too much would be lost.
    """
    from rltui.core.experiment.api import Loss  # msgspec behind it takes 20 ms
    from rltui.core.experiment.consent import LOSSES, Decision, decide

    loss = LOSSES[verb] if loss is None else loss
    assert loss is not None, f"only its plan says what {verb} loses"
    has_terminal, is_agent = sys.stdin.isatty(), actor().is_agent
    decision = decide(verb, loss, has_terminal=has_terminal, yes=arguments.yes, is_agent=is_agent)
    if decision is not Decision.ACT:
        sys.stderr.write(plan)
    match decision:
        case Decision.REFUSE:
            forever = "; a deletion cannot be undone" if loss is Loss.FOR_GOOD else ""
            raise UsageError(
                f"not confirmed: {'an agent is not asked' if is_agent else 'no terminal to ask on'}{forever}",
                hint="nothing was done; to confirm, add --yes",
                code="needs_confirmation",
            )
        case Decision.ASK if not confirm(question):
            raise UsageError("nothing was done", code="declined")


def require_right(verb: Verb) -> None:
    """Return where whoever acts here may do `verb`, which no supervisor and no queue looks at.

    Raises:
        UsageError: if it is an agent that may not, or that needs a person for it.
    """
    from rltui.core.experiment.rights import Act
    from rltui.services.experiment.rights import require

    require(Act(verb))


def require_plan_consent(
    plan: Plan,
    request: Request,
    arguments: Arguments,
    *,
    verb: Verb | None = None,
    question: str = "continue?",
    text: str = "",
) -> Request:
    """Return `request` with the consent that `plan` needs. For what an error forbids nobody is asked: the
    supervisor refuses it, with that error.

    `verb`: by default the request's own. `text`: shown before an answer, as `plan` of `require_consent`.

    Raises:
        UsageError: as `require_consent`.
    """
    from rltui.core.experiment.consent import loss_of_plan, with_consent

    if plan.blocked and not plan.conflicts:
        return request
    loss = loss_of_plan(plan, request)
    require_consent(verb or request.action, arguments, question, loss=loss, plan=text)
    return with_consent(request, plan)
