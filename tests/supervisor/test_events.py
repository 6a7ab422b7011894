from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import Alert
from rltui.core.experiment.journal import JournalEntry
from rltui.core.experiment.layout import ComponentSpec, Restart
from rltui.core.experiment.lifecycle import (
    Ended,
    ExitInfo,
    Lifecycle,
    LifecycleEvent,
    ProbeSucceeded,
    Spawned,
    StartRequested,
    StopRequested,
    advance,
)
from rltui.core.experiment.plan import Times, times_from
from rltui.core.experiment.states import ComponentState
from rltui.services.experiment.journal import read_journal
from rltui.supervisor import events
from rltui.supervisor.events import (
    BACKLOG,
    OUTBOX,
    Broadcast,
    EventBus,
    Message,
    Subscription,
)


@dataclass
class JournaledComponent:
    """A component whose life the test leads by the fake clock of a events."""

    folder: Path
    spec: ComponentSpec = field(default_factory=lambda: ComponentSpec(id="trainer", command=("x",)))
    attempt: int | None = 1
    pid: int | None = 4711
    actor: Actor | None = None
    launch: None = None
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.lifecycle = Lifecycle(kind=self.spec.kind, restart=self.spec.restart)
        self.events = EventBus(self.folder / "journal.jsonl", monotonic=lambda: self.now)

    def after(self, seconds: float, event: LifecycleEvent) -> None:
        self.now += seconds
        if isinstance(event, Ended | Spawned | ProbeSucceeded):
            event = replace(event, epoch=self.lifecycle.epoch, at=self.now)
        before, self.lifecycle = self.lifecycle, advance(self.lifecycle, event)
        assert self.lifecycle is not before
        self.events.lifecycle_changed(cast(Any, self), before)

    def run(self, *, probe_s: float | None = None) -> None:
        """Start it; ready after `probe_s`, or at once."""
        self.after(1, StartRequested(automatic=self.lifecycle.state is ComponentState.BACKOFF))
        self.after(1, Spawned(0, ready=probe_s is None))
        if probe_s is not None:
            self.after(probe_s, ProbeSucceeded(0))

    def end(self, code: int) -> None:
        self.after(5, Ended(0, ExitInfo(code=code)))

    @property
    def journal(self) -> list[JournalEntry]:
        return read_journal(self.folder / "journal.jsonl")

    def entry(self, kind: str) -> JournalEntry:
        return [entry for entry in self.journal if entry.kind == kind][-1]

    def alerts(self) -> list[Alert]:
        queue = self.events.outbox
        return [queue.get_nowait() for _ in range(queue.qsize())]


RETRYING = ComponentSpec(
    id="trainer", command=("x",), restart=Restart(policy="on-failure", backoff_s=(4, 60))
)


def test_a_failure_for_good_is_an_error(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path)
    component.run()
    component.end(1)
    assert component.alerts() == [
        Alert(kind="crash", severity="error", title="trainer failed", text="exited 1", component="trainer")
    ]
    entry = component.entry("alert")
    assert entry.text == "trainer failed: exited 1"
    assert entry.data == {"severity": "error", "alert": "crash", "suppressed": 0}
    assert component.entry("exit").data == {"pid": 4711, "exit_code": 1, "signal": None, "failed": True}


def test_alert_and_journal_say_the_words_of_the_states(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path)
    component.run()
    assert component.entry("ready").text == "trainer running", "a job is never ready"
    component.after(5, Ended(0, ExitInfo()))
    (alert,) = component.alerts()
    assert (alert.title, alert.text) == ("trainer lost", "ended, exit code unknown")
    assert component.entry("exit").text == "trainer lost: ended, exit code unknown"


def test_a_failure_that_is_retried_is_a_warning_and_recovers(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path, RETRYING)
    component.run(probe_s=3)
    component.end(1)
    (crash,) = component.alerts()
    assert (crash.kind, crash.severity) == ("crash", "warning")
    assert f"{crash.title}: {crash.text}" == ("trainer failed, restarts in 4s: exited 1; failure 1 of 3")
    assert component.entry("exit").data == {
        "pid": 4711,
        "exit_code": 1,
        "signal": None,
        "retry_in_s": 4.0,
        "failed": True,
    }
    assert component.entry("exit").text == "trainer backoff: exited 1; failure 1 of 3"
    component.run(probe_s=6)
    (recovered,) = component.alerts()
    assert (recovered.kind, recovered.severity, recovered.title) == (
        "recovered", "information", "trainer is running again"
    )  # fmt: skip
    assert recovered.text == "8s after failing"
    component.after(100, StopRequested())
    component.end(0)
    component.run()
    assert component.alerts() == [], "nothing to recover from"


def test_crashes_before_ready_are_counted(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path, RETRYING)
    for _ in range(3):
        component.after(1, StartRequested(automatic=component.lifecycle.state is ComponentState.BACKOFF))
        component.after(1, Spawned(0, ready=False))
        component.end(1)
    first, last = component.alerts()
    assert (first.severity, last.severity) == ("warning", "error")
    assert last.text.endswith("(1 more like this within 7s)")
    assert [entry.data["suppressed"] for entry in component.journal if entry.kind == "alert"] == [0, 1]


