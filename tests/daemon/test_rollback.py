from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from rltui.core.api import Alert, ComponentState, Plan, Request
from rltui.core.edit_log import EditRecord
from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import Life
from rltui.daemon.transactions import RollbackWatch
from rltui.services.processes import AttemptRecord
from rltui.services.runs.intent import AppliedEdit

EDIT = EditRecord(number=1, action="set", words="batch_size 128 → 256", files=())
READY, FAILED, STARTING = ComponentState.READY, ComponentState.FAILED, ComponentState.STARTING


@dataclass
class Runner:
    spec: ComponentSpec
    life: Life
    record: AttemptRecord | None = None


class World:
    """A watch with two components and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.alerts: list[Alert] = []
        self.watch = RollbackWatch(alert=self.alerts.append, clock=lambda: self.now)
        self.runners = {
            name: Runner(ComponentSpec(id=name, command=["x"]), Life(kind="job", state=STARTING))
            for name in ("trainer", "inference")
        }

    def become(self, name: str, state: ComponentState, *, after_s: float = 0.0, reason: str = "") -> None:
        self.now += after_s
        runner = self.runners[name]
        before, runner.life = runner.life, replace(runner.life, state=state, reason=reason)
        self.watch.life_changed(cast(Any, runner), before)


@pytest.fixture
def world() -> World:
    made = World()
    made.watch.begin(EDIT, Plan(start=("trainer",)))
    return made


def test_a_component_that_dies_before_it_is_ready_makes_an_offer(world: World) -> None:
    world.become("trainer", FAILED, after_s=900.0, reason="out of memory")
    offer = world.watch.offer
    assert offer is not None
    assert (offer.edit, offer.component, offer.reason) == (
        EDIT.words,
        "trainer",
        "trainer died: out of memory",
    )
    (alert,) = world.alerts
    assert "batch_size 128 → 256: trainer died: out of memory. Undo and restart?" in alert.text
    world.become("trainer", STARTING)
    world.become("trainer", FAILED)
    assert len(world.alerts) == 1, "once"
    world.become("trainer", READY, after_s=9.0)
    assert world.watch.offer is None, "its restart policy brought it back"


@pytest.mark.parametrize(("ready_s", "is_offered"), [(59.0, True), (61.0, False)])
def test_a_component_survives_its_start_after_a_minute(
    world: World, ready_s: float, is_offered: bool
) -> None:
    world.become("trainer", READY, after_s=300.0)
    world.become("trainer", ComponentState.BACKOFF, after_s=ready_s)
    assert (world.watch.offer is not None) == is_offered


def test_only_what_the_edit_started_counts(world: World) -> None:
    world.become("inference", FAILED)
    world.become("trainer", ComponentState.STOPPED)
    assert world.watch.offer is None
    world.watch.withdraw()
    world.become("trainer", FAILED)
    assert world.watch.offer is None


def test_the_next_supervisor_goes_on(world: World) -> None:
    world.become("trainer", READY)
    assert world.watch.applied is not None
    other = World()
    other.watch.applied = AppliedEdit.model_validate_json(world.watch.applied.model_dump_json())
    other.now = world.now + 10.0
    other.become("trainer", FAILED)
    assert other.watch.offer is not None


def test_accepting_starts_the_dead_too(world: World) -> None:
    undo = Request(action="undo", restart=True, components=("inference",))
    assert world.watch.with_components(undo) == undo
    world.become("trainer", FAILED)
    assert world.watch.with_components(undo).components == ("inference", "trainer")
    without = Request(action="undo")
    assert world.watch.with_components(without) == without
