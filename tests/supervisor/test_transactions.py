"""One decides at a time, and a plan that cannot be executed fails with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from tests.fakes.http_server import Handler, serving

from rltui.base.tasks import Signal
from rltui.core.config.edit_log import EditRecord
from rltui.core.experiment.api import Alert, Orphan, Plan, Request
from rltui.core.experiment.layout import ComponentSpec
from rltui.core.experiment.lifecycle import ExitInfo, Lifecycle
from rltui.core.experiment.states import ComponentState
from rltui.errors import RltuiError
from rltui.frameworks.launch import ServiceCall
from rltui.services.experiment.intent import AppliedEdit
from rltui.services.processes import AttemptRecord
from rltui.supervisor.events import EventBus
from rltui.supervisor.rollback import RollbackWatch
from rltui.supervisor.transactions import Transactions

RESTART = Plan(stop=("trainer",), start=("trainer",))


class Runner:
    """A component whose stop comes to its end when a test says so."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.can_end = True
        self.refused: list[str] = []
        self.started = 0

    async def stop(self, *, kill: bool) -> bool:
        await self.ends.wait()
        return self.can_end

    def start(self, *, automatic: bool) -> None:
        self.started += 1

    def refuse_start(self, reason: str) -> None:
        self.refused.append(reason)


async def nothing(_: object) -> None: ...


def transactions_of(processes: Any, events: Any, **parts: Any) -> Transactions:
    """Transactions of a runtime that has these parts alone."""
    config = parts.pop("config", SimpleNamespace(save_provenance=nothing))
    runtime = SimpleNamespace(
        processes=processes,
        events=events,
        config=config,
        observation=parts.get("observation"),
        servers=SimpleNamespace(resets=tuple),
        gpu_readings=SimpleNamespace(newest=SimpleNamespace(driver=None)),
    )
    return Transactions(cast(Any, runtime))


class Box:
    """Transactions on one component, and what they told."""

    def __init__(self) -> None:
        self.runner = Runner()
        self.alerts: list[Alert] = []
        self.problem: RltuiError | None = None
        self.survivors: tuple[Orphan, ...] = ()
        events = SimpleNamespace(
            alert=self.alerts.append,
            changed=lambda topic: None,
            journal=SimpleNamespace(add=lambda *_, **__: None),
        )
        processes = SimpleNamespace(
            runners={"trainer": self.runner},
            stop=self._stop,
            run_jobs=self._run_jobs,
            orphans=SimpleNamespace(free=self._free),
            changes=Signal(),
        )
        self.transactions = transactions_of(processes, events)

    async def _stop(self, names: Sequence[str], *, kill: bool) -> list[str]:
        return [name for name in names if not await self.runner.stop(kill=kill)]

    def _run_jobs(self) -> list[object]:
        """None; asked for where the run is prepared."""
        if self.problem is not None:
            raise self.problem
        return []

    async def _free(self, orphans: object) -> tuple[Orphan, ...]:
        return self.survivors


@pytest.mark.parametrize("why", ["stuck", "leftover", "disk"])
async def test_what_a_failed_plan_was_to_start_says_why_it_does_not(why: str) -> None:
    """A restart on a full disk ended with `stopped` and exit code 0."""
    box, plan = Box(), RESTART
    match why:
        case "stuck":
            box.runner.can_end, reason = False, "trainer cannot be ended"
        case "leftover":
            box.survivors, reason = (Orphan(pid=7, start=1),), "pid 7 cannot be ended"
            plan = plan.replace(free=box.survivors)
        case _:
            box.problem, reason = RltuiError("cannot write x", hint="is the disk full?"), "cannot write x"
    box.runner.ends.set()
    box.transactions.start(plan, Request(action="restart"))
    await box.transactions.wait()
    (refusals,) = box.runner.refused
    assert reason in refusals
    assert box.runner.started == 0
    assert box.alerts[0].title == "an unfinished plan remains"
    assert box.transactions.pending is None


class Resume(Handler):
    """Remembers what it was sent, and answers with the status that the path names."""

    heard: ClassVar[list[tuple[str, bytes]]] = []

    def respond(self) -> None:
        self.heard.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(int(self.path[1:]))


PAIR = ("orchestrator", "trainer")


@pytest.mark.parametrize(
    ("start", "alive", "status", "outcome"),
    [
        (PAIR, True, 200, "inference: resume: done"),
        (PAIR, True, 404, "not done: status 404"),
        (PAIR, True, 0, "refused"),
        (("inference", "trainer"), True, 200, ""),
        (("inference",), True, 200, ""),
        (PAIR, False, 200, ""),
    ],
    ids=["called", "an older server", "no server", "it starts itself", "no job starts", "it is dead"],
)
async def test_a_living_service_is_called_before_jobs_start(
    tmp_path: Path, start: tuple[str, ...], alive: bool, status: int, outcome: str
) -> None:
    Resume.heard.clear()
    with serving(Resume) as server:
        port = server.server_address[1] if status else 1
        call = ServiceCall("inference", f"http://127.0.0.1:{port}/{status}", "resume", body={"a": 1})
        await call_services(tmp_path, call, Plan(start=start), alive=alive)
    assert Resume.heard == ([(f"/{status}", b'{"a": 1}')] if outcome and status else [])
    journal = tmp_path / "journal.jsonl"
    assert outcome in journal.read_text() if outcome else not journal.exists()


