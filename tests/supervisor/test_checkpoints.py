"""The way back that the supervisor offers when a run has gone bad."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.supervisor.conftest import make_checkpoints

from rltui.core.config.edit_log import EditRecord, FileEdit
from rltui.core.experiment.api import RollbackOffer
from rltui.core.metrics.bottleneck import BottleneckKnobs
from rltui.core.metrics.health.findings import RULES, Finding
from rltui.core.metrics.health.rule import Symptom
from rltui.core.metrics.tracks import RunTracks
from rltui.supervisor.metrics.health import _last_good
from rltui.supervisor.supervisor import Supervisor

RATE = "trainer.optim.lr"


class Room:
    """A run with checkpoints 10, 20 … 60 that is unwell since a step that a test chooses."""

    def __init__(self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        make_checkpoints(Path(supervisor.runtime.setup.record.run_dir), *range(10, 61, 10))
        self.journal, self.health = supervisor.runtime.events.journal, supervisor.runtime.observation.health
        self.checkpoints = supervisor.checkpoints
        self.number = 0
        self.found: list[Finding] = []
        monkeypatch.setattr("rltui.supervisor.metrics.health.findings", lambda *_, **__: self.found)

    def edit(self, action: str = "set", takes_back: int | None = None, **keys: str) -> int:
        """`keys`: name → value before, `__` for the dots in it."""
        self.number += 1
        changes: dict[str, tuple[str | None, str | None]] = {
            key.replace("__", "."): (old, "new") for key, old in keys.items()
        }
        file = FileEdit(path="/rl.toml", before="a", after="b", keys=changes)
        text = ", ".join(f"{key} {old} → new" for key, (old, _) in changes.items())
        values = {"number": self.number, "action": action, "words": text, "takes_back": takes_back}
        record = EditRecord.from_plain({**values, "files": [file]})
        self.journal.add("edit", text, **record.to_plain())
        return self.number

    def resume(self, step: int | None) -> None:
        self.journal.add("resume", "x", step=step)

    def offer(self, since: int = 56, rule: str = "reward-collapse") -> RollbackOffer | None:
        symptom = Symptom("reward collapsed", since, "0.9 to 0.0", "lower it", "error")
        self.found = [Finding(RULES[rule], symptom)]
        self.health.refresh(RunTracks())
        return self.checkpoints.offer

    @property
    def text(self) -> str:
        return self.health.concerns[0].text


@pytest.fixture
async def room(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(supervisor, monkeypatch)


async def test_before_the_edit_that_is_to_blame(room: Room) -> None:
    """Finding G2: going back alone left the learning rate, and the run collapsed again."""
    room.resume(None)
    room.edit(trainer__optim__lr="1e-06")
    room.resume(40)
    offer = room.offer()
    assert offer is not None
    assert (offer.edit, offer.resume_step, offer.edits) == (f"{RATE} 1e-06 → new", 40, {}), (
        "50 has learnt with it"
    )
    assert offer.reason == "reward collapsed: 0.9 to 0.0"
    assert f"ack to checkpoint 40, without {RATE} 1e-06 → new: rltui undo --restart --from 40" in room.text


async def test_an_older_edit_is_set_back_where_undo_would_take_another(room: Room) -> None:
    room.edit(trainer__optim__lr="1e-06", seed="3")
    room.resume(40)
    room.edit(max_steps="200")
    room.resume(44)
    offer = room.offer()
    assert offer is not None
    assert (offer.resume_step, offer.edits) == (40, {RATE: "1e-06", "seed": "3"})
    assert f": rltui set {RATE}=1e-06 seed=3 --restart --from 40" in room.text


@pytest.mark.parametrize("old", ["(hidden)", "a(hidden)b"])
async def test_what_the_journal_does_not_say_is_not_set_back(room: Room, old: str) -> None:
    room.edit(token=old, batch="2")
    room.resume(40)
    room.edit(seed="1")
    assert room.offer() is None
    assert "rltui" not in room.text


async def test_an_edit_that_was_taken_back_is_not_to_blame(room: Room) -> None:
    edit = room.edit(seed="1")
    room.resume(40)
    room.edit("undo", edit, seed="2")
    room.resume(45)
    offer = room.offer()
    assert offer is not None
    assert (offer.edit, offer.resume_step) == ("", 50)


async def test_going_back_with_the_edit_in_place_makes_it_take_effect_there(room: Room) -> None:
    room.edit(seed="1")
    room.resume(40)
    room.resume(20)
    for since in (26, 56):
        offer = room.offer(since)
        assert offer is not None
        assert offer.resume_step == 20


@pytest.mark.parametrize(
    ("steps", "since"),
    [([], 56), ([0], 156), ([60], 56)],
    ids=["not applied", "long ago", "after it"],
)
async def test_an_edit_that_cannot_be_to_blame_is_left_alone(
    room: Room, steps: list[int], since: int
) -> None:
    room.edit(seed="1")
    for step in steps:
        room.resume(step)
    offer = room.offer(since)
    assert offer is not None
    assert (offer.edit, offer.resume_step) == ("", 50 if since == 56 else 60)
    assert f": rltui restart --from {offer.resume_step}" in room.text


async def test_without_an_edit_to_blame_the_learning_rate_is_halved(room: Room) -> None:
    room.health.set_knobs(BottleneckKnobs(), {}, (RATE, 3e-6))
    offer = room.offer()
    assert offer is not None
    assert offer.edits == {RATE: "1.5e-06"}
    assert f"ack to checkpoint 50: rltui set {RATE}=1.5e-06 --restart --from 50" in room.text


async def test_no_way_back_no_offer(room: Room) -> None:
    assert room.offer(since=5) is None
    assert "No earlier checkpoint is complete" in room.text
    assert room.offer(rule="no-signal") is None, "going back would not mend it"
    assert "The last good checkpoint is 50" in room.text
    for rule in ("throughput", "no-step", "staleness", "flat", "truncation"):
        assert room.offer(rule=rule) is None
        assert "checkpoint" not in room.text, "its weights are sound (finding R3)"
    room.found = []
    room.health.refresh(RunTracks())
    assert room.checkpoints.offer is None
    room.edit(seed="1")
    room.resume(5)
    assert room.offer(since=12) is None, "all checkpoints have it"


@pytest.mark.parametrize(
    ("rewards", "since", "good"),
    [
        ({10: 0.5, 20: 0.9, 30: 0.85, 40: 0.3, 50: 0.01}, 45, 30),
        ({10: 0.5, 20: None}, 45, 20),
        ({10: -0.5, 20: -0.9}, 45, 20),
        ({50: 0.9}, 45, None),
    ],
)
def test_what_was_saved_in_the_middle_of_a_fall_is_not_good(
    rewards: dict[int, float | None], since: int, good: int | None
) -> None:
    assert _last_good(rewards, since) == good
