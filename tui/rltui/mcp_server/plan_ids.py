"""Plan ids: what an agent has planned, and the state that it was planned in, as one text. Pure.

Nothing is kept between a plan and its execution: an id outlives the server, and any server can execute it. An
id grants nothing: who has one might as well ask for the same at once.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rltui.base.values import Value, from_json, from_plain
from rltui.errors import UsageError
from rltui.mcp_server.actions import Action, PlanArguments

_PREFIX = "p1-"
_LONGEST = 20_000


class PlannedAct(Value, array_like=True):
    run: str
    """Id of the run."""
    action: Action
    args: dict[str, Any]
    """The given ones of its `PlanArguments`."""
    state: str
    """Digest of what must be as it was."""
    newest: int | None = None
    """Step of the newest checkpoint (`Prepared.newest_checkpoint`): one that is newer by then is as good."""

    @property
    def arguments(self) -> PlanArguments:
        return from_plain(PlanArguments, self.args)


def encode(act: PlannedAct) -> str:
    return _PREFIX + base64.urlsafe_b64encode(act.to_json()).decode().rstrip("=")


def planned_act(text: str) -> PlannedAct:
    """The act that an id names.

    Raises:
        UsageError: if the text is no id.
    """
    try:
        if not text.startswith(_PREFIX) or len(text) > _LONGEST:
            raise ValueError
        act = from_json(PlannedAct, base64.urlsafe_b64decode(f"{text.removeprefix(_PREFIX)}=="))
        from_plain(PlanArguments, act.args)
        return act
    except ValueError:
        raise UsageError(
            "not a plan_id of this version of rltui", hint="call plan, and pass its plan_id on as it is"
        ) from None


def digest_of(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True, default=str).encode()).hexdigest()[:12]
