"""The queue as a person has it: real experiments whose starts are counted, a supervisor that is killed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import with_gpus
from tests.engine import write_example
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

LAYOUT = """\
framework = "generic"
title = "Job"

[[component]]
id = "trainer"
command = ["/bin/sh", "-c", "echo $1 >> {workspace}/starts; sleep PAUSE; exit CODE", "job", "{config.run}"]
stop = { grace_s = 2 }
restart = { policy = "never" }
"""
ENDED = {"done", "failed", "stopped", "lost"}


class Queue:
    """The queue's daemon of a box."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.folder = box.root / "state/rltui/queue"

    def write(self, *, pause: str = "0.2", code: int = 0) -> None:
        layout = LAYOUT.replace("PAUSE", pause).replace("CODE", str(code))
        (self.box.work / "job.toml").write_text(layout)
        (self.box.work / "run.toml").write_text("# how it begins\nseed = 0\nlr = 1.0\n")

    def ask(self, *arguments: str) -> str:
        result = self.box.run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        document = json.loads((self.folder / "queue.json").read_text())
        return {entry["name"]: {"state": "queued", **entry} for entry in document["entries"]}

    @property
    def states(self) -> dict[str, str]:
        return {name: entry["state"] for name, entry in self.entries.items()}

    def wait(self, *, timeout_s: float = 60.0) -> None:
        """Wait until all entries have ended."""
        retry_until(lambda: set(self.states.values()) <= ENDED, timeout_s=timeout_s)

    def starts(self) -> Counter[str]:
        """Number of starts by experiment."""
        file = self.box.work / "starts"
        lines = file.read_text().splitlines() if file.exists() else []
        return Counter(re.sub(r"/\.rltui/.*", "", line).rpartition("/")[2] for line in lines)

    def supervisors(self) -> list[int]:
        """Pids of those that live, of all that there ever were."""
        log = self.folder / "scheduler.log"
        pids = re.findall(r"scheduler started, pid (\d+)", log.read_text()) if log.exists() else []
        return [int(pid) for pid in pids if _is_of_queue(int(pid))]

    def starting(self) -> list[int]:
        """Pids of the programs that start an entry of this queue."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if b"start-entry" in _command_line(pid) and self._is_here(pid)]

    def _is_here(self, pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/cwd").resolve() == self.folder
        except OSError:
            return False

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Returns how many there were."""
        pids = self.supervisors()
        for pid in pids:
            os.kill(pid, number)
        return len(pids)


