"""Parses what a wait ends at: `step>=200 and reward>0.9 or failed`. Pure, and cheap to import.

condition := all of these with `and` between them; `or` between several such
each      := ready | done | failed | settled | alert[:KIND] | proposal:ID | METRIC < VALUE (<= > >= == !=)

A condition of a stop rule (`views/run_filter.py`) that only compares metrics reads the same here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rltui.base.text import parse_amount, unknown_name
from rltui.errors import UsageError

STATES: Mapping[str, str] = {
    "ready": "all its components are up",
    "done": "all its steps are done",
    "failed": "it has failed, or its end was not seen",
    "settled": "no component starts, stops or waits",
}
"""Conditions about the state of a run, and when they are true."""
EVENTS: Mapping[str, str] = {
    "alert": "an alert, or one of this kind or rule",
    "proposal": "the proposal of this id is answered",
}
"""Conditions about what happens, with or without a subject after a colon."""
EXAMPLE = "for example: ready, 'step>=200', 'reward>0.9 or failed', alert:health"
_PART = re.compile(
    r"(and|or)(?!\S)|([^\s<>=!]+)(?:\s*(<=|>=|==|!=|[<>=])\s*([^\s<>=!]*))?|(\S\S?)", re.IGNORECASE
)
"""Matches `and` or `or`, a term as name, operator and value, or anything else."""
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Term(NamedTuple):
    """One thing to wait for."""

    name: str
    """A name of `STATES` or `EVENTS`; with a `sign` a metric."""
    subject: str = ""
    """Kind of the alert, id of the proposal; empty: any."""
    sign: str = ""
    value: float = 0.0

    @property
    def text(self) -> str:
        if self.sign:
            return f"{self.name}{self.sign}{self.value:g}"
        return f"{self.name}:{self.subject}" if self.subject else self.name

    def compares(self, value: float | None) -> bool:
        """Return whether the comparison holds of this value; of none it never does."""
        return value is not None and _SIGNS[self.sign](value, self.value)


class Condition(NamedTuple):
    text: str
    alternatives: tuple[tuple[Term, ...], ...]

    @property
    def terms(self) -> Sequence[Term]:
        return [term for terms in self.alternatives for term in terms]

    def met(self, holds: Callable[[Term], bool]) -> Sequence[Term]:
        """The first alternative all of whose terms hold; empty if there is none."""
        return next((terms for terms in self.alternatives if all(map(holds, terms))), ())


def parse_condition(*texts: str) -> Condition:
    """The condition that one of these texts holds.

    Raises:
        UsageError: with what is wrong in it, and an example.
    """
    return Condition(" or ".join(texts), tuple(terms for text in texts for terms in _alternatives(text)))


def _alternatives(text: str) -> list[tuple[Term, ...]]:
    alternatives: list[list[Term]] = [[]]
    expects_term = True
    for part in _PART.finditer(text):
        joint, name, sign, value, other = part.groups()
        if other or (joint and expects_term):
            raise _error(text, f"unexpected {other or joint!r}")
        if joint:
            alternatives += [[]] if joint.lower() == "or" else []
        elif not expects_term:
            raise _error(text, f"no `and` or `or` before {name!r}")
        else:
            alternatives[-1].append(_comparison(text, name, sign, value) if sign else _plain(text, name))
        expects_term = bool(joint)
    if expects_term:
        raise _error(text, "a condition is missing")
    return [tuple(terms) for terms in alternatives]


def _comparison(text: str, name: str, sign: str, amount: str) -> Term:
    value = parse_amount(amount)
    if value is None:
        raise _error(text, f"{name}{sign} needs a number{f', not {amount}' if amount else ''}")
    return Term(name, sign=sign, value=value)


def _plain(text: str, term: str) -> Term:
    name, _, subject = term.partition(":")
    if term in STATES or term == "alert" or (name in EVENTS and subject):
        return Term(name, subject)
    if name == "proposal":
        raise _error(text, "which proposal? proposal:ID")
    guess = unknown_name("condition", term, [*STATES, *EVENTS]).hint
    raise _error(text, f"unknown: {term}", f"{guess}; a metric needs a value, in quotes: '{term}>=20'")


def _error(text: str, title: str, hint: str = EXAMPLE) -> UsageError:
    return UsageError(f"invalid condition {text!r}: {title}", hint=hint)
