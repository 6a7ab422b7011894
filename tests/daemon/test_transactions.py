"""One decides at a time, and a plan that cannot be executed fails with a reason."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rltui.core.api import Alert, Orphan, Plan, Request
from rltui.core.edit_log import EditRecord
from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import ExitInfo, Lifecycle
from rltui.core.states import ComponentState
from rltui.daemon.component import ComponentRunner
from rltui.daemon.events import EventBus
from rltui.daemon.tasks import Signal
from rltui.daemon.transactions import RollbackWatch, Transactions
from rltui.errors import ConflictError, RltuiError
from rltui.frameworks.base import ServiceCall
from rltui.services.http import post_json
from rltui.services.processes import AttemptRecord
from rltui.services.runs.intent import AppliedEdit

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


async def nothing() -> None: ...


def transactions_of(*collaborators: Any) -> Transactions:
    return Transactions(*collaborators, on_change=lambda: None, resets=tuple, on_start=nothing)


class Box:
    """Transactions on one component, and what they told."""

    def __init__(self) -> None:
        self.runner = Runner()
        self.alerts: list[Alert] = []
        self.problem: RltuiError | None = None
        self.survivors: tuple[Orphan, ...] = ()
        events = SimpleNamespace(alert=self.alerts.append, journal=SimpleNamespace(add=lambda *_, **__: None))
        processes = SimpleNamespace(
            runners={"trainer": self.runner},
            stop=self._stop,
            run_jobs=self._run_jobs,
            orphans=SimpleNamespace(free=self._free),
            changes=Signal(),
        )
        self.transactions = transactions_of(processes, None, None, events)

    async def _stop(self, names: Sequence[str], *, kill: bool) -> list[str]:
        return [name for name in names if not await self.runner.stop(kill=kill)]

    def _run_jobs(self) -> list[object]:
        """None; asked for where the run is prepared."""
        if self.problem is not None:
            raise self.problem
        return []

    async def _free(self, orphans: object) -> tuple[Orphan, ...]:
        return self.survivors


async def test_one_decides_at_a_time() -> None:
    """Finding A5: between the look and the beginning, another had begun."""
    box, order = Box(), []

    async def decide(name: str) -> None:
        async with box.transactions.deciding(starts=True):
            order.append(f"{name} looks")
            await asyncio.sleep(0)
            order.append(f"{name} begins")

    await asyncio.gather(decide("one"), decide("two"))
    assert order == ["one looks", "one begins", "two looks", "two begins"]


async def test_after_the_close_nothing_starts_and_the_refusal_says_why() -> None:
    box = Box()
    box.transactions.start(RESTART, Request(action="restart"))
    async with box.transactions.deciding(starts=True):
        closing = asyncio.create_task(box.transactions.close("it is being taken down by ada"))
        await asyncio.sleep(0)
        assert not closing.done(), "whoever decides is let finish"
        assert box.transactions.busy
    await closing
    assert not box.transactions.busy
    with pytest.raises(ConflictError, match="taken down by ada"):
        async with box.transactions.deciding(starts=True):
            raise AssertionError("let in")
    async with box.transactions.deciding(starts=False):
        assert box.runner.started == 0


@pytest.mark.parametrize("why", ["stuck", "leftover", "disk"])
async def test_what_a_failed_plan_was_to_start_says_why_it_does_not(why: str) -> None:
    """A restart on a full disk ended with `stopped` and exit code 0."""
    box, plan = Box(), RESTART
    match why:
        case "stuck":
            box.runner.can_end, reason = False, "trainer cannot be ended"
        case "leftover":
            box.survivors, reason = (Orphan(pid=7, start=1),), "pid 7 cannot be ended"
            plan = plan.model_copy(update={"free": box.survivors})
        case _:
            box.problem, reason = RltuiError("cannot write x", hint="is the disk full?"), "cannot write x"
    box.runner.ends.set()
    box.transactions.start(plan, Request(action="restart"))
    await box.transactions.wait()
    (refusals,) = box.runner.refused
    assert reason in refusals
    assert box.runner.started == 0
    assert box.alerts[0].title == "a plan was not finished"
    assert box.transactions.pending is None


@contextmanager
def server(status: int = 200) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that answers every POST with `status`, and what it was sent."""
    requests: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            del arguments

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/resume", requests
        finally:
            http.shutdown()
            thread.join()


