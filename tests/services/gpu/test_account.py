"""Owners of GPU memory, with real processes on devices that are made up."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.shim_harness import attempt, program
from tests.services.gpu.reports import GIB, NOW, component, device, holds, report, shares
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.core.experiment.api import Orphan
from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport
from rltui.services.experiment.files import ControlFolder
from rltui.services.gpu.account import GpuOwners, LivingComponent
from rltui.services.processes import ProcessId, descendants, send_signal
from rltui.services.processes.identity import ProcessStat
from rltui.services.processes.origin import REFRESH_S, ProcessTable

__all__ = ["start"]  # a fixture, used by name

TITLE = Path(__file__).parents[2] / "fakes/programs/title.py"
NOBODY = 2**22 + 1
"""No process has such a pid."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def tree() -> Iterator[tuple[int, int]]:
    """A shell and its child, which has become ``sleep``: pids of both."""
    shell = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], stdin=subprocess.DEVNULL)
    [child] = retry_until(lambda: [each for each in descendants(shell.pid) if name_of(each.pid) == "sleep"])
    yield shell.pid, child.pid
    send_signal(child, signal.SIGKILL)
    shell.kill()
    shell.wait()


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def owner(found: GpuProcess) -> tuple[str, str | None, str | None, int | None]:
    return found.owner, found.experiment, found.component, found.attempt


def test_process_of_a_component_is_told_with_all_that_is_known(tree: tuple[int, int]) -> None:
    root, child = tree
    owners = GpuOwners("mine", pids_are_real=True)
    living = [component("trainer", root, attempt=7)]
    given = report(device(holds(child, 30)), device(holds(child, 1), index=1, used_gib=3))
    first, second = owners.with_owners(given, living, []).devices
    [found] = first.processes
    assert owner(found) == ("component", "mine", "trainer", 7)
    assert (found.name, found.command, found.user) == (
        "sleep",
        "sleep 1000",
        pwd.getpwuid(os.getuid()).pw_name,
    )
    assert (found.used_bytes, found.estimated) == (30 * GIB, False)
    assert found.start == next(process.start for process in descendants(root))
    assert shares(first) == [("component", "trainer", 30, False), ("hidden", None, 10, False)]
    assert shares(second) == [("component", "trainer", 1, False), ("hidden", None, 2, False)]


def test_orphans_are_known_by_pid_and_start_with_their_children(start: Start, tree: tuple[int, int]) -> None:
    root, child = tree
    identity = next(process for process in descendants(os.getpid()) if process.pid == root)
    orphan = Orphan(pid=root, start=identity.start, component="inference", attempt=2)
    reused = Orphan(pid=root, start=identity.start - 1, component="inference", attempt=2)
    owners = GpuOwners("mine", pids_are_real=True)
    given = report(device(holds(root, 3), holds(child, 4)))
    [found] = owners.with_owners(given, [], [orphan]).devices
    assert {owner(process) for process in found.processes} == {("orphan", "mine", "inference", 2)}
    assert shares(found) == [("orphan", "inference", 7, False), ("hidden", None, 33, False)]
    [found] = owners.with_owners(given, [], [reused]).devices
    assert {process.owner for process in found.processes} == {"mine"}


def test_owners_are_looked_up_again_when_lists_or_components_are_others(tree: tuple[int, int]) -> None:
    root, child = tree
    owners = GpuOwners("mine", pids_are_real=True)
    given = report(device(holds(child, 3)))

    def owner_of(given: GpuReport, *living: LivingComponent) -> str:
        return owners.with_owners(given, living, []).devices[0].processes[0].owner

    assert owner_of(given) == "mine"
    assert owner_of(given, component("trainer", root)) == "component"
    assert owner_of(given) == "mine"
    [identity] = [process for process in descendants(root) if process.pid == child]
    send_signal(identity, signal.SIGKILL)
    retry_until(lambda: not Path(f"/proc/{child}").exists())
    assert owner_of(given) == "mine", "as listed before it ended"
    assert owner_of(report(device(holds(child, 3)))) == "unknown"


def test_components_of_other_experiments_are_named(tmp_path: Path) -> None:
    """vLLM's engine, which has wiped its own tags, under a shim of another experiment."""
    folder = ControlFolder(tmp_path).attempt_dir("inference", 3)
    argv = program("family.py", folder / "pids", "wait", "titled")
    spec = {"experiment": f"other@{tmp_path}", "component": "inference", "attempt": 3}
    with attempt(folder, argv, **spec) as run:
        run.start()
        pid = run.pids()["titled"]
        given = report(device(holds(pid, 30)))
        seen_by = {
            name: GpuOwners(name, pids_are_real=True).with_owners(given, [], []).devices[0].processes[0]
            for name in ("mine", "other", None)
        }
    assert owner(seen_by["mine"]) == owner(seen_by[None]) == ("experiment", "other", "inference", 3)
    assert owner(seen_by["other"]) == ("component", "other", "inference", 3)
    assert seen_by["mine"].name == "VLLM::EngineCore"