async def test_a_required_call_that_fails_stops_the_plan(tmp_path: Path) -> None:
    with serving(Resume) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/500"
        call = ServiceCall("inference", url, "load weights", required=True)
        with pytest.raises(RltuiError, match="failed to load weights"):
            await call_services(tmp_path, call, Plan(start=PAIR), alive=True)


async def call_services(folder: Path, call: ServiceCall, plan: Plan, *, alive: bool) -> None:
    """Carry the call out within `plan`."""
    runners = {
        name: SimpleNamespace(spec=SimpleNamespace(id=name), lifecycle=SimpleNamespace(alive=alive))
        for name in ("inference", "trainer")
    }
    processes = SimpleNamespace(runners=runners, run_jobs=lambda: [runners["trainer"]])
    context = SimpleNamespace(service_calls=lambda: [call])
    launcher = SimpleNamespace(context=lambda files, resume_step: context)
    config = SimpleNamespace(launcher=launcher, document=SimpleNamespace(files={}))
    transactions = transactions_of(
        processes,
        EventBus(folder / "journal.jsonl"),
        config=config,
        observation=SimpleNamespace(resume_step=None),
    )
    if transactions._run_jobs_of(plan):
        await transactions._call_services(plan)


EDIT = EditRecord(number=1, action="set", words="batch_size 128 → 256", files=())
READY, FAILED, STARTING = ComponentState.READY, ComponentState.FAILED, ComponentState.STARTING


@dataclass
class Watched:
    spec: ComponentSpec
    lifecycle: Lifecycle
    record: AttemptRecord | None = None


class World:
    """A watch with two components and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.alerts: list[Alert] = []
        self.watch = RollbackWatch("demo", alert=self.alerts.append, clock=lambda: self.now)
        self.runners = {
            name: Watched(ComponentSpec(id=name, command=["x"]), Lifecycle(kind="job", state=STARTING))
            for name in ("trainer", "inference")
        }

    def become(self, name: str, state: ComponentState, *, after_s: float = 0.0, reason: str = "") -> None:
        self.now += after_s
        runner = self.runners[name]
        before, runner.lifecycle = runner.lifecycle, replace(runner.lifecycle, state=state, reason=reason)
        self.watch.lifecycle_changed(cast(Any, runner), before)


@pytest.fixture
def world() -> World:
    fake = World()
    fake.watch.start(EDIT, Plan(start=("trainer",)))
    return fake


@pytest.mark.usefixtures("own_user")
def test_a_component_that_dies_before_it_is_ready_makes_an_offer(world: World) -> None:
    world.become("trainer", FAILED, after_s=900.0, reason="out of memory")
    offer = world.watch.offer
    assert offer is not None
    assert (offer.edit, offer.component, offer.reason) == (
        EDIT.words,
        "trainer",
        "trainer failed: out of memory",
    )
    (alert,) = world.alerts
    assert (
        "batch_size 128 → 256: trainer failed: out of memory. To undo the edit: rltui undo --restart"
        in alert.text
    )
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


def test_a_kill_from_outside_is_no_edits_fault(world: World) -> None:
    """Finding G1: the alert blamed an edit that had been undone already."""
    runner = world.runners["trainer"]
    runner.lifecycle = replace(runner.lifecycle, exit=ExitInfo(signal="SIGKILL", from_outside=True))
    world.become("trainer", FAILED, after_s=2.0)
    assert (world.watch.offer, world.alerts) == (None, [])


def test_after_an_undo_nothing_is_watched(world: World) -> None:
    """Finding G1: the next undo takes back another edit."""
    world.watch.start(EDIT.replace(action="undo"), Plan(start=("trainer",)))
    world.become("trainer", FAILED)
    assert world.watch.offer is None
    world.watch.start(EDIT.replace(action="redo"), Plan(start=("trainer",)))
    world.become("trainer", STARTING)
    world.become("trainer", FAILED)
    assert world.watch.offer is not None, "an undo takes back just that"


def test_an_offer_ends_with_an_edit_that_was_made_while_no_supervisor_lived(world: World) -> None:
    applied_edit = world.watch.applied_edit
    world.watch.restore(applied_edit, EDIT.replace(number=EDIT.number + 1))
    assert world.watch.applied_edit is None
    world.watch.restore(applied_edit, EDIT)
    assert world.watch.applied_edit == applied_edit


def test_only_what_the_edit_started_counts(world: World) -> None:
    world.become("inference", FAILED)
    world.become("trainer", ComponentState.STOPPED)
    assert world.watch.offer is None
    world.watch.withdraw()
    world.become("trainer", FAILED)
    assert world.watch.offer is None


def test_the_next_supervisor_goes_on(world: World) -> None:
    world.become("trainer", READY)
    assert world.watch.applied_edit is not None
    other = World()
    other.watch.applied_edit = AppliedEdit.from_json(world.watch.applied_edit.to_json().decode())
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
