"""What a GPU source prints, good and bad."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import retry_until

from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport, GpuShare
from rltui.services.gpu import other_hosts
from rltui.services.gpu.other_hosts import (
    LONGEST_DOCUMENT_BYTES,
    GpuCommand,
    GpuSources,
    ReportReader,
    devices_of,
    parse_report,
)
from rltui.services.processes import ProcessId, is_alive, read_process_id

GIB = 1 << 30
PROCESS = GpuProcess(
    pid=4711, start=99, used_bytes=58 * GIB, name="VLLM::EngineCore", user="alice", owner="experiment",
    experiment="reverse-text", component="inference",
)  # fmt: skip
DEVICE = GpuDevice(
    index=0, uuid="GPU-1", name="NVIDIA H200", total_bytes=141 * GIB, used_bytes=60 * GIB, utilization=0.97,
    processes=(PROCESS,), shares=(GpuShare(owner="experiment", used_bytes=58 * GIB, pids=(4711,)),),
)  # fmt: skip
WHOLE_REPORT = GpuReport(available=True, driver="580", devices=(DEVICE,), interval_s=2.0)
LINE = WHOLE_REPORT.to_json().decode()
PRETTY = json.dumps(WHOLE_REPORT.to_plain(), indent=2)


@pytest.mark.parametrize(
    "text",
    [LINE + "\n", LINE, PRETTY, PRETTY + "\n", "Welcome to node-2\n\n" + LINE + "\nbye"],
    ids=["line", "no-newline", "spread", "spread-newline", "greeting"],
)  # fmt: skip
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_report_is_found_however_it_arrives(text: str, piece: int) -> None:
    reader, found = ReportReader(), []
    data = text.encode()
    for start in range(0, len(data), piece):
        found += reader.feed(data[start : start + piece])
    found += reader.end()
    assert found == [WHOLE_REPORT]


def test_one_report_for_each_line() -> None:
    reader = ReportReader()
    assert reader.feed(f"{LINE}\n{LINE}\n{LINE[:50]}".encode()) == [WHOLE_REPORT, WHOLE_REPORT]
    assert reader.feed(LINE[50:].encode()) == []
    assert reader.feed(b"\n") == [WHOLE_REPORT]
    assert reader.problem is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\x1b]0;title\x07\x1b[31mno\x1b[0m\n", "prints no report: no"),
        ("denied: api_key=sk-4f7a9c21d8e6b035\n", "prints no report: denied: api_key=(hidden)"),
        (
            LINE[:80] + "\n" + LINE[:80] + "\n",
            "prints an invalid report: Expecting property",
        ),
        ('{"available": true, "devices": 3}\n', "prints an invalid report: devices: "),
        ('{"devices": [{}]}\n', "prints an invalid report: devices.0.index: is missing"),
        ('{"available": true, "interval_s": NaN}\n', "prints an invalid report: NaN is no"),
        ('{"available": true, "interval_s": 1e999}\n', "prints an invalid report: 1e999 is"),
        (
            '{"available": true, "devices": [{"index": 0, "used_bytes": -1}]}\n',
            "prints an invalid report: -1 is not a GPU value",
        ),
        (
            '{"available": true, "devices": [{"index": 0, "used_bytes": 1' + 5000 * "0" + "}]}\n",
            "prints an invalid report: 1000",
        ),
        ('{"a":' * 100_000 + "\n}\n", "prints an invalid report: too deeply nested"),
        ("x" * (LONGEST_DOCUMENT_BYTES + 1) + "\n", "prints lines of more than 4 MiB"),
    ],
    ids=[
        "escapes",
        "secret",
        "cut",
        "wrong",
        "missing",
        "nan",
        "infinite",
        "negative",
        "huge",
        "deep",
        "long",
    ],
)
def test_what_is_wrong_is_said_and_the_next_report_is_taken(text: str, problem: str) -> None:
    reader = ReportReader()
    assert reader.feed(text.encode()) == []
    assert (reader.problem or "").startswith(problem)
    assert len(reader.problem or "") < 700
    assert reader.feed(f"{LINE}\n".encode()) == [WHOLE_REPORT]
    assert reader.problem is None


def test_an_endless_document_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_hosts, "LONGEST_DOCUMENT_BYTES", 1 << 12)
    reader = ReportReader()
    reader.feed(b"{\n" + b'"a": 1,\n' * (1 << 8))
    assert reader.problem is None
    reader.feed(b'"a": 1,\n' * (1 << 9))
    assert reader.problem == 'prints no report: "a": 1,', "its end is another line"


@given(st.lists(st.one_of(st.binary(max_size=200), st.sampled_from([b"{", b"}", b"\n", LINE.encode()]))))
def test_nothing_it_prints_raises(pieces: list[bytes]) -> None:
    reader = ReportReader()
    for piece in pieces:
        reader.feed(piece)
    reader.end()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(GpuDevice.__struct_fields__), inner),
        max_leaves=20,
    )
)
def test_a_strange_report_is_a_problem_or_a_report(devices: Any) -> None:
    reader = ReportReader()
    reports = reader.feed(json.dumps({"available": True, "devices": devices}).encode() + b"\n")
    assert (reader.problem is None) == bool(reports)
    assert "\n" not in (reader.problem or "")
    for report in reports:
        devices_of(report, "node-2")


def test_devices_are_those_of_the_host_and_its_processes_not_of_this_machine() -> None:
    [device] = devices_of(WHOLE_REPORT, "node-2")
    assert (device.host, device.key) == ("node-2", "node-2/GPU-1")
    [process] = device.processes
    assert process == PROCESS.replace(start=None)
    secret = PROCESS.replace(command="serve --api-key=sk-4f7a9c21d8e6b035")
    [device_with_secret] = devices_of(
        GpuReport(available=True, devices=(DEVICE.replace(processes=(secret,)),)), "node-2"
    )
    assert "4f7a" not in device_with_secret.processes[0].command
    assert device.shares == DEVICE.shares
    further = WHOLE_REPORT.replace(devices=(DEVICE.replace(host="node-3"),))
    assert devices_of(further, "node-2")[0].host == "node-2/node-3"


def test_texts_are_printable_and_figures_within_bounds() -> None:
    name, recent = "\x1b[2J" + "n" * 5000, (500, 3)
    strange = DEVICE.replace(name=name, utilization=7.5, recent=recent)
    text = GpuReport(available=True, devices=(strange,)).to_json().decode()
    [device] = devices_of(parse_report(text), "node-2")
    assert set(device.name) == {"n"}
    assert len(device.name) <= 500
    assert (device.utilization, device.recent) == (1.0, (100, 3))


REPORT = GpuReport(
    available=True, devices=(GpuDevice(index=0, uuid="GPU-1", name="NVIDIA H200"),), interval_s=0.5
)
SPREAD = json.dumps(REPORT.to_plain(), indent=1) + "\n"


class Followed:
    """Sources that run, and how often they said that something changed."""

    def __init__(self, specs: list[GpuCommand]) -> None:
        self.changes = 0
        self._changed = asyncio.Event()
        self.sources = GpuSources(specs, self._count)

    def _count(self) -> None:
        self.changes += 1
        self._changed.set()

    async def until(self, reached: Callable[[GpuSources], bool], *, timeout_s: float = 10.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not reached(self.sources):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def running(*commands: list[str]) -> AsyncIterator[Followed]:
    specs = [
        GpuCommand(name=f"node-{number}", command=tuple(command)) for number, command in enumerate(commands)
    ]
    followed = Followed(specs)
    task = asyncio.create_task(followed.sources.run())
    try:
        yield followed
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def report_file(tmp_path: Path) -> str:
    (tmp_path / "report").write_text(SPREAD)
    return str(tmp_path / "report")


def problem_of(sources: GpuSources) -> str | None:
    return sources.sources()[0].problem


async def lines_of(path: Path, count: int) -> list[str]:
    """What commands wrote into a file, once there are so many lines."""

    def written() -> list[str] | None:
        lines = path.read_text().splitlines() if path.exists() else []
        return lines if len(lines) >= count else None

    return await asyncio.to_thread(retry_until, written, timeout_s=20)


def identity(pid: int) -> ProcessId:
    found = read_process_id(pid)
    assert found is not None
    assert is_alive(found)
    return found


async def test_a_command_that_prints_one_report_is_run_again(
    report_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_hosts, "REPEAT_S", 0.1)
    runs = tmp_path / "runs"
    before = time.time()
    async with running(["sh", "-c", f"echo once >> {runs}; cat {report_file}"]) as followed:
        await followed.until(lambda _: runs.exists() and len(runs.read_text().split()) >= 3)
        [device] = followed.sources.devices()
        assert (device.host, device.uuid, device.problem) == ("node-0", "GPU-1", None)
        [source] = followed.sources.sources()
        assert (source.name, source.problem) == ("node-0", None)
        assert before <= (source.sampled_at or 0.0) <= time.time()


async def test_devices_of_all_sources_in_the_order_of_the_layout(report_file: str) -> None:
    slow = ["sh", "-c", f"sleep 0.3; cat {report_file}"]
    async with running(slow, ["cat", report_file]) as followed:
        await followed.until(lambda sources: len(sources.devices()) == 2)
        assert [device.host for device in followed.sources.devices()] == ["node-0", "node-1"]


async def test_one_that_dies_says_why_and_is_started_again(
    report_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_hosts, "FIRST_PAUSE_S", 0.5)
    words = "ssh: connect to host node-2 port 22: Connection refused"
    async with running(["sh", "-c", f"cat {report_file}; echo '{words}' >&2; exit 255"]) as followed:
        await followed.until(lambda sources: problem_of(sources) == f"exited 255: {words}")
        [device] = followed.sources.devices()
        assert device.problem == f"exited 255: {words}", "its figures are not those of now"
        await followed.until(lambda sources: problem_of(sources) is None)
        assert followed.sources.devices()[0].problem is None


@pytest.mark.slow
async def test_pauses_between_failures_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_hosts, "FIRST_PAUSE_S", 0.2)
    monkeypatch.setattr(other_hosts, "LONGEST_PAUSE_S", 0.8)
    starts = tmp_path / "starts"
    async with running(["sh", "-c", f"date +%s.%N >> {starts}; exit 1"]):
        await lines_of(starts, 5)
    at = [float(text) for text in starts.read_text().split()[:5]]
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    for pause, least in zip(pauses, (0.2, 0.4, 0.8, 0.8), strict=True):
        assert pause >= least
    assert pauses[3] < 1.6


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["/no/such/program"], "cannot run /no/such/program: No such file or directory"),
        (["true"], "printed no report"),
        (["echo", "command not found"], "prints no report: command not found"),
        (["echo", '{"available": false, "reason": "no driver"}'], "no driver"),
    ],
)
async def test_trouble_is_told_in_words(command: list[str], problem: str) -> None:
    async with running(command) as followed:
        await followed.until(lambda sources: problem_of(sources) == problem)


async def test_one_that_prints_garbage_for_ever_neither_blocks_nor_breaks() -> None:
    async with running(["yes", "\x1b[2J{ garbage"]) as followed:
        await followed.until(lambda sources: problem_of(sources) == "prints no report: { garbage")
        slowest = 0.0
        for _ in range(50):
            began = time.thread_time()  # what others do meanwhile does not count
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.thread_time() - began)
        assert slowest < 0.5
        assert followed.changes == 1


@pytest.mark.slow
async def test_one_that_falls_silent_looks_stale_and_is_started_again(
    report_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_hosts, "SILENCE_S", 2.5)
    monkeypatch.setattr(other_hosts, "FIRST_PAUSE_S", 0.1)
    pids = tmp_path / "pids"
    async with running(["sh", "-c", f"echo $$ >> {pids}; cat {report_file}; exec sleep 60"]) as followed:
        await followed.until(lambda sources: problem_of(sources) == "no report for more than 1s")
        [device] = followed.sources.devices()
        assert device.problem == "no report for more than 1s"
        await followed.until(lambda sources: problem_of(sources) is None)
    first, second = map(int, pids.read_text().split())
    retry_until(lambda: read_process_id(first) is None and read_process_id(second) is None)


STUBBORN = """\
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
time.sleep(60)
"""


async def test_it_is_ended_at_once_where_there_is_no_time(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    sources = GpuSources(
        [GpuCommand(name="node-2", command=(sys.executable, "-I", "-S", "-c", STUBBORN, str(pids)))],
        lambda: None,
    )
    before = asyncio.all_tasks()
    task = asyncio.create_task(sources.run())
    family = [identity(int(pid)) for pid in await lines_of(pids, 2)]
    task.cancel()
    await asyncio.sleep(0.1)
    for left in asyncio.all_tasks() - before:  # as `asyncio.run` does with what is left
        left.cancel()
    await asyncio.wait([task], timeout=1.0)
    assert task.done()
    await asyncio.to_thread(retry_until, lambda: not any(map(is_alive, family)))


async def test_sources_come_and_go(tmp_path: Path) -> None:
    def source(name: str) -> GpuCommand:
        script = f"echo $$ >> {tmp_path / name}; echo '{REPORT.to_json().decode()}'; exec sleep 60"
        return GpuCommand(name, ("sh", "-c", script))

    def reported(sources: GpuSources) -> list[str]:
        return [device.host or "" for device in sources.devices()]

    followed = Followed([])
    task = asyncio.create_task(followed.sources.run())
    try:
        followed.sources.become([source("a"), source("b")])
        await followed.until(lambda sources: reported(sources) == ["a", "b"])
        (first,) = [identity(int(pid)) for pid in await lines_of(tmp_path / "a", 1)]
        (second,) = [identity(int(pid)) for pid in await lines_of(tmp_path / "b", 1)]

        followed.sources.become([source("b"), source("c")])
        await followed.until(lambda sources: reported(sources) == ["b", "c"])
        await asyncio.to_thread(retry_until, lambda: not is_alive(first))
        assert is_alive(second)
        assert len((tmp_path / "b").read_text().split()) == 1

        changes = followed.changes
        followed.sources.become([source("b"), source("c")])
        assert followed.changes == changes
        followed.sources.become([])
        assert reported(followed.sources) == []
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert not is_alive(second)
