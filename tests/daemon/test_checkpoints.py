"""The way back that the supervisor offers when a run has gone bad."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rltui.core.api import Concern, JournalEntry
from rltui.core.edit_log import EditRecord
from rltui.daemon.checkpoints import CheckpointKeeper
from rltui.daemon.health import _last_good
from rltui.frameworks.base import RunFiles
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.run_folder import RunFolder

EDIT = EditRecord(number=1, action="set", words="trainer.optim.lr 1e-06 → 0.01", files=())


class Room:
    """A run with checkpoints 10, 20 … 60."""

    def __init__(self, folder: Path) -> None:
        for step in range(10, 61, 10):
            (folder / f"checkpoints/step_{step}").mkdir(parents=True)
            (folder / f"checkpoints/step_{step}/STABLE").touch()
        self.control = ControlFolder(folder)
        self.control.make()
        self.editor = SimpleNamespace(undoable=EDIT)
        setup: Any = SimpleNamespace(control=self.control, run_jobs=())
        config: Any = SimpleNamespace(editor=self.editor)
        observation: Any = SimpleNamespace(folder=RunFolder(folder, RunFiles()))
        nothing: Any = None
        self.keeper = CheckpointKeeper(setup, config, observation, nothing, nothing)

    def journal(self, kind: str, **data: object) -> None:
        entry = JournalEntry(at=1.0, kind=kind, text="x", data=data)
        with self.control.journal_file.open("a") as file:
            file.write(entry.model_dump_json() + "\n")
        self.control.journal_file.chmod(0o600)

    def offer(self, since: int = 56, last_good: int | None = 50, rule: str = "reward-collapse") -> Any:
        concern = Concern(
            word="reward collapsed", text="", id=rule, since=since, last_good=last_good, evidence="0.9 to 0.0"
        )
        return self.keeper.offer((concern,))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_before_the_edit_that_is_to_blame(room: Room) -> None:
    room.journal("resume", step=None)
    room.journal("edit", number=1)
    room.journal("resume", step=40)
    offer = room.offer()
    assert (offer.edit, offer.resume_step) == (EDIT.words, 40), "50 has learnt with it already"
    assert offer.reason == "reward collapsed: 0.9 to 0.0"


def test_going_back_with_the_edit_in_place_makes_it_take_effect_there(room: Room) -> None:
    room.journal("edit", number=1)
    room.journal("resume", step=40)
    room.journal("resume", step=20)
    assert room.offer(since=26, last_good=20).resume_step == 20
    assert room.offer().resume_step == 20


@pytest.mark.parametrize(
    ("entries", "since"),
    [
        ([("edit", 1)], 56),
        ([("edit", 1), ("resume", 0)], 156),
        ([("edit", 1), ("resume", 60)], 56),
        ([], 56),
    ],
    ids=["not applied", "long ago", "after it", "none"],
)
def test_an_edit_that_cannot_be_to_blame_is_left_alone(
    room: Room, entries: list[tuple[str, int]], since: int
) -> None:
    for kind, number in entries:
        room.journal(kind, **({"number": number} if kind == "edit" else {"step": number}))
    offer = room.offer(since=since)
    assert (offer.edit, offer.resume_step) == ("", 50)


def test_no_way_back_no_offer(room: Room) -> None:
    assert room.offer(last_good=None) is None
    assert room.offer(rule="truncation") is None, "going back would not mend it"
    assert room.keeper.offer(()) is None
    room.journal("edit", number=1)
    room.journal("resume", step=5)
    assert room.offer(since=8, last_good=7) is None, "all checkpoints have it"


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
