"""Issues as the supervisor reports them: with checkpoints and edits, as alerts, in the journal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rltui.core.experiment.journal import JournalEntry
from rltui.core.metrics.engine import InferenceActivity
from rltui.core.metrics.health.thresholds import Thresholds
from rltui.core.metrics.tracks import RunTracks
from rltui.frameworks.run_settings import RunFiles
from rltui.services.experiment.journal import read_journal
from rltui.services.runs.folder import RunFolder
from rltui.supervisor.events import EventBus
from rltui.supervisor.metrics.health import RunHealth

NAMES = {"trainer": "trainer", "orchestrator": "orchestrator"}


class Room:
    """A run whose KL runs away after step 42, with checkpoints 30, 40 and 50."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journal_file = folder, folder / "journal.jsonl"
        for step in (30, 40, 50):
            (folder / f"checkpoints/step_{step}").mkdir(parents=True)
            (folder / f"checkpoints/step_{step}/STABLE").touch()
            os.utime(folder / f"checkpoints/step_{step}", (step, step))
        self.run = RunTracks()
        self.health = self.supervisor()

    def supervisor(self) -> RunHealth:
        """A supervisor that begins now."""
        self.events = EventBus(self.journal_file)
        return RunHealth("demo", RunFolder(self.folder, RunFiles()), self.journal_file, self.events, NAMES)

    def steps(self, first: int, last: int, kl: float) -> None:
        for step in range(first, last + 1):
            self.run.add({"step": step, "loss/mean": 0.1, "mismatch_kl/all/mean": kl}, float(step))
            self.health.refresh(self.run)
            self.health.report(self.run)

    def edit(self, time: float, text: str, kind: str = "edit", component: str | None = None) -> None:
        entry = JournalEntry(at=time, kind=kind, text=text, component=component)
        with self.journal_file.open("a") as file:
            file.write(entry.to_json().decode() + "\n")

    @property
    def new_entries(self) -> list[tuple[str, str]]:
        entries = read_journal(self.journal_file)
        return [(entry.kind, entry.text) for entry in entries if entry.kind in ("alert", "health")]


@pytest.fixture
async def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


async def test_the_last_good_checkpoint_and_the_edits_since_it_are_named(room: Room) -> None:
    room.edit(10, "seed = 1")
    room.edit(20, "trainer starting", kind="start", component="trainer")
    room.edit(41, "trainer.optim.lr 1e-6 → 0.01")
    room.steps(1, 42, 0.001)
    room.steps(43, 50, 3.0)
    (concern,) = room.health.concerns
    assert (concern.id, concern.since, concern.component) == ("kl", 43, "trainer")
    assert (concern.last_good, concern.edits) == (40, ("trainer.optim.lr 1e-6 → 0.01",))
    ((kind, text),) = room.new_entries
    assert kind == "alert"
    assert "The last good checkpoint is 40. Edited since: trainer.optim.lr 1e-6 → 0.01" in text


async def test_an_edit_that_the_writer_of_the_checkpoint_did_not_know_counts(room: Room) -> None:
    room.edit(10, "seed = 1")
    room.edit(20, "trainer starting", kind="start", component="trainer")
    room.edit(39, "trainer.optim.lr 1e-6 → 0.01")
    room.edit(41, "trainer starting", kind="start", component="trainer")
    room.steps(1, 42, 0.001)
    room.steps(43, 50, 3.0)
    assert room.health.concerns[0].edits == ("trainer.optim.lr 1e-6 → 0.01",)


async def test_a_later_trouble_does_not_make_a_bad_checkpoint_good(room: Room) -> None:
    room.steps(1, 35, 0.001)
    room.steps(36, 42, 3.0)
    for step in range(43, 56):
        room.run.add({"step": step, "loss/mean": 0.1, "optim/grad_norm": 0.0}, float(step))
    room.health.refresh(room.run)
    assert [(concern.id, concern.since, concern.last_good) for concern in room.health.concerns] == [
        ("kl", 36, 30), ("no-signal", 43, 30)
    ]  # fmt: skip


async def test_answers_that_are_cut_off_all_the_while_are_not_when_the_run_went_bad(room: Room) -> None:
    """Seen in the demo: `B` went back too far, and halved the rate that had been edited."""
    for step in range(1, 56):
        kl = 3.0 if step > 45 else 0.001
        truncated = {"train/agg/all/agent/is_truncated/mean": 0.8}
        room.run.add({"step": step, "loss/mean": 0.1, "mismatch_kl/all/mean": kl, **truncated}, float(step))
    room.health.refresh(room.run)
    assert {concern.id: (concern.since, concern.last_good) for concern in room.health.concerns} == {
        "truncation": (1, None), "kl": (46, 40)
    }  # fmt: skip


