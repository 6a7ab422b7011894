"""What a wait may end at, as people and agents type it."""

from __future__ import annotations

import pytest

from rltui.core.runs.conditions import parse_condition
from rltui.errors import UsageError

FIGURES = {"step": 20.0, "reward": 0.91}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("ready", "ready"),
        ("step>=20", "step>=20"),
        ("step > 20", ""),
        ("reward>90% and step>=10", "reward>0.9 step>=10"),
        ("reward > 1 or step<1k", "step<1000"),
        ("reward>1 and ready or failed or step!=3", "step!=3"),
        ("alert:health", ""),
        ("kl<9", ""),  # no value of it is known
    ],
)
def test_met_by_the_first_alternative_that_holds(text: str, met: str) -> None:
    condition = parse_condition(text)
    terms = condition.met(
        lambda term: term.compares(FIGURES.get(term.name)) if term.sign else term.text == "ready"
    )
    assert " ".join(term.text for term in terms) == met


def test_several_texts_are_alternatives() -> None:
    assert parse_condition("ready and alert", "done") == parse_condition("ready and alert or done")


@pytest.mark.parametrize(
    ("text", "title", "hint"),
    [
        ("", "a condition is missing", "'step>=200'"),
        ("step", "unknown: step", "in quotes: 'step>=20'"),  # the shell took >=20 for a file
        ("redy", "unknown: redy", "did you mean ready?"),
        ("step>=", "step>= needs a number", ""),
        ("reward>high", "needs a number, not high", ""),
        ("step>=2 done", "no `and` or `or` before 'done'", ""),
        ("ready and", "a condition is missing", ""),
        ("or done", "unexpected 'or'", ""),
        (">= 3", "unexpected '>='", ""),
        ("step>=2 !", "unexpected '!'", ""),
        ("proposal", "which proposal? proposal:ID", ""),
    ],
)
def test_says_what_is_wrong(text: str, title: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_condition(text)
    assert title in error.value.title
    assert hint in error.value.hint
