"""The health of the run: issues in its status, each alerted once and journaled when it is over."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui.core.experiment.api import Alert, Bottleneck, HealthIssue, RollbackOffer
from rltui.core.experiment.events import entry_data
from rltui.core.metrics.bottleneck import BottleneckKnobs, bottleneck
from rltui.core.metrics.engine import InferenceActivity
from rltui.core.metrics.health.findings import Finding, concept_beside, findings, health_issue_of, spoils
from rltui.core.metrics.health.rule import HealthInputs
from rltui.core.metrics.health.thresholds import Thresholds
from rltui.core.metrics.learning import Learning
from rltui.core.metrics.tracks import RunTracks
from rltui.services.experiment.journal import read_entries
from rltui.services.experiment.registry import name_if_needed
from rltui.services.runs.folder import RunFolder
from rltui.supervisor.events import EventBus
from rltui.supervisor.suspects import Suspects

_MAX_READINGS = 20
"""Readings of the inference servers that are remembered."""
_GOOD_FRAC = 0.8
"""A checkpoint with less than this share of the best reward was written after the fall had begun."""
_CALM_STEPS = 20
"""An issue is over when its rule has found nothing for so many steps."""


@dataclass(frozen=True, slots=True)
class _ReportedIssue:
    title: str
    severity: str
    step: int
    """The last step at which it was found."""


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
        """Issues as of the last refresh, the worst first."""
        self.concept = concept_beside(())
        """The metric to look at beside the reward."""
        self.bottleneck: Bottleneck | None = None
        self._folder, self._journal_file, self._events, self._names = folder, journal_file, events, names
        self._thresholds, self._knobs = Thresholds(), BottleneckKnobs()
        self._learning = Learning()
        """What the run learns from, by its config."""
        self._advice: Mapping[str, str] = {}
        self._rate: tuple[str, float] | None = None
        self._suspects = Suspects(journal_file)
        self._activities: deque[InferenceActivity] = deque(maxlen=_MAX_READINGS)
        self._edits: dict[tuple[str, int | None], tuple[str, ...]] = {}
        self._reported: dict[str, _ReportedIssue] = {}
        """Rule → issue that was reported and is not over."""
        self._is_journal_read = False

    def set_thresholds(self, thresholds: Thresholds) -> None:
        """Use the thresholds of the settings from the next refresh on."""
        self._thresholds = thresholds

    def set_knobs(
        self,
        knobs: BottleneckKnobs,
        advice: Mapping[str, str],
        rate: tuple[str, float] | None = None,
        learning: Learning | None = None,
    ) -> None:
        """Use the knobs of this config, its framework's advice by rule, the knob and value of the learning
        rate, and what it learns from, from the next refresh on.
        """
        self._knobs, self._advice, self._rate = knobs, advice, rate
        self._learning = learning or Learning()

    def add_activities(self, activities: Iterable[InferenceActivity]) -> None:
        servers = list(activities)
        if not servers:
            self._activities.clear()
            return
        kv_usages = [server.kv_usage_frac for server in servers if server.kv_usage_frac is not None]
        self._activities.append(
            InferenceActivity(
                running=sum(server.running for server in servers),
                waiting=sum(server.waiting for server in servers),
                kv_usage_frac=max(kv_usages) if kv_usages else None,
            )
        )

    def refresh(
        self, run: RunTracks, *, now: float | None = None, started: float = 0.0, is_over: bool = False
    ) -> bool:
        """Evaluate the metrics of `run`, with `now` and `started` as in `HealthInputs`; True if any changed.

        `is_over`: no component works that could wait for another.
        """
        previous = self.concerns, self.bottleneck
        name = name_if_needed(self._experiment) if self._experiment is not None else None
        issues = findings(HealthInputs(run, self._thresholds, now, started, self._learning, name))
        self.concept = concept_beside(issues)
        checkpoints = self._folder.checkpoints() if issues else []
        rewards = run.track("reward")
        levels = {step: rewards.around(step) for step in checkpoints}
        bad_steps = [finding.symptom.since for finding in issues if finding.rule.spoils]
        self.concerns = tuple(
            self._health_issue(finding, levels, min([*bad_steps, finding.symptom.since]))
            for finding in issues
        )
        waits = bottleneck(run, self._activities, self._knobs, self._names, started=started)
        self.bottleneck = None if is_over else waits
        return (self.concerns, self.bottleneck) != previous

    def report(self, run: RunTracks) -> None:
        """Alert on issues that are new since the last call, and journal those that are over."""
        if not self._is_journal_read:
            self._is_journal_read = True
            self._reported = _read_reported(self._journal_file)
        step = run.newest_step
        for concern in self.concerns:
            reported = self._reported.get(concern.id)
            if reported is None or (reported.severity == "warning" and concern.severity == "error"):
                self._report(concern)
            self._reported[concern.id] = _ReportedIssue(concern.word, concern.severity, step)
        for rule, reported_issue in list(self._reported.items()):
            is_calm = not reported_issue.step <= step < reported_issue.step + _CALM_STEPS
            if is_calm and all(concern.id != rule for concern in self.concerns):
                del self._reported[rule]
                self._events.journal.add(
                    "health", f"{reported_issue.title}: resolved at step {step}", rule=rule, over=True
                )

    def _report(self, concern: HealthIssue) -> None:
        """Alert, unless an issue of its kind was reported that is as bad: one trouble causes others."""
        related = [
            reported for rule, reported in self._reported.items() if spoils(rule) == spoils(concern.id)
        ]
        if all(reported.severity == "warning" and concern.severity == "error" for reported in related):
            self._events.alert(_alert(concern))
            return
        text = f"{concern.word}: {concern.text}"
        self._events.journal.add("health", text, component=concern.component, rule=concern.id)

    def _health_issue(
        self, finding: Finding, checkpoints: Mapping[int, float | None], unwell: float
    ) -> HealthIssue:
        """`unwell`: the first step that is not good any more, by whatever rule."""
        last_good, back = self._way_back(finding, checkpoints, unwell)
        key = (finding.rule.id, last_good)
        if key not in self._edits:
            self._edits[key] = self._edits_since(last_good)
        return health_issue_of(
            finding,
            component=self._names.get(finding.rule.role),
            last_good=last_good,
            edits=self._edits[key],
            back=back,
            name=name_if_needed(self._experiment) if self._experiment is not None else None,
            more_advice=self._advice.get(finding.rule.id, ""),
            no_resume=self._folder.files.no_resume,
        )

    def _way_back(
        self, finding: Finding, checkpoints: Mapping[int, float | None], unwell: float
    ) -> tuple[int | None, RollbackOffer | None]:
        """The last good checkpoint, and how to go back there so that it does not happen again: without the
        edit that may be to blame, else with half the learning rate.

        No way back where an earlier checkpoint would not mend it.
        """
        suspect = self._suspects.of(unwell) if finding.rule.spoils else None
        last_good = _last_good(checkpoints, unwell) if finding.rule.spoils else None
        if suspect is not None and last_good is not None and last_good > suspect.effect:
            last_good = max((step for step in checkpoints if step <= suspect.effect), default=None)
        if last_good is None or self._experiment is None or self._folder.files.no_resume:
            return last_good, None
        edits: dict[str, str | None] | None = {}
        if suspect is not None and not suspect.is_newest:
            edits = suspect.opposite
        elif suspect is None:
            # half the rate is what all rules of damage advise
            rate = self._rate
            halved: dict[str, str | None] = {} if rate is None else {rate[0]: f"{rate[1] / 2:g}"}
            edits = halved if finding.rule.damages else None
        if edits is None:
            return last_good, None
        return last_good, RollbackOffer(
            edit=suspect.record.words if suspect is not None else "",
            component=self._names.get(finding.rule.role, ""),
            reason=f"{finding.symptom.word}: {finding.symptom.evidence}",
            resume_step=last_good,
            edits=edits,
        )

    def _edits_since(self, checkpoint: int | None) -> tuple[str, ...]:
        """Texts of the edits since the checkpoint, oldest first; since the run began where there is none.

        An edit that was made while the attempt ran that wrote the checkpoint took effect only after it.
        """
        folder = self._folder.checkpoint_folders().get(checkpoint) if checkpoint is not None else None
        written_at = folder.stat().st_mtime if folder is not None else 0.0
        edits: list[str] = []
        for entry in read_entries(self._journal_file):
            is_beginning = entry["kind"] == "resume" and entry_data(entry).get("step") is None
            is_start = entry["kind"] == "start" and entry.get("component") in self._names.values()
            if is_beginning or (is_start and entry["at"] <= written_at):
                edits.clear()
            elif entry["kind"] == "edit":
                edits.append(entry["text"])
        return tuple(edits)


def _last_good(checkpoints: Mapping[int, float | None], since: float) -> int | None:
    """The newest checkpoint from before `since` whose reward was about the best of those: a fall takes a
    while to show.

    `checkpoints`: step → the reward by then, where it is known.
    """
    earlier = {step: reward for step, reward in checkpoints.items() if step < since}
    best = max((reward for reward in earlier.values() if reward is not None), default=0.0)
    least = _GOOD_FRAC * best if best > 0 else -math.inf
    return max((step for step, reward in earlier.items() if reward is None or reward >= least), default=None)


def _alert(concern: HealthIssue) -> Alert:
    return Alert(
        # as those of `non_finite_alerts`, where the metrics have the value
        kind="metric" if concern.id == "non-finite" else "health",
        severity=concern.severity,
        title=concern.word,
        text=concern.text,
        component=concern.component,
        rule=concern.id,
    )


def _read_reported(journal_file: Path) -> dict[str, _ReportedIssue]:
    reported: dict[str, _ReportedIssue] = {}
    for entry in read_entries(journal_file):
        data = entry_data(entry)
        rule = data.get("rule")
        if not isinstance(rule, str):
            continue
        if data.get("over"):
            reported.pop(rule, None)
        else:
            severity = "error" if data.get("severity") == "error" else "warning"
            reported[rule] = _ReportedIssue(entry["text"].partition(":")[0], severity, 0)
    return reported
