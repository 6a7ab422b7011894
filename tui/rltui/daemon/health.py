"""The health of the run, as the supervisor tells it: in its status, once as an alert, and when it is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from rltui.core.api import Alert, Bottleneck, Concern
from rltui.core.bottleneck import BottleneckKnobs, bottleneck
from rltui.core.health import Finding, Thresholds, concern_of, findings
from rltui.core.run_figures import RunFigures
from rltui.core.stalls import InferenceActivity
from rltui.daemon.events import EventBus
from rltui.services.runs.journal import read_entries
from rltui.services.runs.run_folder import RunFolder

_LOOKS = 20
"""Readings of the inference servers that are remembered."""
_CALM_STEPS = 5
"""So many steps a rule must have nothing to say until its trouble is over."""


class RunHealth:
    """Looks at the figures of one run."""

    def __init__(
        self, folder: RunFolder, journal_file: Path, events: EventBus, names: Mapping[str, str]
    ) -> None:
        """`names`: the components that are `trainer`, `orchestrator` and `inference`, if there are such."""
        self.concerns: tuple[Concern, ...] = ()
        """As of the last look, the worst first."""
        self.bottleneck: Bottleneck | None = None
        self._folder, self._journal_file, self._events, self._names = folder, journal_file, events, names
        self._thresholds, self._knobs = Thresholds(), BottleneckKnobs()
        self._activities: deque[InferenceActivity] = deque(maxlen=_LOOKS)
        self._edits: dict[tuple[str, int | None], tuple[str, ...]] = {}
        self._told: dict[str, int] = {}
        """Rules whose trouble was told and is not over, with the last step of it."""
        self._is_read = False

    def set_thresholds(self, thresholds: Thresholds) -> None:
        """Those of the settings, from the next look on."""
        self._thresholds = thresholds

    def set_knobs(self, knobs: BottleneckKnobs) -> None:
        """Those that this config has, from the next look on."""
        self._knobs = knobs

    def saw(self, activities: Iterable[InferenceActivity]) -> None:
        """What the inference servers do now."""
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

    def look(self, run: RunFigures, *, now: float | None = None, started: float = 0.0) -> bool:
        """Look at the figures, `now` and `started` as of `findings`; returns whether anything is other."""
        before = self.concerns, self.bottleneck
        found = findings(run, self._thresholds, now=now, started=started)
        good = sorted(self._folder.checkpoints()) if found else []
        self.concerns = tuple(self._concern(each, good) for each in found)
        self.bottleneck = bottleneck(run, self._activities, self._knobs, self._names)
        return (self.concerns, self.bottleneck) != before

    def tell(self, run: RunFigures) -> None:
        """Alert of what is new since the last time, and journal what is over."""
        if not self._is_read:
            self._is_read = True
            self._told = _told_before(self._journal_file)
        step = max(run.newest_step, 0)
        for concern in self.concerns:
            if concern.id not in self._told:
                self._events.alert(_alert(concern))
            self._told[concern.id] = step
        for rule, last in list(self._told.items()):
            is_calm = not last <= step < last + _CALM_STEPS
            if is_calm and all(concern.id != rule for concern in self.concerns):
                del self._told[rule]
                self._events.journal.add("health", f"{rule}: over by step {step}", rule=rule)

    def _concern(self, finding: Finding, checkpoints: list[int]) -> Concern:
        last_good = max((step for step in checkpoints if step < finding.since), default=None)
        known = (finding.rule, last_good)
        if known not in self._edits:
            self._edits[known] = self._edits_since(last_good)
        return concern_of(
            finding,
            component=self._names.get(finding.role),
            last_good=last_good,
            edits=self._edits[known],
        )

    def _edits_since(self, checkpoint: int | None) -> tuple[str, ...]:
        """In words, oldest first; since the run began where there is no checkpoint."""
        folder = self._folder.checkpoint_folders().get(checkpoint) if checkpoint is not None else None
        since = folder.stat().st_mtime if folder is not None else 0.0
        edits: list[str] = []
        for entry in read_entries(self._journal_file):
            if entry["kind"] == "resume" and entry.get("data", {}).get("step") is None:
                edits.clear()  # the run began anew
            elif entry["kind"] == "edit" and entry["at"] >= since:
                edits.append(entry["text"])
        return tuple(edits)


def _alert(concern: Concern) -> Alert:
    is_told = concern.id == "non-finite"  # by those of `non_finite_alerts`, where the metrics have the value
    return Alert(
        kind="metric" if is_told else "health",
        severity=concern.severity,
        title=concern.word,
        text=concern.text,
        component=concern.component,
        rule=concern.id,
    )


def _told_before(journal_file: Path) -> dict[str, int]:
    """Rules that an earlier supervisor told of and that were not over."""
    told: dict[str, int] = {}
    for entry in read_entries(journal_file):
        data = entry.get("data")
        rule = data.get("rule") if isinstance(data, dict) else None
        if not isinstance(rule, str) or not rule:
            continue
        if entry["kind"] == "alert":
            told[rule] = 0
        else:
            told.pop(rule, None)
    return told
