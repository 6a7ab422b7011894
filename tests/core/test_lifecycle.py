from __future__ import annotations

import pytest

from rltui.core.api import ComponentState as S
from rltui.core.lifecycle import (
    Ended,
    ExitInfo,
    Held,
    Life,
    LifeEvent,
    MainEnded,
    ProbeSucceeded,
    Spawned,
    StartFailed,
    StartRequested,
    StopRequested,
    advance,
)


def run(*events: LifeEvent, kind: str = "service") -> Life:
    life = Life(kind=kind)  # type: ignore[arg-type]
    for event in events:
        life = advance(life, event)
    return life


START = StartRequested()


def test_start_waits_then_starts_then_is_ready() -> None:
    assert run(START).state is S.WAITING
    assert run(START, Held(1, "waits for x")).reason == "waits for x"
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
    gone = MainEnded(1, ExitInfo(code=code))
    clearing = run(START, Spawned(1, ready=True), gone, kind=kind)
    assert clearing.state is S.STOPPING
    assert clearing.reason == f"exited {code}; ending what it left"
    assert advance(clearing, Ended(1, ExitInfo(code=code))).state is state


def test_main_process_that_ends_on_request_is_no_news() -> None:
    stopping = run(START, Spawned(1, ready=True), StopRequested())
    assert advance(stopping, MainEnded(1, ExitInfo(code=0))) is stopping
    on_top = run(START, Spawned(1, ready=True), MainEnded(1, ExitInfo(code=1)), StopRequested())
    assert advance(on_top, Ended(1, ExitInfo(code=1))).state is S.STOPPED
