from __future__ import annotations

import pytest

from rltui.core.experiment.layout import Restart
from rltui.core.experiment.lifecycle import (
    Ended,
    ExitInfo,
    Lifecycle,
    LifecycleEvent,
    MainEnded,
    ProbeSucceeded,
    Spawned,
    StartBlocked,
    StartFailed,
    StartRequested,
    StopRequested,
    advance,
)
from rltui.core.experiment.states import ComponentState as S


def run(*events: LifecycleEvent, kind: str = "service") -> Lifecycle:
    life = Lifecycle(kind=kind)  # type: ignore[arg-type]
    for event in events:
        life = advance(life, event)
    return life


START = StartRequested()


def test_start_waits_then_starts_then_is_ready() -> None:
    assert run(START).state is S.WAITING
    assert run(START, StartBlocked(1, "waiting for x")).reason == "waiting for x"
    assert run(START, Spawned(1, ready=False)).state is S.STARTING
    assert run(START, Spawned(1, ready=False), ProbeSucceeded(1)).state is S.READY
    assert run(START, Spawned(1, ready=True)).state is S.READY


@pytest.mark.parametrize(
    ("kind", "code", "signal", "state"),
    [
        ("job", 0, None, S.EXITED),
        ("job", 1, None, S.FAILED),
        ("job", None, "SIGKILL", S.FAILED),
        ("job", None, None, S.FAILED),
        ("service", 0, None, S.FAILED),
        ("service", 1, None, S.FAILED),
    ],
)
def test_end_by_itself(kind: str, code: int | None, signal: str | None, state: S) -> None:
    life = run(START, Spawned(1, ready=True), Ended(1, ExitInfo(code=code, signal=signal)), kind=kind)
    assert life.state is state
    assert (life.reason is None) == (state is S.EXITED)


def test_end_on_request_is_no_failure() -> None:
    ended = Ended(1, ExitInfo(signal="SIGTERM"))
    assert run(START, Spawned(1, ready=True), StopRequested(), ended).state is S.STOPPED
    by_shim = Ended(1, ExitInfo(code=0, on_request=True))
    assert run(START, Spawned(1, ready=True), by_shim).state is S.STOPPED


def test_stop_for_a_reason_is_a_failure() -> None:
    life = run(
        START, Spawned(1, ready=False), StopRequested("not ready after 5 s"), Ended(1, ExitInfo(code=0))
    )
    assert life.state is S.FAILED
    assert life.reason == "not ready after 5 s"


def test_stop_while_waiting_voids_the_start() -> None:
    life = run(START, StopRequested(), Spawned(1, ready=True))
    assert life.state is S.STOPPED


def test_late_events_of_an_earlier_start_change_nothing() -> None:
    second = run(START, StartFailed(1, "no port"), START)
    assert advance(second, Ended(1, ExitInfo(code=1))) is second
    assert advance(second, Spawned(1, ready=True)) is second
    assert advance(second, Spawned(2, ready=True)).state is S.READY


@pytest.mark.parametrize(
    ("kind", "code", "state"), [("job", 0, S.EXITED), ("job", 1, S.FAILED), ("service", 0, S.FAILED)]
)
def test_clearing_up_behind_a_main_process_shows_that_it_is_gone(kind: str, code: int, state: S) -> None:
    main_end = MainEnded(1, ExitInfo(code=code))
    clearing = run(START, Spawned(1, ready=True), main_end, kind=kind)
    assert clearing.state is S.STOPPING
    assert clearing.reason == f"exited {code}; ending leftover processes"
    assert advance(clearing, Ended(1, ExitInfo(code=code))).state is state


def test_main_process_that_ends_on_request_is_no_news() -> None:
    stopping = run(START, Spawned(1, ready=True), StopRequested())
    assert advance(stopping, MainEnded(1, ExitInfo(code=0))) is stopping
    on_top = run(START, Spawned(1, ready=True), MainEnded(1, ExitInfo(code=1)), StopRequested())
    assert advance(on_top, Ended(1, ExitInfo(code=1))).state is S.STOPPED


ON_FAILURE = Restart(policy="on-failure", backoff_s=(1, 8), max_failures=6, window_s=100, healthy_s=50)
DIED = ExitInfo(signal="SIGKILL")


def started(life: Lifecycle, at: float, *, automatic: bool = True) -> Lifecycle:
    waiting = advance(life, StartRequested(automatic=automatic))
    return advance(waiting, Spawned(waiting.epoch, ready=True, at=at))


def died(life: Lifecycle, at: float, exit_info: ExitInfo = DIED) -> Lifecycle:
    return advance(life, Ended(life.epoch, exit_info, at))