def test_other_processes_are_mine_another_users_or_unknown(start: Start) -> None:
    mine = start("sleep", "1000")
    if os.getuid() == 0:
        stranger, login = start("sleep", "1000", user="nobody").pid, "nobody"
    else:
        stranger, login = 1, "root"
    given = report(device(holds(mine.pid, 1), holds(stranger, 2), holds(NOBODY, 3)))
    [found] = GpuOwners(None, pids_are_real=True).with_owners(given, [], []).devices
    assert [owner(process) for process in found.processes] == [
        ("mine", None, None, None),
        ("other", None, None, None),
        ("unknown", None, None, None),
    ]
    assert [process.user for process in found.processes][1:] == [login, None]
    assert found.processes[2] == holds(NOBODY, 3)


def test_a_title_is_read_again_after_some_seconds(start: Start, tmp_path: Path) -> None:
    """And the tags that it wiped are remembered."""
    code = (
        "import runpy, signal, sys; title = runpy.run_path(sys.argv[1]);"
        "signal.signal(signal.SIGUSR1, lambda *_: title['wear_title'](b'VLLM::EngineCore'));"
        "open(sys.argv[2], 'w').close();"
        "[signal.pause() for _ in range(9)]"
    )
    tags = {"RLTUI_EXPERIMENT": f"other@{tmp_path}", "RLTUI_COMPONENT": "trainer", "RLTUI_ATTEMPT": "4"}
    process = start(sys.executable, "-I", "-c", code, str(TITLE), str(tmp_path / "ready"), env=tags)
    retry_until((tmp_path / "ready").exists)
    clock = Clock()
    owners = GpuOwners(None, pids_are_real=True, monotonic=clock)

    def poll() -> GpuProcess:
        given = report(device(holds(process.pid, 1)))
        return owners.with_owners(given, [], []).devices[0].processes[0]

    before = poll()
    assert owner(before) == ("orphan", "other", "trainer", 4)
    os.kill(process.pid, signal.SIGUSR1)
    retry_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"VLLM"))
    clock.now += REFRESH_S - 0.1
    assert poll() == before
    clock.now += 0.2
    after = poll()
    assert after.name == "VLLM::EngineCore"
    assert owner(after) == owner(before)


def test_processes_of_other_hosts_are_left_alone(start: Start) -> None:
    mine = start("sleep", "1000")
    given = report(device(holds(mine.pid, 30), host="node7"))
    [found] = GpuOwners(None, pids_are_real=True).with_owners(given, [], []).devices
    assert found.processes == (holds(mine.pid, 30),)
    assert shares(found) == [("unknown", None, 30, False), ("hidden", None, 10, False)]


def test_namespace_decides_whether_pids_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [component("trainer", os.getpid())]
    for is_initial, expected in ((True, "unknown"), (False, "component")):
        monkeypatch.setattr(
            "rltui.services.processes.in_initial_pid_namespace", lambda is_it=is_initial: is_it
        )
        [found] = GpuOwners("mine").with_owners(report(device(holds(NOBODY, 30))), roots, []).devices
        assert [process.owner for process in found.processes] == [expected]