def _command_line(pid: int) -> list[bytes]:
    """Command line of the process; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _is_of_queue(pid: int) -> bool:
    return b"rltui.scheduler" in _command_line(pid)


@pytest.fixture
def queue(box: Box) -> Iterator[Queue]:
    daemon = Queue(box)
    daemon.write()
    yield daemon
    daemon.ask("queue", "pause")
    retry_until(lambda: not set(daemon.states.values()) & {"starting", "stopping"}, timeout_s=60.0)
    daemon.kill(signal.SIGTERM)
    retry_until(lambda: not daemon.supervisors())


@pytest.mark.slow
def test_a_run_is_started_once_though_its_supervisor_is_killed_meanwhile(queue: Queue) -> None:
    queue.ask("queue", "add", "run.toml", "-l", "job.toml", "-n", "a", "--", "--lr", "2.0")
    retry_until(lambda: queue.states["a"] == "starting" and queue.kill() == 1)
    assert queue.ask("queue").count("starting") == 1
    queue.wait()
    assert queue.states == {"a": "done"}
    assert queue.starts() == {"run": 1}
    run_config = queue.box.work / "outputs/run/.rltui/config/run.toml"
    assert run_config.read_text() == "# how it begins\nseed = 0\nlr = 2.0\n"
    sheet = json.loads((run_config.parents[1] / "run.json").read_text())
    assert sheet["entry"] == queue.entries["a"]["id"]
    retry_until(lambda: not queue.supervisors())
    assert "a" not in [
        entry["experiment"]
        for entry in queue.box.json("status", "--all")["runs"]
        if entry["state"] == "running"
    ]


def test_what_check_refuses_is_never_queued(box: Box) -> None:
    """The whole of a sweep, before any of it: each combination, not each value alone."""
    write_example(box.work, port=8000, steps=3)
    bad = ("orchestrator.batch_size=128,96", "orchestrator.rollouts_per_example=16,32,64")
    for arguments in (("sweep", "rl.toml", *bad), ("sweep", "rl.toml", *bad, "--plan")):
        result = box.run(*arguments)
        assert result.returncode == 3, result
        assert result.stdout == ""
        assert "1 of 6 runs break a rule" in result.stderr
        assert "batch_size=96 orchestrator.rollouts_per_example=64: " in result.stderr
    alone = box.run("queue", "add", "rl.toml", "--", "--orchestrator.batch_size=100")
    assert (alone.returncode, "rollouts_per_example" in alone.stderr) == (3, True), alone
    (planned,) = box.json("queue", "add", "rl.toml", "-n", "good", "--plan")["runs"]
    assert planned == {"name": "good", "what": str(box.work / "outputs/reverse-text")}
    assert not (box.root / "state/rltui/queue/queue.json").exists()
    assert box.run("sweep", "rl.toml", *bad[:1], "--plan").returncode == 0
    (box.work / "sft.toml").unlink()  # `up` refuses it, and the queue only starts what `up` starts
    without = box.run("queue", "add", "rl.toml", "-n", "without")
    assert (without.returncode, "no sft.toml" in without.stderr) == (3, True), without


@pytest.mark.slow
def test_a_failed_member_is_tried_again_with_another_value(queue: Queue) -> None:
    queue.write(code=3)
    queue.ask("sweep", "run.toml", "-l", "job.toml", "lr=1,2", "seed=0")
    queue.wait()
    assert set(queue.states.values()) == {"failed"}
    first, second = queue.entries
    queue.write()
    wrong = queue.box.run("queue", "retry", first, "--set", "nosuch=1")
    assert (wrong.returncode, queue.states[first]) == (3, "failed"), wrong.stderr
    assert queue.ask("queue", "retry", first, "--set", "lr=3.5").startswith("queued again")
    queue.wait()
    assert queue.states == {first: "done", second: "failed"}
    assert queue.entries[first]["told"] == "lr=3.5 seed=0"
    run_config = next(Path(queue.entries[first]["folder"]).glob(".rltui/config/*.toml"))
    assert run_config.read_text() == "# how it begins\nseed = 0\nlr = 3.5\n"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(2))
def test_each_run_of_a_sweep_is_started_once_under_a_storm_of_kills(queue: Queue, seed: int) -> None:
    random.seed(seed)
    queue.ask("sweep", "run.toml", "-l", "job.toml", "seed=0..5", "--max-parallel", "3")
    kills, until = 0, time.monotonic() + 150
    while not set(queue.states.values()) <= ENDED and time.monotonic() < until:
        queue.ask("queue")
        time.sleep(random.uniform(0.1, 2.5))
        kills += queue.kill()
    queue.ask("queue")
    queue.wait(timeout_s=120.0)
    assert set(queue.states.values()) == {"done"}
    assert queue.starts() == {f"run-seed{number}": 1 for number in range(6)}
    assert kills > 3


@pytest.mark.slow
def test_the_program_that_starts_a_run_is_killed_and_it_is_started_once_all_the_same(queue: Queue) -> None:
    random.seed(7)
    queue.ask("sweep", "run.toml", "-l", "job.toml", "seed=0..3", "--max-parallel", "2", "--retries", "3")
    kills, until = 0, time.monotonic() + 25
    while time.monotonic() < until and not set(queue.states.values()) <= ENDED:
        time.sleep(random.uniform(0.0, 1.5))
        for pid in queue.starting() if kills < 4 else []:
            os.kill(pid, signal.SIGKILL)
            kills += 1
    queue.wait(timeout_s=90.0)
    assert set(queue.states.values()) == {"done"}, queue.entries
    assert queue.starts() == {f"run-seed{number}": 1 for number in range(4)}
    assert kills


@pytest.mark.slow
def test_a_run_that_fails_is_tried_again_and_one_that_is_taken_down_is_not(queue: Queue) -> None:
    queue.write(code=3)
    queue.ask("queue", "add", "run.toml", "-l", "job.toml", "-n", "bad", "--retries", "1")
    queue.wait()
    assert queue.states == {"bad": "failed"}
    assert queue.entries["bad"]["failures"] == 2
    assert "exited 3" in queue.entries["bad"]["why"]
    assert queue.starts() == {"run": 2}
    queue.write(pause="60")
    queue.ask("queue", "add", "run.toml", "-l", "job.toml", "-n", "long", "--retries", "5")
    queue.ask("queue", "add", "run.toml", "-l", "job.toml", "-n", "next")
    retry_until(
        lambda: queue.states["long"] == "running" and "long is running" in queue.entries["next"]["why"],
        timeout_s=60.0,
    )
    assert queue.box.run("queue", "cancel", "long").returncode == 4
    queue.ask("queue", "cancel", "next")
    queue.ask("down", "long")
    queue.wait()
    assert queue.states["long"] == "stopped"
    assert queue.entries["long"]["why"].startswith("shut down by ")


@pytest.mark.slow
def test_after_a_reboot_nothing_starts_until_somebody_says_so(queue: Queue) -> None:
    queue.ask("queue", "pause")
    queue.ask("queue", "add", "run.toml", "-l", "job.toml", "-n", "a")
    file = queue.folder / "queue.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "boot": "before", "paused": ""}))
    assert "the machine was restarted" in queue.ask("queue")
    assert not queue.supervisors()
    queue.ask("queue", "resume")
    queue.wait()
    assert queue.starts() == {"run": 1}


@pytest.mark.slow
def test_two_sweeps_at_once_and_a_file_that_is_damaged_while_they_run(queue: Queue) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def sweep(number: int) -> str:
        return queue.ask(
            "sweep", "run.toml", "-l", "job.toml", f"lr={number},{number}5", "--max-parallel", "2"
        )

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(sweep, (1, 2)))
    assert len({re.findall(r"name of the sweep: (\S+);", text)[0] for text in results}) == 2
    retry_until(lambda: "running" in queue.states.values())
    (queue.folder / "queue.json").write_text("{")
    retry_until(lambda: (queue.folder / "queue.json").stat().st_size > 1)
    assert "was damaged" in queue.ask("queue")
    queue.wait()
    assert set(queue.states.values()) == {"done"}
    assert queue.starts() == {f"run-lr{value}": 1 for value in (1, 15, 2, 25)}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sweep_of_the_embedded_engine_two_at_a_time_with_a_rule_that_stops_some(
    queue: Queue, free_port: int
) -> None:
    write_example(queue.box.work, port=free_port, steps=8, sft_steps=40)
    queue.ask(
        "sweep", "rl.toml", "lr=1e-6,3e-4,1e-3", "seed=0..1", "--max-parallel", "2",
        "--stop-if", "reward < 2 at 3", "--retries", "1", "-n", "s",
    )  # fmt: skip
    most = 0

    def has_ended() -> bool:
        nonlocal most
        states = list(queue.states.values())
        most = max(most, sum(state in ("starting", "running", "stopping") for state in states))
        return set(states) <= ENDED

    retry_until(has_ended, timeout_s=540.0)
    assert most == 2
    assert set(queue.states.values()) == {"stopped"}
    for entry in queue.entries.values():
        assert re.fullmatch(r"stopped by the rule 'reward < 2 at 3': reward [\d.]+ at step 3", entry["why"])
    journal = next((queue.box.work / "outputs").glob("s-lr1e-6-seed0/.rltui/journal.jsonl")).read_text()
    assert "stopped by the rule" in journal


@pytest.mark.slow
def test_runs_get_devices_of_their_own_and_wait_for_them(queue: Queue) -> None:
    cards = "".join(f"{n}.name A100\n{n}.uuid GPU-{n}\n{n}.used 0\n" for n in (0, 1))
    scenario = f"driver 580.95.05\ncount 2\n*.total {80 << 30}\n*.reserved 0\n{cards}"
    queue.box = with_gpus(queue.box, scenario)
    queue.write(pause="60")
    for name in ("a", "b", "c"):
        queue.ask("queue", "add", "run.toml", "-l", "job.toml", "-n", name, "--gpus", "1")
    retry_until(lambda: list(queue.states.values()) == ["running", "running", "queued"], timeout_s=60.0)
    assert [entry.get("devices", "") for entry in queue.entries.values()] == ["0", "1", ""]
    retry_until(lambda: "GPU 0 is assigned to a" in queue.entries["c"]["why"])
    record = (queue.box.work / "outputs/b/.rltui/experiment.toml").read_text()
    assert 'devices = "1"' in record
    queue.ask("down", "b")
    retry_until(lambda: queue.states["c"] == "running", timeout_s=60.0)
    assert queue.entries["c"]["devices"] == "1"
    queue.ask("down", "a")
    queue.ask("down", "c")
