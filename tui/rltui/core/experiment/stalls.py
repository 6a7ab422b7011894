"""Detects a stuck component: signs of life, progress of a start. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.base.text import duration
from rltui.core.logs.failure_cause import LONGEST_LINE
from rltui.core.metrics.engine import InferenceActivity

StartPhases = Sequence[tuple[re.Pattern[str], str]]
"""What a line shows, searched → the phase of a start, in words, in which `\\1` is the first group. A group
`percent` is told with it.
"""
WAITING = "waiting for "
"""Begins the words of a phase in which somebody else must do something."""


def phase_of(lines: Sequence[str], phases: StartPhases) -> str | None:
    """The phase named by the newest of `lines` (sanitised, oldest first): `loads weights 50 %`; `None`:
    none.
    """
    for line in reversed(lines):
        for regex, phase in phases:
            if match := regex.search(line[:LONGEST_LINE]):
                percent, words = match.groupdict().get("percent"), match.expand(phase)
                return f"{words} {percent} %" if percent else words
    return None


_STEP = re.compile(r"\b[Ss]tep (\d{1,12})\b")


def step_of(lines: Sequence[str]) -> int | None:
    """The step that the newest of `lines` (sanitised, oldest first) is about; `None`: none is about one."""
    matches = (_STEP.search(line[:LONGEST_LINE]) for line in reversed(lines))
    return next((int(match[1]) for match in matches if match), None)


_PAUSE_COUNT = 20
"""Number of pauses for the median period."""
LONGEST_STEP_S = 10.0
"""A longer time between two looks is not counted: nobody watched then."""


class WatchClock:
    """Counts only time in which somebody looked."""

    def __init__(self) -> None:
        self._time = 0.0
        self._newest: float | None = None

    def read(self, monotonic_s: float) -> float:
        """The watched time so far; never goes back."""
        if self._newest is not None:
            self._time += min(max(0.0, monotonic_s - self._newest), LONGEST_STEP_S)
        self._newest = monotonic_s
        return self._time


@dataclass(frozen=True, slots=True)
class StallRule:
    silence_s: float
    """Shortest silence that counts; 0: never stalled."""
    factor: float
    """A silence must also be this many times the median period of its sign."""
    output_suffices: bool = True
    """Missing output alone is evidence. False for a service that may just be idle."""


@dataclass(frozen=True, slots=True)
class LivenessSignals:
    pid: int | None = None
    is_stopped: bool = False
    """Stopped by a signal: state `T` in `/proc`."""
    log_bytes: int | None = None
    """Size of its output; `None` if there is none."""
    metric_rows: int | None = None
    """Number of its own metric rows so far; `None` if unknown which are its own."""
    metric_step: int = 0
    """Step of the newest of them."""
    beat: int | None = None
    """Changes with every step that it has done; `None` if no file has it."""


class LivenessSignal:
    """One kind of sign of life. It exists once its value changed; the first look only sets its start."""

    def __init__(self) -> None:
        self.newest: float | None = None
        """When it last showed; before that, when watching began."""
        self.has_shown = False
        self._value: int | None = None
        self._pauses: deque[float] = deque(maxlen=_PAUSE_COUNT)

    def see(self, value: int, now: float, *, beats: float = 1) -> None:
        """Record its counter `value`, which is `beats` periods further if it has changed.

        0: not to be counted as periods. Infinite: unknown how many, since it changes at every look.
        """
        if value == self._value:
            return
        if self._value is not None:
            if self.has_shown and self.newest is not None and beats > 0:
                self._pauses.append((now - self.newest) / beats)
            self.has_shown = True
        self._value, self.newest = value, now

    @property
    def period_s(self) -> float | None:
        """Median of its recent pauses; 0 if they are too short to be seen."""
        return statistics.median(self._pauses) if self._pauses else None

    def silence_s(self, now: float) -> float:
        """Time since its last change."""
        return 0.0 if self.newest is None else now - self.newest

    def is_silent(self, rule: StallRule, now: float) -> bool:
        """It is silent for longer than its own rhythm allows."""
        return self.silence_s(now) > max(rule.silence_s, rule.factor * (self.period_s or 0.0))


class Heartbeat:
    """Signs of life of one attempt of one component."""

    def __init__(self, rule: StallRule) -> None:
        self._rule = rule
        self._output = LivenessSignal()
        self._rows = LivenessSignal()
        self._beats = LivenessSignal()
        self._step = 0
        self._looked_at = 0.0
        self._activity: InferenceActivity | None = None
        self._answered_at = 0.0
        self._still_since = 0.0
        """Since then it has had requests and generated nothing."""
        self._unanswered_since: float | None = None

    def answered(self, activity: InferenceActivity | None, now: float) -> None:
        """Record the server's answer about its requests; `None`: no answer.

        Silence counts only once it has answered: an address may be wrong.
        """
        if activity is None:
            if self._activity is not None and self._unanswered_since is None:
                self._unanswered_since = now
            return
        previous = self._activity
        has_progress = previous is None or previous.generated_tokens != activity.generated_tokens
        if has_progress or not activity.requests or not (previous and previous.requests):
            self._still_since = now
        self._activity, self._answered_at, self._unanswered_since = activity, now, None

    def observe(self, signs: LivenessSignals, now: float) -> str | None:
        """The reason why it counts as stalled, in words; `None` if it does not."""
        if signs.log_bytes is not None:
            grew_before = self._output.newest is not None and self._output.newest == self._looked_at
            self._output.see(signs.log_bytes, now, beats=math.inf if grew_before else 1)
        if signs.metric_rows is not None:
            # a resume repeats steps
            self._rows.see(signs.metric_rows, now, beats=max(0, signs.metric_step - self._step))
            self._step = signs.metric_step
        if signs.beat is not None:
            self._beats.see(signs.beat, now)
        self._looked_at = now
        if self._rule.silence_s == 0:
            return None
        if signs.is_stopped:
            # what it cannot do while it is stopped is not held against it when it goes on
            for sign in (self._output, self._rows, self._beats):
                if sign.newest is not None:
                    sign.newest = now
            self._still_since = self._answered_at = now
            self._unanswered_since = None
            return f"pid {signs.pid} is stopped by a signal; resume it: kill -CONT {signs.pid}"
        silences = [
            *self._silent("no metrics", self._rows, now),
            *self._silent("no step recorded", self._beats, now),
            *self._silent_output(now),
            *self._silent_server(now),
        ]
        if (activity := self._activity) is not None and self._unanswered_since is None:
            if not activity.requests:
                return None
            if activity.running and self._is_still:
                return self._stillness(activity)
        if not silences or None in silences:
            return None
        return ", ".join(text for text in silences if text)

    def _silent(self, what: str, sign: LivenessSignal, now: float) -> list[str | None]:
        if not sign.has_shown:
            return []
        return [_silence_text(what, sign, now) if sign.is_silent(self._rule, now) else None]

    def _silent_output(self, now: float) -> list[str | None]:
        """Never evidence alone if output does not suffice; it counts against a stall in any case."""
        if self._output.newest is None:
            return []
        if not self._output.is_silent(self._rule, now):
            return [None]
        is_alone = not (self._rows.has_shown or self._beats.has_shown) and self._activity is None
        return (
            []
            if is_alone and not self._rule.output_suffices
            else [_silence_text("no output", self._output, now)]
        )

    def _silent_server(self, now: float) -> list[str | None]:
        if self._activity is None:
            return []
        if self._unanswered_since is not None:
            silence_s = now - self._unanswered_since
            text = f"no request metrics for {duration(silence_s)}"
            return [text if silence_s > self._rule.silence_s else None]
        return [self._stillness(self._activity) if self._is_still else None]

    @property
    def _is_still(self) -> bool:
        """Judged by the last answers: a coarse sampling does not lengthen a silence."""
        return (
            self._activity is not None
            and self._activity.generated_tokens is not None
            and self._answered_at - self._still_since > self._rule.silence_s
        )

    def _stillness(self, activity: InferenceActivity) -> str:
        silence = duration(self._answered_at - self._still_since)
        return (
            f"no token for {silence} while {activity.running} requests are running and"
            f" {activity.waiting} waiting"
        )


def _silence_text(what: str, sign: LivenessSignal, now: float) -> str:
    period = f" (usually every {_period(sign.period_s)})" if sign.period_s else ""
    return f"{what} for {duration(sign.silence_s(now))}{period}"


def _period(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)
