from __future__ import annotations

import pytest

from rltui.cli.command import Arguments
from rltui.cli.consent import require_plan_consent
from rltui.core.config.report import Problem
from rltui.core.experiment.api import Loss, Lost, Plan, Request
from rltui.errors import UsageError

COSTLY = Plan(action="restart", stop=("trainer",), start=("trainer",), lost=Lost(steps=500))
ERROR = Problem(severity="error", message="no checkpoint 999")


def test_nobody_is_asked_about_what_an_error_forbids() -> None:
    """`restart --from 999` once asked for a confirmation first, and said what was wrong afterwards."""
    request, arguments = Request(action="restart"), Arguments(yes=False)
    with pytest.raises(UsageError, match="not confirmed"):
        require_plan_consent(COSTLY, request, arguments)
    forbidden = COSTLY.model_copy(update={"problems": (ERROR,)})
    assert require_plan_consent(forbidden, request, arguments).accepts is Loss.INTERVAL