async def test_edits_of_an_earlier_run_in_the_same_folder_do_not_count(room: Room) -> None:
    for step in (30, 40, 50):
        (room.folder / f"checkpoints/step_{step}/STABLE").unlink()
    room.edit(10, "seed = 1")
    room.edit(11, "from the start", kind="resume")
    room.edit(12, "trainer.optim.lr 1e-6 → 0.01")
    room.steps(1, 8, 3.0)
    assert (room.health.concerns[0].last_good, room.health.concerns[0].edits) == (
        None, ("trainer.optim.lr 1e-6 → 0.01",)
    )  # fmt: skip


async def test_a_trouble_is_told_once_and_when_it_is_over(room: Room) -> None:
    room.steps(1, 42, 0.001)
    room.steps(43, 60, 3.0)
    room.steps(61, 80, 0.001)
    assert [kind for kind, _ in room.new_entries] == ["alert"], "it may come back at once"
    room.steps(81, 90, 0.001)
    assert room.health.concerns == ()
    assert [kind for kind, _ in room.new_entries] == ["alert", "health"]
    assert room.new_entries[1][1] == "KL out of range: resolved at step 82"


async def test_going_back_to_a_checkpoint_ends_it(room: Room) -> None:
    room.steps(1, 42, 0.001)
    room.steps(43, 50, 3.0)
    room.run.rewind(40)
    room.health.refresh(room.run)
    room.health.report(room.run)
    assert [kind for kind, _ in room.new_entries] == ["alert", "health"]


async def test_what_one_trouble_brings_with_it_is_no_alert_of_its_own(room: Room) -> None:
    reward = "train/agg/effective/agent/reward/mean"
    for step in range(1, 60):
        at_all = {"step": step, "loss/mean": 0.1, "mismatch_kl/all/mean": 3.0 if step > 42 else 0.001}
        room.run.add({**at_all, "optim/grad_norm": 0.0 if step > 42 else 0.3}, float(step))
        room.run.add({"step": step, reward: 0.0 if step > 44 else 0.9}, float(step))
        room.health.refresh(room.run)
        room.health.report(room.run)
    assert [(kind, text.partition(":")[0]) for kind, text in room.new_entries] == [
        ("alert", "KL out of range"), ("alert", "reward collapsed"), ("health", "no signal")
    ]  # fmt: skip


async def test_what_becomes_worse_is_told_again(room: Room) -> None:
    reward = "train/agg/effective/agent/reward/mean"
    for step in range(1, 80):
        value = 0.9 if step < 40 else 0.4 if step < 60 else 0.0
        room.run.add({"step": step, "loss/mean": 0.1, reward: value}, float(step))
        room.health.refresh(room.run)
        room.health.report(room.run)
    assert [text.partition(":")[0] for _, text in room.new_entries] == ["reward dropped", "reward collapsed"]


async def test_a_damaged_journal_is_no_reason_to_say_nothing(room: Room) -> None:
    room.journal_file.write_text('{"at": 1, "kind": "resume", "text": "x", "data": 7}\nnot json\n')
    room.steps(1, 10, 3.0)
    assert [kind for kind, _ in room.new_entries] == ["alert"]


async def test_the_next_supervisor_does_not_tell_it_again(room: Room) -> None:
    room.steps(1, 42, 0.001)
    room.steps(43, 50, 3.0)
    room.health = room.supervisor()
    room.steps(51, 55, 3.0)
    assert [kind for kind, _ in room.new_entries] == ["alert"]
    room.steps(56, 85, 0.001)
    assert room.new_entries[-1][1].startswith("KL out of range: resolved at step")
    assert [kind for kind, _ in room.new_entries] == ["alert", "health"]


async def test_what_the_settings_silence_is_over(room: Room) -> None:
    room.steps(1, 10, 3.0)
    room.health.set_thresholds(Thresholds(silent=("kl",)))
    assert room.health.refresh(room.run)
    assert room.health.concerns == ()


async def test_several_servers_are_one_load(room: Room) -> None:
    room.steps(1, 3, 0.001)
    for _ in range(3):
        room.health.add_activities(
            [InferenceActivity(running=1, waiting=9, kv_usage_frac=0.1 * minute) for minute in (2, 9)]
        )
    room.health.refresh(room.run)
    assert room.health.bottleneck is not None
    assert room.health.bottleneck.text.startswith("18 of 20 requests to inference wait for KV cache")
    room.health.add_activities([])
    room.health.refresh(room.run)
    assert room.health.bottleneck is None, "there are none any more"
    assert json.dumps(room.new_entries) == "[]"


async def test_nobody_waits_in_a_run_that_is_over(room: Room) -> None:
    """Finding R9: the trainer still waited for a batch after the run was done."""
    for step in range(1, 20):
        room.run.add({"step": step, "loss/mean": 0.1, "time/wait_for_batch": 8.0}, 10.0 * step)
    room.health.refresh(room.run, now=200.0)
    assert room.health.bottleneck is not None
    assert room.health.refresh(room.run, is_over=True)
    assert room.health.bottleneck is None
