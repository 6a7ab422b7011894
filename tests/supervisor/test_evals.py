"""The queue of evaluations and its standing order, with work that is only said to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rltui.core.runs.evals import EvalRequest, EvalTarget, Evaluation, QueuedEval
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.experiment.files import ControlFolder
from rltui.services.runs.evaluations import EvalFolder, EvalQueue
from rltui.supervisor.events import EventBus
from rltui.supervisor.runs.evals import EvalScheduler


class FakeWork:
    """Stands for `EvalWork`: every evaluation ends when a test says so."""

    experiment = "one"

    def __init__(self, folder: Path) -> None:
        self.folder = EvalFolder(ControlFolder(folder))
        self.waits_for: dict[str, str] = {}
        """Label of the target → what it waits for."""
        self.without_weights = False
        self.ends = asyncio.Event()
        self.conclusions: list[tuple[str, str]] = []
        self.changes = asyncio.Event()

    async def complete_request(self, request: EvalRequest) -> EvalRequest:
        if request.target.kind == "checkpoint" and self.without_weights:
            raise ConfigError("no weights")
        return request.replace(env=request.env or "e")

    def wait_reason(self, request: EvalRequest) -> str | None:
        return self.waits_for.get(request.target.label)

    def notify(self) -> None:
        self.changes.set()

    async def wait_for_change(self, within_s: float | None) -> None:
        del within_s
        await self.changes.wait()
        self.changes.clear()

    async def start(self, running: QueuedEval, tell: Callable[[QueuedEval], None]) -> Evaluation:
        tell(running.replace(why="loading"))
        if running.request.env == "broken":
            raise RltuiError("it does not start")
        return Evaluation(
            id=running.id, at=0.0, experiment="one", kind="now", label="now", env="e", num_examples=0,
            rollouts=0, rollouts_per_example=1, verdict="empty",
        )  # fmt: skip

    async def wait_until_ended(self, running: QueuedEval, evaluation: object, tell: object) -> None:
        del evaluation, tell
        if running.request.env != "broken":
            await self.ends.wait()

    async def conclude(self, running: QueuedEval, evaluation: Evaluation | None, failure: str) -> None:
        del evaluation
        self.conclusions.append((running.request.target.label, failure))

    async def stop(self) -> None:
        return None


class Bench:
    """A scheduler at work on files below a folder."""

    def __init__(self, folder: Path) -> None:
        self.work = FakeWork(folder)
        self.may_start = True
        work: Any = self.work
        self.scheduler = EvalScheduler(
            work, EventBus(folder / "journal.jsonl"), may_start=lambda: self.may_start
        )
        self.task = asyncio.create_task(self.scheduler.run())

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110 - to the next turn of the loop
                await asyncio.sleep(0)

    def states(self) -> list[tuple[str, str]]:
        return [(entry.label, entry.state) for entry in self.scheduler.queue]

    def leave(self) -> None:
        self.task.cancel()


def eval_request(kind: Any = "now", env: str = "e", step: int | None = None) -> EvalRequest:
    return EvalRequest(target=EvalTarget(kind=kind, step=step), env=env)


async def test_one_runs_at_a_time_and_who_cannot_yet_is_overtaken(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.work.waits_for["base"] = "GPU memory"
    await bench.scheduler.enqueue(eval_request("base"))
    await bench.scheduler.enqueue(eval_request())
    await bench.scheduler.enqueue(eval_request("sft"))
    await bench.until(lambda: ("now on e", "running") in bench.states())
    assert [entry.words for entry in bench.scheduler.queue][1:] == [
        "waiting for GPU memory",
        "waiting for another evaluation",
    ]
    bench.work.ends.set()
    await bench.until(lambda: len(bench.work.conclusions) == 2)
    bench.work.waits_for.clear()
    bench.work.notify()
    await bench.until(lambda: not bench.scheduler.queue)
    assert bench.work.conclusions == [("now", ""), ("sft", ""), ("base", "")]
    bench.leave()


async def test_what_cannot_begin_is_told_and_the_next_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.work.ends.set()
    await bench.scheduler.enqueue(eval_request(env="broken"))
    await bench.scheduler.enqueue(eval_request("base"))
    await bench.until(lambda: len(bench.work.conclusions) == 2)
    assert bench.work.conclusions == [("now", "it does not start"), ("base", "")]
    bench.leave()


async def test_the_queue_outlives_its_supervisor(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    await first.scheduler.enqueue(eval_request())
    await first.scheduler.enqueue(eval_request("base"))
    await first.until(lambda: first.work.folder.queue().begun is not None)
    first.leave()

    second = Bench(tmp_path)
    await second.until(lambda: ("now on e", "running") in second.states())
    second.may_start = False  # everything is taken down: it is done again
    second.work.ends.set()
    await second.until(lambda: second.states() == [("now on e", "waiting"), ("base on e", "waiting")])
    assert second.work.conclusions == []
    second.leave()

    third = Bench(tmp_path)
    third.work.ends.set()
    await third.until(lambda: len(third.work.conclusions) == 2)
    assert third.work.folder.queue() == EvalQueue()
    third.leave()


async def test_one_that_waits_can_be_taken_away(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.work.waits_for["now"] = "inference"
    queued = await bench.scheduler.enqueue(eval_request())
    assert (await bench.scheduler.cancel(queued.id)).queue == ()
    with pytest.raises(UsageError):
        await bench.scheduler.cancel(queued.id)
    bench.leave()


async def test_a_standing_order_takes_one_of_so_many_checkpoints(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.work.waits_for |= {"checkpoint 20": "GPU memory", "checkpoint 40": "GPU memory", "now": "inference"}
    assert (await bench.scheduler.order(2, EvalRequest(num_examples=7))).every == 2
    for step in (10, 20, 30, 40):
        await bench.scheduler.checkpoint(step)
    assert [entry.label for entry in bench.scheduler.queue] == ["checkpoint 20 on e", "checkpoint 40 on e"]
    assert {(entry.by, entry.request.num_examples) for entry in bench.scheduler.queue} == {("eval_every", 7)}
    bench.work.without_weights = True  # those that the server has are the same
    await bench.scheduler.checkpoint(50)
    await bench.scheduler.checkpoint(60)
    assert bench.scheduler.queue[-1].label == "now on e"
    await bench.scheduler.order(0, EvalRequest())
    await bench.scheduler.checkpoint(70)
    assert len(bench.scheduler.queue) == 3
    bench.leave()