def runner(name: str, *, alive: bool = True) -> ComponentRunner:
    stand_in: Any = SimpleNamespace(spec=SimpleNamespace(id=name), lifecycle=SimpleNamespace(alive=alive))
    return cast("ComponentRunner", stand_in)


def make(folder: Path, call: ServiceCall, plan: Plan, *, alive: bool = True) -> str:
    """Carry the call out within `plan`; the journal."""
    events = EventBus(folder / "journal.jsonl")
    runners = {"inference": runner("inference", alive=alive), "trainer": runner("trainer")}
    processes: Any = SimpleNamespace(runners=runners, run_jobs=lambda: [runners["trainer"]])
    launcher = SimpleNamespace(service_calls=lambda files, resume_step: [call])
    config: Any = SimpleNamespace(launcher=launcher, store=SimpleNamespace(files={}))
    observation: Any = SimpleNamespace(resume_step=None)
    asyncio.run(transactions_of(processes, config, observation, events)._call_services(plan))
    journal = folder / "journal.jsonl"
    return journal.read_text() if journal.exists() else ""


PAIR = Plan(start=("orchestrator", "trainer"))


def test_living_service_is_called_before_jobs_start(tmp_path: Path) -> None:
    with server() as (url, heard):
        journal = make(tmp_path, ServiceCall("inference", url, "resume", body={"a": 1}), PAIR)
    assert heard == [("/resume", b'{"a": 1}')]
    assert "inference: resume: done" in journal


@pytest.mark.parametrize(
    ("plan", "alive"),
    [(Plan(start=("inference", "trainer")), True), (Plan(start=("inference",)), True), (PAIR, False)],
    ids=["it starts itself", "no job starts", "it is dead"],
)
def test_nobody_else_is_called(tmp_path: Path, plan: Plan, alive: bool) -> None:
    with server() as (url, heard):
        make(tmp_path, ServiceCall("inference", url, "resume"), plan, alive=alive)
    assert not heard


def test_older_server_without_the_route_is_no_failure(tmp_path: Path) -> None:
    with server(404) as (url, _):
        journal = make(tmp_path, ServiceCall("inference", url, "resume"), PAIR)
    assert "not done: status 404" in journal


def test_required_call_that_fails_stops_the_plan(tmp_path: Path) -> None:
    with server(500) as (url, _), pytest.raises(RltuiError, match="could not be told to load weights"):
        make(tmp_path, ServiceCall("inference", url, "load weights", required=True), PAIR)


def test_server_that_is_not_there_is_told_in_words() -> None:
    with server() as (url, _):
        pass
    assert "refused" in str(post_json(url, {}, timeout_s=1)).lower()


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
    assert (
        "batch_size 128 → 256: trainer died: out of memory. To take that edit back: rltui undo --restart"
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
    world.watch.start(EDIT.model_copy(update={"action": "undo"}), Plan(start=("trainer",)))
    world.become("trainer", FAILED)
    assert world.watch.offer is None
    world.watch.start(EDIT.model_copy(update={"action": "redo"}), Plan(start=("trainer",)))
    world.become("trainer", STARTING)
    world.become("trainer", FAILED)
    assert world.watch.offer is not None, "an undo takes back just that"


def test_an_offer_ends_with_an_edit_that_was_made_while_no_supervisor_lived(world: World) -> None:
    applied_edit = world.watch.applied_edit
    world.watch.restore(applied_edit, EDIT.model_copy(update={"number": EDIT.number + 1}))
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
    other.watch.applied_edit = AppliedEdit.model_validate_json(world.watch.applied_edit.model_dump_json())
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
