"""The findings about a run, and how they are told to people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rltui.core import hints
from rltui.core.experiment.api import HealthIssue, RollbackOffer
from rltui.core.metrics.health import learning_rules, pipeline_rules
from rltui.core.metrics.health.rule import BACK, HealthInputs, HealthRule, Symptom

RULES: dict[str, HealthRule] = {rule.id: rule for rule in (*learning_rules.RULES, *pipeline_rules.RULES)}
"""Id → rule, in the order of their findings."""
_EDITS = 3
"""Number of edits that are described."""


@dataclass(frozen=True, slots=True)
class Finding:
    rule: HealthRule
    symptom: Symptom


def findings(case: HealthInputs) -> tuple[Finding, ...]:
    """Findings about a run, the worst first."""
    audible = (rule for rule in RULES.values() if rule.id not in case.limits.silent)
    found = [Finding(rule, symptom) for rule in audible if (symptom := rule.find(case)) is not None]
    covered = {id_ for finding in found for id_ in finding.symptom.covers}
    shown = (finding for finding in found if finding.rule.id not in covered)
    return tuple(sorted(shown, key=lambda finding: finding.symptom.severity))  # `error` is before `warning`


def concept_beside(found: Iterable[Finding]) -> str:
    """The metric to look at beside the reward: that of the worst finding that has one, else the entropy."""
    return next(filter(None, (finding.symptom.concept for finding in found)), "entropy")


def spoils(rule: str) -> bool:
    """Return `HealthRule.spoils` of a rule, and True for one of another version."""
    return rule not in RULES or RULES[rule].spoils


def health_issue_of(
    finding: Finding,
    *,
    component: str | None,
    last_good: int | None,
    edits: Sequence[str],
    back: RollbackOffer | None = None,
    name: str | None = None,
    more_advice: str = "",
    no_resume: str = "",
) -> HealthIssue:
    """A finding for people, with its context.

    Args:
        finding: of a rule.
        component: that it is about.
        last_good: the newest complete checkpoint from before it.
        edits: since that checkpoint, oldest first.
        back: offer to go back there.
        name: of the experiment, if commands need it.
        more_advice: of the framework.
        no_resume: reason why there is no going back to a checkpoint.
    """
    symptom = finding.symptom
    advice = symptom.advice.replace(BACK, "start over") if no_resume else symptom.advice
    advice = f"{advice}; {more_advice}" if more_advice else advice
    sentences = [f"{symptom.evidence}; {advice}"]
    if no_resume:
        sentences.append(no_resume)
    elif back is not None and back.resume_step is not None:
        sentences.append(hints.way_back(back.resume_step, back.edit, back.edits, name=name))
    elif last_good is not None:
        sentences.append(f"the last good checkpoint is {last_good}")
    elif finding.rule.spoils:
        sentences.append("no earlier checkpoint is complete")
    if edits and (back is None or tuple(edits) != (back.edit,)):
        more = f"{len(edits) - _EDITS} more and " if len(edits) > _EDITS else ""
        sentences.append(f"edited since: {more}{'; '.join(edits[-_EDITS:])}")
    return HealthIssue(
        id=finding.rule.id,
        word=symptom.word,
        text=". ".join(
            sentence[0].upper() + sentence[1:] if index else sentence
            for index, sentence in enumerate(sentences)
        ),
        severity=symptom.severity,
        component=component,
        since=symptom.since,
        evidence=symptom.evidence,
        advice=advice,
        last_good=last_good,
        edits=tuple(edits),
        back=back,
    )
