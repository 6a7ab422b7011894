from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from rltui.cli.command import Arguments
from rltui.cli.consent import require_consent, require_plan_consent
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
    forbidden = COSTLY.replace(problems=(ERROR,))
    assert require_plan_consent(forbidden, request, arguments).accepts is Loss.INTERVAL


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives the answer of a person at a terminal."""

    def typed(text: str) -> None:
        stdin = io.StringIO(text)
        monkeypatch.setattr(stdin, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", stdin)

    return typed


def ask() -> None:
    require_consent("restart", Arguments(yes=False), "restart?", loss=Loss.MORE)


@pytest.mark.parametrize("text", ["n\n", "\n", "nonsense\n", ""])
def test_what_is_no_yes_changes_nothing(text: str, answer: Callable[[str], None]) -> None:
    """Neither the default, nor a word that was not asked for, nor the end of the input."""
    answer(text)
    with pytest.raises(UsageError, match="nothing was done"):
        ask()


@pytest.mark.parametrize("text", ["y\n", "Yes\n"])
def test_a_yes_is_one(text: str, answer: Callable[[str], None]) -> None:
    answer(text)
    ask()
