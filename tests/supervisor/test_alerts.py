from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rltui import paths, settings
from rltui.core.experiment.api import Alert
from rltui.errors import RltuiError
from rltui.services.experiment.journal import read_journal
from rltui.supervisor import alerts
from rltui.supervisor.alerts import AlertDelivery, Sink, deliver_alerts
from rltui.supervisor.supervisor import Supervisor

CRASH = Alert(kind="crash", severity="error", title="trainer failed", text="exited 1", component="trainer")


@dataclass
class Room:
    """A supervisor, the settings file, and where the user's command writes what it gets."""

    folder: Path
    supervisor: Supervisor

    def __post_init__(self) -> None:
        self.events = self.supervisor.runtime.events
        self.settings_file = paths.settings_file()

    def set(self, text: str) -> None:
        self.settings_file.parent.mkdir(exist_ok=True)
        self.settings_file.write_text(f"[alerts]\n{text}\n")

    def set_command(self, script: str) -> None:
        self.set(f"command = {json.dumps(['sh', '-c', script])}\ntmux = []")

    @property
    def delivered_lines(self) -> list[str]:
        path = self.folder / "told"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def notices(self) -> list[str]:
        return [
            entry.text
            for entry in read_journal(self.supervisor.runtime.setup.control.journal_file)
            if entry.kind == "notice"
        ]

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        task = asyncio.create_task(deliver_alerts(self.supervisor.runtime))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
def room(tmp_path: Path, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    return Room(tmp_path, supervisor)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  (files of another process)
            await asyncio.sleep(0.01)


async def test_the_command_gets_each_alert_in_order(room: Room) -> None:
    room.set_command(
        f'cat >> {room.folder}/told; echo "$RLTUI_ALERT_KIND $RLTUI_ALERT_COMPONENT" >> {room.folder}/told'
    )
    room.events.alert(CRASH)  # before the delivery began: it is kept
    async with room.delivering():
        room.events.alert(
            Alert(
                kind="recovered",
                severity="information",
                title="trainer is running again",
                text="a\x00b",
                component="trainer",
            )
        )
        await until(lambda: len(room.delivered_lines) == 4)
    first, second = (json.loads(room.delivered_lines[index]) for index in (0, 2))
    assert first == {**CRASH.to_plain(), "experiment": "one"}
    assert (second["kind"], second["text"]) == ("recovered", "a\x00b")
    assert (room.delivered_lines[1], room.delivered_lines[3]) == ("crash trainer", "recovered trainer")


async def test_less_severe_alerts_stay_in_the_tui(room: Room) -> None:
    room.set_command(f'echo "$RLTUI_ALERT_TITLE" >> {room.folder}/told')
    async with room.delivering():
        for severity, title in (("information", "small talk"), ("warning", "hm"), ("error", "oh")):
            room.events.alert(Alert.from_plain({"severity": severity, "title": title, "text": ""}))
        room.events.alert(Alert(kind="finished", severity="information", title="done", text=""))
        await until(lambda: len(room.delivered_lines) == 3)
    assert room.delivered_lines == ["hm", "oh", "done"]


async def test_a_failing_command_is_journaled_once_until_it_works(room: Room) -> None:
    room.set_command(f"echo x >> {room.folder}/told; echo no route >&2; exit 7")
    async with room.delivering():
        for number in range(3):
            room.events.alert(CRASH.replace(component=f"c{number}"))
        await until(lambda: len(room.delivered_lines) == 3)
        await until(lambda: room.notices)
    assert room.notices == ["alerts by command failed: sh exited 7: no route"]


async def test_a_slow_sink_holds_up_nobody(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    may_go, deliveries = asyncio.Event(), []

    async def slow(alert: Alert) -> None:
        await may_go.wait()
        deliveries.append(alert.title)

    sink = Sink("test", slow, room.events)
    for number in range(alerts.WAITING_ALERTS + 10):
        sink.put(CRASH.replace(title=str(number)))
    assert "too slow, left out: 59" in caplog.text
    may_go.set()
    await until(lambda: len(deliveries) == alerts.WAITING_ALERTS)
    sink.close()


async def test_a_sink_that_works_again_tells_its_next_failure(room: Room) -> None:
    faults: list[str | None] = ["one", "two", None, "three"]

    async def send(alert: Alert) -> None:
        if fault := faults.pop(0):
            raise RltuiError(fault)

    sink = Sink("test", send, room.events)
    for _ in range(4):
        sink.put(CRASH)
    await until(lambda: not faults)
    await until(lambda: len(room.notices) == 2)
    sink.close()
    assert room.notices == ["alerts by test failed: one", "alerts by test failed: three"]


async def test_changed_settings_hold_and_broken_ones_are_told_once(room: Room) -> None:
    delivery = AlertDelivery(room.supervisor.runtime)
    delivery.refresh_settings()
    assert delivery.alerts == settings.AlertSettings()
    room.set("repeat_s = 5\nmin_severity = 'error'")
    delivery.refresh_settings()
    assert (room.events.limits.repeat_s, delivery.alerts.min_severity) == (5.0, "error")
    room.set("repeat = 7")
    delivery.refresh_settings()
    delivery.refresh_settings()
    assert delivery.alerts == settings.AlertSettings()
    alert = room.events.outbox.get_nowait()
    assert (alert.kind, alert.title) == ("config", "cannot read the settings")
    assert "settings.toml:2:1: alerts.repeat: unknown key; did you mean repeat_s?" in alert.text
    assert room.events.outbox.empty()
    room.settings_file.unlink()
    delivery.refresh_settings()
    assert room.events.limits.repeat_s == 60.0
