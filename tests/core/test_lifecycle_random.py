"""The lifecycle under thousands of event orders, beside a simple account of what was asked and started.

The world is unruly: events of earlier starts arrive late, ends arrive twice, probes answer after the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from rltui.core.experiment.layout import Restart
from rltui.core.experiment.lifecycle import (
    Ended,
    ExitInfo,
    Lifecycle,
    LifecycleEvent,
    MainEnded,
    NotNeeded,
    ProbeSucceeded,
    Spawned,
    StartBlocked,
    StartFailed,
    StartRequested,
    StopRequested,
    advance,
)
from rltui.core.experiment.states import ComponentState as S

EXITS = st.sampled_from(
    [
        ExitInfo(code=0),
        ExitInfo(code=1),
        ExitInfo(signal="SIGKILL"),
        ExitInfo(),
        ExitInfo(error="cannot run"),
        ExitInfo(code=1, hopeless=True),
        ExitInfo(signal="SIGTERM", on_request=True),
    ]
)


@dataclass(frozen=True)
class Happening:
    """One event to be, whose epoch and time come from the life it meets."""

    pick: int
    """Which of the events that are likely in the present state, or of all."""
    wild: bool
    """Of all."""
    starts_ago: int
    """From how many starts ago it comes."""
    pause_s: float
    exit: ExitInfo

    def event(self, life: Lifecycle, at: float) -> LifecycleEvent:
        epoch = life.epoch - self.starts_ago
        ended: list[LifecycleEvent] = [Ended(epoch, self.exit, at), MainEnded(epoch, self.exit)]
        requests: list[LifecycleEvent] = [
            StartRequested(),
            StopRequested(),
            StopRequested(reason="not ready after 5 s"),
        ]
        launch: list[LifecycleEvent] = [Spawned(epoch, ready=False, at=at), Spawned(epoch, ready=True, at=at)]
        likely: list[LifecycleEvent]
        match life.state:
            case S.WAITING:
                given_up: list[LifecycleEvent] = [
                    StartFailed(epoch, "no port"),
                    NotNeeded(epoch, "it is made"),
                ]
                likely = [*launch, *launch, *given_up, StartBlocked(epoch, "waiting"), requests[1]]
            case S.STARTING | S.READY:
                likely = [*ended, ProbeSucceeded(epoch, at=at), *requests[1:]]
            case S.STOPPING:
                likely = [*ended, *requests[1:]]
            case S.BACKOFF:
                likely = [StartRequested(automatic=True), StartRequested(automatic=True), *requests[:2]]
            case _:
                likely = [requests[0]]
        every = [
            *ended,
            ProbeSucceeded(epoch, at=at),
            StartFailed(epoch, "no port"),
            StartBlocked(epoch, "waiting"),
        ]
        every.append(NotNeeded(epoch, "it is made"))
        events = [*every, *launch, *requests, StartRequested(automatic=True)] if self.wild else likely
        return events[self.pick % len(events)]


HAPPENINGS = st.lists(
    st.builds(
        Happening,
        pick=st.integers(0, 999),
        wild=st.sampled_from([False, False, True]),
        starts_ago=st.sampled_from([0, 0, 0, 0, 1, 2, 3]),
        pause_s=st.floats(0, 900),
        exit=EXITS,
    ),
    min_size=5,
    max_size=60,
)
RESTARTS = st.builds(
    Restart,
    policy=st.sampled_from(["never", "on-failure", "always"]),
    max_failures=st.integers(1, 4),
    window_s=st.sampled_from([10.0, 3600.0]),
    healthy_s=st.sampled_from([5.0, 600.0]),
)
KINDS: st.SearchStrategy[Literal["service", "job"]] = st.sampled_from(["service", "job"])


@dataclass
class Account:
    """What is known without asking the lifecycle."""

    spawned: list[int] = field(default_factory=list)
    """Epochs in which a process came to be."""
    stopped_by_person: bool = False
    """Nobody has asked for a start since."""

    def note(self, before: Lifecycle, event: LifecycleEvent, after: Lifecycle) -> None:
        if isinstance(event, Spawned) and after.alive and not before.alive:
            self.spawned.append(after.epoch)
        if isinstance(event, StartRequested):
            self.stopped_by_person = False
        if isinstance(event, StopRequested) and event.reason is None and before.expected:
            self.stopped_by_person = True


@settings(max_examples=100)
@given(HAPPENINGS, RESTARTS, KINDS)
def test_any_order_of_events(
    happenings: list[Happening], restart: Restart, kind: Literal["service", "job"]
) -> None:
    life, now, account = Lifecycle(kind=kind, restart=restart), 0.0, Account()
    for happening in happenings:
        now += happening.pause_s
        event = happening.event(life, now)
        after = advance(life, event)
        if happening.starts_ago > 0 and hasattr(event, "epoch"):
            assert after is life, "what comes late changes nothing"
        account.note(life, event, after)
        assert len(account.spawned) == len(set(account.spawned)), "two processes in one epoch"
        if account.stopped_by_person:
            assert after.state is not S.BACKOFF, "a stop by a person is never answered with a start"
            assert after.state not in {S.WAITING, S.STARTING, S.READY}
        _assert_consistent(after, now)
        life = after


def _assert_consistent(life: Lifecycle, now: float) -> None:
    assert len(life.failures) <= life.restart.max_failures
    assert list(life.failures) == sorted(life.failures)
    assert (life.retry_at is not None) == (life.state is S.BACKOFF)
    if life.retry_at is not None:
        longest = life.restart.backoff_s[1]
        assert life.restart.policy != "never"
        assert life.retry_at <= now + longest
        assert life.exit is not None
        assert not life.exit.hopeless
    if life.state in {S.FAILED, S.BACKOFF}:
        assert life.reason


@settings(max_examples=100)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=40), RESTARTS)
def test_failures_in_a_row_are_bounded(lived_s: list[float], restart: Restart) -> None:
    """However long each start lives: never more failures within the window than the layout allows."""
    restart = restart.model_copy(update={"policy": "on-failure"})
    life, now, failed_at = Lifecycle(kind="service", restart=restart), 0.0, list[float]()
    life = advance(life, StartRequested())
    for seconds in lived_s:
        life = advance(life, Spawned(life.epoch, ready=False, at=now))
        now += seconds
        life = advance(life, Ended(life.epoch, ExitInfo(code=1), now))
        failed_at.append(now)
        recent = [moment for moment in failed_at if now - moment <= restart.window_s]
        assert len(recent) <= restart.max_failures
        if len(recent) == restart.max_failures:
            assert life.state is S.FAILED
            return
        assert life.state is S.BACKOFF
        assert life.retry_at is not None
        now = life.retry_at
        life = advance(life, StartRequested(automatic=True))
    assert life.state is S.WAITING


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["spawned", "probe", "ended", "failed", "not-needed"]), max_size=12), RESTARTS
)
def test_stop_by_a_person_is_the_last_word(tail: list[str], restart: Restart) -> None:
    """Whatever the voided start still says, it stays stopped until somebody asks again."""
    life = advance(Lifecycle(kind="job", restart=restart), StartRequested())
    voided = life.epoch
    life = advance(life, StopRequested())
    events: dict[str, LifecycleEvent] = {
        "spawned": Spawned(voided, ready=True, at=1.0),
        "probe": ProbeSucceeded(voided, at=1.0),
        "ended": Ended(voided, ExitInfo(code=1), 1.0),
        "failed": StartFailed(voided, "no port"),
        "not-needed": NotNeeded(voided, "it is made"),
    }
    for name in tail:
        assert advance(life, events[name]) is life
    assert life.state is S.STOPPED
