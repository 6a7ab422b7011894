"""Whatever the other end of a link says: it is understood, or refused in words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from tests.foreign import changed, example_counts, examples, values

from rltui.client.experiment import Experiment
from rltui.client.laptop.logs import RemoteLog, RemoteSearch
from rltui.client.laptop.rollouts import RemoteRollouts
from rltui.client.laptop.runs import RemoteRuns
from rltui.client.laptop.series import RemoteSeries
from rltui.client.laptop.server import ExperimentAddress
from rltui.client.transports.frames import Packet, PacketKind
from rltui.client.transports.remote_machine import RemoteMachine
from rltui.client.transports.ssh import HostLink, _refusal
from rltui.core.metrics.series import SeriesKey
from rltui.core.rollouts.batches import BatchKey
from rltui.errors import RltuiError


class Saying(HostLink):
    """A link over which somebody says just this, to whatever is asked."""

    def __init__(self, answers: Iterable[object], blob: bytes = b"") -> None:
        super().__init__(RemoteMachine("gpubox", ("ssh", "gpubox")))
        self._answers, self._blob = [*answers], blob

    def ask(self, take: Callable[[Packet | RltuiError], None], method: str, params: object = None) -> int:
        del params
        *items, last = self._answers or [None]
        for item in items:
            take(Packet(1, PacketKind.ITEM, item, self._blob))
        take(Packet(1, PacketKind.RESULT, last, self._blob))
        if method in ("rollouts.search", "rollouts.same_prompt"):
            take(Packet(1, PacketKind.RESULT))
        return 1

    def cancel(self, channel: int) -> None:
        pass


HANDLE = ExperimentAddress("/o", supervised=False, readonly=True)
OPENED = {
    "handle": HANDLE.as_json(), "run_id": "x", "run_dir": "/o", "series": "/o/metrics", "events": [],
    "description": {
        "name": "a", "layout_name": "l", "screen": {}, "readonly": False, "observed": False, "finished": True,
        "component_ids": ["trainer"], "log_ids": [],
    },
}  # fmt: skip
ROWS = {
    "rows": [{"id": "a" * 10, "created_at": 1.0, "name": "a", "folder": "/o", "step": 3}],
    "gone": ["b" * 10], "queue": {"entries": []}, "is_whole": True,
}  # fmt: skip
LOG = {
    "problem": None, "reset": False, "start": 0, "stop": 2, "number": 1, "more": False,
    "lines": {"first": 0, "texts": ["a", "b"], "offsets": [0, 2], "labels": ["x", "y"]},
}  # fmt: skip
HITS = {"progress": 0.5, "size": 10, "hits": [[1, "a"]]}
SERIES = {
    "stamp": ["a", 1, 0],
    "keys": [["t", "loss"]],
    "rewinds": [[1, 2.0]],
    "parts": [[["t", "loss"], 0, 0]],
}
LOOKED = {
    "behind": False, "problem": "", "mark": "m", "batches": [],
    "table": {"is_new": True, "length": 0, "texts": ["a"]},
}  # fmt: skip
JOURNAL = {"entries": [{"at": 1.0, "kind": "note", "text": "x"}], "is_new": True}


def opened(link: HostLink) -> Experiment:
    experiment = RemoteRuns(link).opened(Packet(1, PacketKind.RESULT, OPENED))
    assert experiment is not None
    return experiment


def of_opened(answer: object) -> None:
    runs = RemoteRuns(Saying([]))
    runs.opened(Packet(1, PacketKind.RESULT, answer))


def of_journal(answer: object) -> None:
    asyncio.run(opened(Saying([answer])).journal())


def of_events(answer: object) -> None:
    async def all_of_them() -> None:
        async for _ in opened(Saying([answer, None])).events():
            pass

    asyncio.run(all_of_them())


def of_calls(answer: object) -> None:
    experiment = opened(Saying([answer]))
    for ask in (experiment.pins, experiment.logs, lambda: experiment.read_config("/x")):
        with suppress(RltuiError):
            ask()
    asyncio.run(experiment.checkpoints())


def of_log(answer: object) -> None:
    log = RemoteLog(Saying([answer]), HANDLE, path="/x")
    for _ in range(2):
        log.poll(may_skip=False)
        log.line(log.stop - 1)
        log.number_at(3)
        log.number_near(3.0)
        log.load_older()


def of_search(answer: object) -> None:
    search = RemoteSearch(Saying([answer, None]), HANDLE, "/x", None, None, 0, with_text=True)
    for _ in search.batches():
        assert 0 <= search.progress <= 1


def of_series(answer: object) -> None:
    series = RemoteSeries(Saying([answer]), "/x")
    series.poll()
    series.read(SeriesKey("t", "loss"))
    series.poll()


def of_rollouts(answer: object) -> None:
    rollouts = RemoteRollouts(Saying([answer, None]), "/x")
    key = BatchKey("train", 1)
    rollouts.poll(key)
    rollouts.table(key)
    with suppress(RltuiError):
        rollouts.open(key, cast("Any", {}))
    list(rollouts.search(key, [], re.compile("x")))


def of_rows(answer: object) -> None:
    runs = RemoteRuns(Saying([answer]))
    runs.rows()
    with suppress(RltuiError):
        runs.configs(["a" * 10])
    runs.catch_up()


GOOD: dict[str, tuple[Callable[[object], None], object]] = {
    "opened": (of_opened, OPENED), "journal": (of_journal, JOURNAL), "events": (of_events, {}),
    "calls": (of_calls, {}), "log": (of_log, LOG), "search": (of_search, HITS),
    "series": (of_series, SERIES), "rollouts": (of_rollouts, LOOKED), "rows": (of_rows, ROWS),
}  # fmt: skip


@pytest.mark.parametrize("count", example_counts(20, 500))
@pytest.mark.parametrize("what", GOOD)
def test_whatever_is_answered_is_understood_or_refused(own_user: Path, what: str, count: int) -> None:
    ask, good = GOOD[what]

    @examples(count)
    @given(changed(good) | values)
    def check(answer: object) -> None:
        with suppress(RltuiError):
            ask(answer)

    check()


def test_a_refusal_of_any_shape_is_one(own_user: Path) -> None:
    good = {"exit_code": 2, "title": "no", "details": [], "hint": "", "kind": ""}
    assert (_refusal(good).exit_code, _refusal(good).title) == (2, "no")

    @examples(20)
    @given(changed(good) | values)
    def check(answer: object) -> None:
        error = _refusal(answer)
        assert isinstance(str(error), str)

    check()