def test_pauses_double_up_to_the_cap_and_then_it_stays_failed() -> None:
    life, pauses, now = Lifecycle(kind="service", restart=ON_FAILURE), [], 0.0
    while True:
        life = died(started(life, now), now + 1)
        now += 1
        if life.state is S.FAILED:
            break
        assert life.state is S.BACKOFF
        assert life.retry_at is not None
        pauses.append(life.retry_at - now)
        now = life.retry_at
    assert pauses == [1, 2, 4, 8, 8]
    assert life.reason == "killed by SIGKILL; no restart after 6 failures within 1m40s"


def test_old_failures_fall_out_of_the_window() -> None:
    life, now = Lifecycle(kind="service", restart=ON_FAILURE), 0.0
    for _ in range(20):  # one failure in 45 s: never six within 100 s
        life = died(started(life, now), now + 1)
        assert life.state is S.BACKOFF
        now += 45


def test_an_hour_of_health_forgives_earlier_failures() -> None:
    life = Lifecycle(kind="job", restart=ON_FAILURE)
    for now in (0.0, 2.0, 5.0):
        life = died(started(life, now), now + 1, ExitInfo(code=1))
    assert len(life.failures) == 3
    life = died(started(life, 10.0), 3610.0, ExitInfo(code=1))
    assert life.state is S.BACKOFF
    assert life.failures == (3610.0,)
    assert life.retry_at == 3611.0


@pytest.mark.parametrize(
    ("policy", "kind", "code", "state"),
    [
        ("never", "service", 1, S.FAILED),
        ("never", "job", 0, S.EXITED),
        ("on-failure", "job", 0, S.EXITED),
        ("on-failure", "job", 1, S.BACKOFF),
        ("on-failure", "service", 0, S.BACKOFF),
        ("always", "job", 0, S.BACKOFF),
        ("always", "job", 1, S.BACKOFF),
    ],
)
def test_policy_decides_by_kind_and_code(policy: str, kind: str, code: int, state: S) -> None:
    restart = Restart.model_validate({"policy": policy})
    life = Lifecycle(kind=kind, restart=restart)  # type: ignore[arg-type]
    assert died(started(life, 0), 1, ExitInfo(code=code)).state is state


def test_a_hopeless_failure_is_never_retried() -> None:
    oom = ExitInfo(code=1, cause="out of memory", hopeless=True)
    life = died(started(Lifecycle(kind="service", restart=ON_FAILURE), 0), 1, oom)
    assert life.state is S.FAILED
    assert life.reason == "exited 1 (out of memory); a restart would fail the same way"


def test_a_persons_start_forgives_and_an_automatic_one_does_not() -> None:
    life = died(started(Lifecycle(kind="service", restart=ON_FAILURE), 0), 1)
    assert advance(life, StartRequested(automatic=True)).failures == (1,)
    assert advance(life, StartRequested()).failures == ()


def test_stop_in_back_off_voids_the_retry() -> None:
    life = died(started(Lifecycle(kind="service", restart=ON_FAILURE), 0), 1)
    stopped = advance(life, StopRequested())
    assert (stopped.state, stopped.retry_at) == (S.STOPPED, None)
    assert stopped.epoch > life.epoch


def test_stop_on_request_is_never_retried_even_when_a_failure_came_first() -> None:
    waiting = advance(Lifecycle(kind="service", restart=ON_FAILURE), StartRequested())
    starting = advance(waiting, Spawned(1, ready=False))
    failing = advance(starting, StopRequested(reason="not ready after 5s"))
    assert died(failing, 6).state is S.BACKOFF
    assert died(advance(failing, StopRequested()), 6).state is S.STOPPED


def test_a_retry_that_cannot_be_made_is_a_failure_with_its_reason() -> None:
    life = died(started(Lifecycle(kind="service", restart=ON_FAILURE), 0), 1)
    failed = advance(life, StartFailed(life.epoch, "the config is broken"))
    assert (failed.state, failed.reason, failed.retry_at) == (S.FAILED, "the config is broken", None)


def test_time_before_ready_is_no_health() -> None:
    life = advance(
        Lifecycle(kind="service", restart=ON_FAILURE, failures=(1.0,)), StartRequested(automatic=True)
    )
    starting = advance(life, Spawned(1, ready=False, at=2.0))
    assert len(died(starting, 90.0).failures) == 2
    ready = advance(starting, ProbeSucceeded(1, at=30.0))
    assert len(died(ready, 90.0).failures) == 1


def test_failures_kept_are_no_more_than_the_policy_counts() -> None:
    """A partner's automatic restart takes one along that had given up, and it dies again."""
    life = Lifecycle(kind="service", restart=Restart(policy="never", max_failures=1))
    for at in (0.0, 1.0, 2.0):
        life = died(started(life, at), at)
    assert life.failures == (2.0,)
