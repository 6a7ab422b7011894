"""GPUs of other machines: real commands that report, die, print garbage, fall silent."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import retry_until

from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.core.layout import GpuSourceSpec
from rltui.services.gpu import other_hosts
from rltui.services.gpu.other_hosts import GpuSources
from rltui.services.processes import ProcessId, is_alive, read_process_id

REPORT = GpuReport(
    available=True, devices=(GpuDevice(index=0, uuid="GPU-1", name="NVIDIA H200"),), interval_s=0.5
)
SPREAD = REPORT.model_dump_json(indent=1) + "\n"


class Followed:
    """Sources that run, and how often they said that something changed."""

    def __init__(self, specs: list[GpuSourceSpec]) -> None:
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
        GpuSourceSpec(name=f"node-{number}", command=tuple(command))
        for number, command in enumerate(commands)
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


def endless(line: str) -> list[str]:
    """Prints a line again and again."""
    code = f"import sys, time\nwhile True:\n    print({line!r}, flush=True)\n    time.sleep(0.05)"
    return [sys.executable, "-I", "-S", "-c", code]


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


async def test_a_command_that_goes_on_is_read_on() -> None:
    async with running(endless(REPORT.model_dump_json())) as followed:
        await followed.until(lambda _: followed.changes >= 3)
        assert followed.sources.sources()[0].problem is None


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
        (["sh", "-c", "kill -9 $$"], "was killed by SIGKILL"),
        (["sh", "-c", "kill -40 $$"], "was killed by signal 40"),
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
            began = time.monotonic()
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < 0.5
        assert followed.changes == 1


async def test_one_that_falls_silent_looks_stale_and_is_started_again(
    report_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_hosts, "SILENCE_S", 2.5)
    monkeypatch.setattr(other_hosts, "FIRST_PAUSE_S", 0.1)
    pids = tmp_path / "pids"
    async with running(["sh", "-c", f"echo $$ >> {pids}; cat {report_file}; exec sleep 60"]) as followed:
        await followed.until(lambda sources: problem_of(sources) == "has said nothing for more than 1s")
        [device] = followed.sources.devices()
        assert device.problem == "has said nothing for more than 1s"
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


async def test_nothing_of_a_command_outlives_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with running([sys.executable, "-I", "-S", "-c", STUBBORN, str(pids)]):
        family = [identity(int(pid)) for pid in await lines_of(pids, 2)]
    assert not any(map(is_alive, family))


async def test_it_is_ended_at_once_where_there_is_no_time(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    sources = GpuSources(
        [GpuSourceSpec(name="node-2", command=(sys.executable, "-I", "-S", "-c", STUBBORN, str(pids)))],
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


async def test_a_source_gets_no_terminal_no_input_and_no_trace_of_tmux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/private,1,0")
    told = tmp_path / "told"
    script = f'cat; echo "tmux=$TMUX input=$(readlink /proc/self/fd/0) sid=$(ps -o sid= -p $$)=$$" > {told}'
    async with running(["sh", "-c", script]) as followed:
        await followed.until(lambda sources: problem_of(sources) == "printed no report")
    tmux, stdin, session = told.read_text().split(" ", 2)
    assert (tmux, stdin) == ("tmux=", "input=/dev/null")
    leader, shell = session.removeprefix("sid=").split("=")
    assert int(leader) == int(shell) != os.getsid(0)


async def test_without_sources_there_is_nothing() -> None:
    async with running() as followed:
        assert (followed.sources.devices(), followed.sources.sources()) == ((), ())