def test_a_process_that_takes_over_a_pid_is_another_one(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts belong to pid and start; here, the same process comes to have another start."""
    process = start("sleep", "1000")
    table = ProcessTable(monotonic=Clock())
    first = table.facts(process.pid)
    assert first is not None
    table.refresh()
    assert table.facts(process.pid) is first
    later = ProcessStat(ProcessId(process.pid, process.start + 1), "S", os.getpid(), os.getpid())
    monkeypatch.setattr(
        "rltui.services.processes.origin.read_stat", lambda pid: later if pid == process.pid else None
    )
    assert table.facts(process.pid) is first  # in the same look, nobody changes
    table.refresh()
    second = table.facts(process.pid)
    assert second is not None
    assert second.start == process.start + 1


def watcher(*, pids_are_real: bool = False) -> GpuOwners:
    return GpuOwners("mine", pids_are_real=pids_are_real, clock=lambda: NOW)


def poll(owners: GpuOwners, used_gib: int, *living: LivingComponent) -> GpuDevice:
    """At one device, with a pid of the host."""
    return owners.with_owners(report(device(holds(NOBODY, 20), used_gib=used_gib)), living, []).devices[0]


def test_components_hold_what_came_with_them(start: Start) -> None:
    engine = component(
        "inference", start("sleep", "1000").pid, started_at=NOW + 5, utilization=0.5, attempt=2
    )
    trainer = component("trainer", start("sleep", "1001").pid, started_at=NOW + 9, is_starting=True)
    owners = watcher()
    before = poll(owners, 3)
    assert [process.owner for process in before.processes] == ["unknown"]
    poll(owners, 43, engine)
    found = poll(owners, 55, engine, trainer)
    assert [(process.pid, process.used_bytes) for process in found.processes] == [
        (engine.root_pids[0], 40 * GIB),
        (trainer.root_pids[0], 12 * GIB),
    ]
    first = found.processes[0]
    assert (first.owner, first.experiment, first.component, first.attempt) == (
        "component",
        "mine",
        "inference",
        2,
    )
    assert (first.command, first.estimated) == ("sleep 1000", True)
    assert shares(found) == [
        ("component", "inference", 40, True),
        ("component", "trainer", 12, True),
        ("hidden", None, 3, False),
    ]


def test_components_from_before_are_seeded(start: Start) -> None:
    engine = component("inference", start("sleep", "1000").pid, started_at=NOW - 50, utilization=0.5)
    trainer = component("trainer", start("sleep", "1001").pid, started_at=NOW - 50)
    assert shares(poll(watcher(), 60, engine, trainer)) == [
        ("component", "inference", 40, True),
        ("component", "trainer", 20, True),
    ]


def test_pids_that_turn_out_to_be_real_are_used(start: Start) -> None:
    process = start("sleep", "1000")
    given = report(device(holds(process.pid, 30), holds(NOBODY, 5)))
    [found] = watcher().with_owners(given, [component("trainer", process.pid)], []).devices
    assert [(one.pid, one.owner, one.estimated) for one in found.processes] == [
        (process.pid, "component", False),
        (NOBODY, "unknown", False),
    ]


def test_devices_that_were_given_to_nobody_keep_what_is_listed(start: Start) -> None:
    """Also a pid that means somebody else here."""
    process = start("sleep", "1000")
    stranger = start("sleep", "1001")
    given = report(device(used_gib=10), device(holds(stranger.pid, 5), index=1, used_gib=10))
    trainer = component("trainer", process.pid, gpus="0")
    first, second = watcher().with_owners(given, [trainer], []).devices
    assert [one.component for one in first.processes] == ["trainer"]
    assert second.processes == (holds(stranger.pid, 5),)
    assert shares(second) == [("unknown", None, 5, False), ("hidden", None, 5, False)]


def test_a_component_without_processes_or_devices_holds_nothing(start: Start) -> None:
    not_yet = component("trainer")
    cpu_only = component("orchestrator", start("sleep", "1000").pid, gpus="")
    found = poll(watcher(), 60, not_yet, cpu_only)
    assert found.processes == (holds(NOBODY, 20),)


def test_sizes_that_are_not_told_are_estimated_where_two_could_have_them(start: Start) -> None:
    first, second, third = (start("sleep", "1000").pid for _ in range(3))
    engine = component("inference", first, started_at=NOW + 5)
    trainer = component("trainer", second, third, started_at=NOW + 9)
    owners = watcher(pids_are_real=True)
    listed = [holds(first, None), holds(second, None), holds(third, None)]
    for used_gib, living, processes in ((3, [], []), (43, [engine], listed[:1])):
        owners.with_owners(report(device(*processes, used_gib=used_gib)), living, [])
    [found] = owners.with_owners(report(device(*listed, used_gib=55)), [engine, trainer], []).devices
    assert [(one.pid, one.used_bytes, one.estimated) for one in found.processes] == [
        (first, 40 * GIB, True),
        (second, 12 * GIB, True),
        (third, 0, True),
    ]
    assert shares(found)[-1] == ("hidden", None, 3, False)


def test_one_unknown_component_has_the_rest(start: Start) -> None:
    process = start("sleep", "1000")
    given = report(device(holds(process.pid, None), holds(os.getpid(), 5)))
    [found] = watcher(pids_are_real=True).with_owners(given, [component("trainer", process.pid)], []).devices
    assert found.processes[0].used_bytes is None
    assert shares(found) == [("component", "trainer", 35, True), ("mine", None, 5, False)]


def test_device_without_figures_is_no_news(start: Start) -> None:
    trainer = component("trainer", start("sleep", "1000").pid)
    owners = watcher()
    poll(owners, 3)
    poll(owners, 10, trainer)
    lost = report(device(used_gib=None))
    [found] = owners.with_owners(lost, [trainer], []).devices
    assert [(one.component, one.used_bytes) for one in found.processes] == [("trainer", None)]
    assert shares(poll(owners, 11, trainer))[0] == ("component", "trainer", 8, True)
