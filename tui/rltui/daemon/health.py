"""The health of the run, as the supervisor tells it: in its status, once as an alert, and when it is over."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.core.api import Alert, Bottleneck, HealthIssue, RollbackOffer
from rltui.core.bottleneck import BottleneckKnobs, bottleneck
from rltui.core.health import Finding, Thresholds, concern_of, damages, findings, spoils
from rltui.core.run_figures import RunFigures
from rltui.core.stalls import InferenceActivity
from rltui.daemon.events import EventBus
from rltui.daemon.suspects import Suspects
from rltui.services.runs.experiments import name_if_needed
from rltui.services.runs.journal import read_entries
from rltui.services.runs.run_folder import RunFolder

_MAX_READINGS = 20
"""Readings of the inference servers that are remembered."""
_GOOD_FRAC = 0.8
"""Of the best reward that a checkpoint had: with less, the fall had begun."""
_CALM_STEPS = 20
"""So many steps a rule must have nothing to say until its trouble is over."""


@dataclass(frozen=True, slots=True)
class _ReportedIssue:
    word: str
    severity: str
    step: int
    """The last one that had it."""


class RunHealth:
    def __init__(
        self,
        experiment: str | None,
        folder: RunFolder,
        journal_file: Path,
        events: EventBus,
        names: Mapping[str, str],
    ) -> None:
        """`experiment`: its name; `None` where somebody else runs it, so that there is no going back.
        `names`: the components that are `trainer`, `orchestrator` and `inference`, if there are such.
        """
        self._experiment = experiment
        self.concerns: tuple[HealthIssue, ...] = ()
        """As of the last look, the worst first."""
        self.bottleneck: Bottleneck | None = None
        self._folder, self._journal_file, self._events, self._names = folder, journal_file, events, names
        self._thresholds, self._knobs = Thresholds(), BottleneckKnobs()
        self._advice: Mapping[str, str] = {}
        self._rate: tuple[str, float] | None = None
        self._suspects = Suspects(journal_file)
        self._activities: deque[InferenceActivity] = deque(maxlen=_MAX_READINGS)
        self._edits: dict[tuple[str, int | None], tuple[str, ...]] = {}
        self._reported: dict[str, _ReportedIssue] = {}
        """By rule, what was told and is not over."""
        self._is_journal_read = False

    def set_thresholds(self, thresholds: Thresholds) -> None:
        """Those of the settings, from the next look on."""
        self._thresholds = thresholds

    def set_knobs(
        self, knobs: BottleneckKnobs, advice: Mapping[str, str], rate: tuple[str, float] | None = None
    ) -> None:
        """Those that this config has, what its framework advises by rule, and the knob and value of the
        learning rate, from the next look on.
        """
        self._knobs, self._advice, self._rate = knobs, advice, rate

    def add_activities(self, activities: Iterable[InferenceActivity]) -> None:
        known = list(activities)
        if not known:
            self._activities.clear()
            return
        uses = [each.kv_usage_frac for each in known if each.kv_usage_frac is not None]
        self._activities.append(
            InferenceActivity(
                running=sum(each.running for each in known),
                waiting=sum(each.waiting for each in known),
                kv_usage_frac=max(uses) if uses else None,
            )
        )

    def refresh(
        self, run: RunFigures, *, now: float | None = None, started: float = 0.0, is_over: bool = False
    ) -> bool:
        """Look at the figures, `now` and `started` as of `findings`; returns whether anything is other.

        `is_over`: nobody works who could wait for anything.
        """
        before = self.concerns, self.bottleneck
        found = findings(run, self._thresholds, now=now, started=started)
        good = self._folder.checkpoints() if found else []
        rewards = run.track("reward")
        levels = {step: rewards.around(step) for step in good}
        unwell = min((each.since for each in found if spoils(each.rule)), default=math.inf)
        self.concerns = tuple(self._health_issue(each, levels, min(unwell, each.since)) for each in found)
        waits = bottleneck(run, self._activities, self._knobs, self._names, started=started)
        self.bottleneck = None if is_over else waits
        return (self.concerns, self.bottleneck) != before

    def report(self, run: RunFigures) -> None:
        """Alert of what is new since the last time, and journal what is over."""
        if not self._is_journal_read:
            self._is_journal_read = True
            self._reported = _read_reported(self._journal_file)
        step = run.newest_step
        for concern in self.concerns:
            known = self._reported.get(concern.id)
            if known is None or (known.severity == "warning" and concern.severity == "error"):
                self._report(concern)
            self._reported[concern.id] = _ReportedIssue(concern.word, concern.severity, step)
        for rule, told in list(self._reported.items()):
            is_calm = not told.step <= step < told.step + _CALM_STEPS
            if is_calm and all(concern.id != rule for concern in self.concerns):
                del self._reported[rule]
                self._events.journal.add("health", f"{told.word}: over by step {step}", rule=rule, over=True)

    def _report(self, concern: HealthIssue) -> None:
        """By an alert, unless one of its kind was told that is as bad: a trouble brings others with it."""
        others = [told for rule, told in self._reported.items() if spoils(rule) == spoils(concern.id)]
        if all(told.severity == "warning" and concern.severity == "error" for told in others):
            self._events.alert(_alert(concern))
            return
        text = f"{concern.word}: {concern.text}"
        self._events.journal.add("health", text, component=concern.component, rule=concern.id)

    def _health_issue(
        self, finding: Finding, checkpoints: Mapping[int, float | None], unwell: float
    ) -> HealthIssue:
        """`unwell`: the first step that is not good any more, by whatever rule."""
        last_good, back = self._way_back(finding, checkpoints, unwell)
        known = (finding.rule, last_good)
        if known not in self._edits:
            self._edits[known] = self._edits_since(last_good)
        return concern_of(
            finding,
            component=self._names.get(finding.role),
            last_good=last_good,
            edits=self._edits[known],
            back=back,
            name=name_if_needed(self._experiment) if self._experiment is not None else None,
            more_advice=self._advice.get(finding.rule, ""),
            no_resume=self._folder.files.no_resume,
        )

    def _way_back(
        self, finding: Finding, checkpoints: Mapping[int, float | None], unwell: float
    ) -> tuple[int | None, RollbackOffer | None]:
        """The last good checkpoint, and how to go back there so that it does not come again: without the edit
        that may be to blame, else with half the learning rate. Of what an earlier checkpoint would not mend:
        nothing.
        """
        suspect = self._suspects.of(unwell) if spoils(finding.rule) else None
        last_good = _last_good(checkpoints, unwell) if spoils(finding.rule) else None
        if suspect is not None and last_good is not None and last_good > suspect.effect:
            last_good = max((step for step in checkpoints if step <= suspect.effect), default=None)
        if last_good is None or self._experiment is None or self._folder.files.no_resume:
            return last_good, None
        edits: dict[str, str | None] | None = {}
        if suspect is not None and not suspect.is_newest:
            edits = suspect.opposite
        elif suspect is None:
            edits = self._lower_rate() if damages(finding.rule) else None
        if edits is None:
            return last_good, None
        return last_good, RollbackOffer(
            edit=suspect.record.words if suspect is not None else "",
            component=self._names.get(finding.role, ""),
            reason=f"{finding.word}: {finding.evidence}",
            resume_step=last_good,
            edits=edits,
        )

    def _lower_rate(self) -> dict[str, str | None]:
        """Half the learning rate, which is what all rules of damage advise; nothing where it is not known."""
        return {} if self._rate is None else {self._rate[0]: f"{self._rate[1] / 2:g}"}

    def _edits_since(self, checkpoint: int | None) -> tuple[str, ...]:
        """In words, oldest first; since the run began where there is no checkpoint.

        What was edited while the attempt ran that wrote the checkpoint came into force only after it.
        """
        folder = self._folder.checkpoint_folders().get(checkpoint) if checkpoint is not None else None
        until = folder.stat().st_mtime if folder is not None else 0.0
        edits: list[str] = []
        for entry in read_entries(self._journal_file):
            is_anew = entry["kind"] == "resume" and _data(entry).get("step") is None
            is_start = entry["kind"] == "start" and entry.get("component") in self._names.values()
            if is_anew or (is_start and entry["at"] <= until):
                edits.clear()
            elif entry["kind"] == "edit":
                edits.append(entry["text"])
        return tuple(edits)


def _last_good(checkpoints: Mapping[int, float | None], since: float) -> int | None:
    """The newest checkpoint from before `since` whose reward was about the best of those: a fall takes a
    while until it is one. `checkpoints`: step → the reward by then, where it is known.
    """
    before = {step: reward for step, reward in checkpoints.items() if step < since}
    best = max((reward for reward in before.values() if reward is not None), default=0.0)
    least = _GOOD_FRAC * best if best > 0 else -math.inf
    return max((step for step, reward in before.items() if reward is None or reward >= least), default=None)


def _alert(concern: HealthIssue) -> Alert:
    is_told = concern.id == "non-finite"  # by those of `non_finite_alerts`, where the metrics have the value
    return Alert(
        kind="metric" if is_told else "health",
        severity=concern.severity,
        title=concern.word,
        text=concern.text,
        component=concern.component,
        rule=concern.id,
    )


def _data(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    data = entry.get("data")
    return data if isinstance(data, dict) else {}


def _read_reported(journal_file: Path) -> dict[str, _ReportedIssue]:
    told: dict[str, _ReportedIssue] = {}
    for entry in read_entries(journal_file):
        data = _data(entry)
        rule = data.get("rule")
        if not isinstance(rule, str):
            continue
        if data.get("over"):
            told.pop(rule, None)
        else:
            severity = "error" if data.get("severity") == "error" else "warning"
            told[rule] = _ReportedIssue(entry["text"].partition(":")[0], severity, 0)
    return told