def test_a_job_that_is_repeated_is_no_trouble(tmp_path: Path) -> None:
    spec = ComponentSpec(id="eval", command=("x",), restart=Restart(policy="always", backoff_s=(4, 60)))
    component = JournaledComponent(tmp_path, spec)
    component.run()
    component.end(0)
    component.run()
    assert component.alerts() == []
    assert component.entry("exit").data["retry_in_s"] == 4.0


def test_a_stop_ends_the_trouble(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path, RETRYING)
    component.run(probe_s=1)
    component.end(1)
    component.after(1, StopRequested())
    component.run()
    assert [alert.kind for alert in component.alerts()] == ["crash"]


def test_times_of_starts_and_stops_are_what_estimates_read(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path, ComponentSpec(id="inference", kind="service", command=("x",)))
    component.run(probe_s=40)
    component.after(100, StopRequested())
    component.end(0)
    assert times_from(component.journal) == {"inference": Times(start_s=40.0, stop_s=5.0)}
    assert component.entry("exit").data["stopped"] is True


def test_a_preparing_job_is_timed_to_its_end(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path, ComponentSpec(id="sft", command=("x",), creates="/model"))
    component.run()
    component.end(0)
    assert times_from(component.journal) == {"sft": Times(start_s=5.0)}


def test_what_began_before_this_supervisor_is_not_timed(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path)
    adopted = replace(component.lifecycle, state=ComponentState.STARTING, epoch=1)
    component.lifecycle = adopted
    component.after(1, ProbeSucceeded(1))
    component.end(0)
    assert times_from(component.journal) == {}


def test_a_full_outbox_drops_the_oldest(tmp_path: Path) -> None:
    component = JournaledComponent(tmp_path)
    for number in range(OUTBOX + 5):
        component.events.alert(Alert(severity="error", title=f"number {number}", text=""))
    titles = [alert.title for alert in component.alerts()]
    assert (len(titles), titles[0], titles[-1]) == (OUTBOX, "number 5", f"number {OUTBOX + 4}")


class Pair:
    """An orchestrator that needs an inference server, under one events."""

    def __init__(self, folder: Path) -> None:
        needs = {"orchestrator": ("inference",), "inference": ()}
        self.events = EventBus(folder / "journal.jsonl", monotonic=lambda: 1000.0, needs=needs.__getitem__)
        self.parts = {
            name: JournaledComponent(folder, ComponentSpec(id=name, command=("x",), kind=kind))
            for name, kind in (("inference", "service"), ("orchestrator", "job"))
        }
        for component in self.parts.values():
            component.events = self.events
            component.run()

    def fails(self, name: str) -> None:
        self.parts[name].end(1)

    @property
    def alerts(self) -> list[str]:
        return [
            entry.text.partition(":")[0] for entry in self.parts["inference"].journal if entry.kind == "alert"
        ]


async def test_the_failure_of_what_is_needed_is_told_before_what_follows_from_it(
    tmp_path: Path,
) -> None:  # G10
    pair = Pair(tmp_path)
    pair.fails("orchestrator")
    assert pair.alerts == []
    pair.fails("inference")
    assert pair.alerts == ["inference failed", "orchestrator failed"]


async def test_a_failure_of_its_own_is_told_when_nothing_else_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CAUSE_S", 0.01)
    pair = Pair(tmp_path)
    pair.fails("orchestrator")
    async with asyncio.timeout(10):
        alert = await pair.events.outbox.get()
    assert alert.title == "orchestrator failed"


async def test_what_fails_shortly_after_what_it_needs_is_told_at_once(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.fails("inference")
    pair.fails("orchestrator")
    assert pair.alerts == ["inference failed", "orchestrator failed"]


async def take(subscription: Subscription, count: int) -> list[Message]:
    messages: list[Message] = []
    async for message in subscription:
        messages.append(message)
        if len(messages) == count:
            break
    return messages


async def test_slow_subscriber_sees_only_the_newest_state_and_every_entry() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe([])
    for number in range(100):
        broadcast.publish("status", lambda number=number: str(number).encode())  # type: ignore[misc]
        broadcast.publish("journal", lambda number=number: str(number).encode())  # type: ignore[misc]
    messages = await take(subscription, 101)
    assert messages[0] == ("status", b"99")
    assert [value for kind, value in messages if kind == "journal"] == [str(n).encode() for n in range(100)]


async def test_backlog_is_bounded() -> None:
    broadcast = Broadcast()
    subscription = broadcast.subscribe([])
    for number in range(BACKLOG + 10):
        broadcast.publish("journal", lambda number=number: str(number).encode())  # type: ignore[misc]
    messages = await take(subscription, BACKLOG)
    assert messages[0] == ("journal", b"10")


async def test_nothing_is_encoded_when_nobody_listens() -> None:
    broadcast = Broadcast()
    broadcast.publish("status", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    subscription = broadcast.subscribe([])
    broadcast.unsubscribe(subscription)
    broadcast.publish("status", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    assert len(broadcast) == 0
