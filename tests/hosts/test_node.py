"""A component on a node: output, end and leftovers are as true as at home, whatever is cut or killed."""

from __future__ import annotations

import ast
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from tests.fakes.nodes import FakeNode
from tests.fakes.remote_attempt import RemoteAttempt
from tests.house.walks import REPOSITORY
from tests.waiting import retry_until

from rltui.hosts.shim.unpack import unpack
from rltui.services import processes
from rltui.services.hosts.nodes import shim_program

COUNT = """\
import sys, time
for number in range(int(sys.argv[1])):
    print("line", number, "x" * 200, flush=True)
    if number % 100 == 0:
        time.sleep(float(sys.argv[2]))
"""
PATIENT = """\
import signal, sys, time
def stop(*_):
    print("asked", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(600)
"""
TOLD = """\
import os, signal, sys, time
def stop(*_):
    print("asked", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
print("x" * 4000, "ready", sep="\\n", flush=True)
while True:
    if os.path.exists(sys.argv[1]):
        print("more", flush=True)
        os.remove(sys.argv[1])
    time.sleep(0.02)
"""
SLOW_WAY = """\
import os, subprocess, sys, time
way = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
while data := os.read(way.stdout.fileno(), 300):
    os.write(1, data)
    time.sleep(0.1)
sys.exit(way.wait())
"""
"""Carries 3 KB/s."""
VERBOSE = "import sys; sys.stdout.write('x' * 300_000); " + PATIENT
PARENT = (
    'import subprocess, time; subprocess.Popen(["sleep", "600"]); print("ready", flush=True); time.sleep(600)'
)


def python(text: str, *arguments: object) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text, *map(str, arguments)]


def counted(lines: int) -> str:
    return "".join(f"line {number} {'x' * 200}\n" for number in range(lines))


class NodeAttempt(RemoteAttempt):
    """An attempt whose component runs on `node`; its context begins with a remote runner and ends all."""

    def __init__(
        self,
        folder: Path,
        node: FakeNode,
        argv: list[str],
        *,
        attempt: int = 1,
        env: dict[str, str] | None = None,
        **host: Any,
    ) -> None:
        super().__init__(folder)
        self.node = node
        described = {
            "kind": "node", "name": "node-2", "reach": node.reach, "address": "", "cwd": "", "env": {},
            "send_env": [], "login": True, "python": sys.executable, "forward": [], "ports": [],
            "wait_s": 5.0,
        }  # fmt: skip
        self.write_spec(argv, {**described, **host}, attempt=attempt, cwd=str(node.home), env=env)

    def __enter__(self) -> NodeAttempt:
        self.follow()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        tag = f"RLTUI_EXPERIMENT=exp@{os.uname().nodename}:{self.folder}".encode()
        records = [record for attempt in self.node.attempts if (record := processes.read_attempt(attempt))]
        shims = [record.shim for record in records if record.shim is not None and record.is_supervised]
        for shim in shims:
            processes.send_signal(shim, signal.SIGUSR1)
        retry_until(lambda: not any(map(processes.is_alive, shims)))
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # ended meanwhile
                if entry.name.isdigit() and tag in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)

    def running(self) -> processes.AttemptRecord:
        """Record of the shim there, once the component runs and its runner knows."""
        retry_until(lambda: self.status.phase == "running")
        return retry_until(lambda: processes.read_attempt(self.node.attempts[-1]))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    fake = FakeNode(tmp_path / "node")
    yield fake
    fake.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "attempt"


def test_it_runs_there_with_that_environment_and_ends_as_it_did(
    node: FakeNode, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node.home / ".profile").write_text("echo welcome; PROFILE=read; export PROFILE\n")
    monkeypatch.setenv("OF_HERE", "sent")
    show = 'echo "$PWD $ON_THE_NODE $PROFILE $OF_HERE $OF_NODE $MINE $RLTUI_COMPONENT"; exit 3'
    sent, own = ["OF_HERE"], {"MINE": "m"}
    with NodeAttempt(folder, node, ["sh", "-c", show], send_env=sent, env=own) as trainer:
        assert trainer.code() == 3
        assert trainer.log == f"{node.home} yes read sent  m trainer\n"
        status = trainer.status
        assert (status.where, status.phase, status.starts, status.exit_code) == ("node-2", "ended", 1, 3)
        assert status.id
        retry_until(lambda: not node.attempts)


@pytest.mark.slow
def test_cut_again_and_again_nothing_is_lost_or_doubled(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, python(COUNT, 20_000, 0.01)) as trainer:
        for number in (500, 3_000, 9_000):
            trainer.wait_for_output(f"line {number} ")
            node.cut()
        assert trainer.code() == 0
        assert trainer.log == counted(20_000)
        assert trainer.status.starts == 1


@pytest.mark.slow
def test_a_killed_runner_is_replaced_by_one_that_takes_up_with_it(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, python(COUNT, 3_000, 0.02)) as trainer:
        trainer.wait_for_output("line 500 ")
        trainer.kill()
        main = trainer.running().main
        assert main is not None
        trainer.follow()
        assert trainer.code() == 0
        assert trainer.log == counted(3_000)


def test_a_stop_is_the_layouts_and_a_kill_is_at_once(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, python(PATIENT)) as trainer:
        trainer.wait_for_output("ready")
        trainer.signal(signal.SIGTERM)
        assert trainer.code() == 7
        assert trainer.log == "ready\nasked\n"
    with NodeAttempt(folder.with_name("other"), node, ["sh", "-c", "trap '' TERM; sleep 600"]) as trainer:
        trainer.running()
        trainer.signal(signal.SIGUSR1)
        assert trainer.code() == 128 + signal.SIGKILL
        assert trainer.status.signal == "SIGKILL"


def leave_room(trainer: NodeAttempt, size: int) -> None:
    """Let the process write files of at most so many bytes, as on a full disk."""
    assert trainer.runner is not None
    _, hard = resource.prlimit(trainer.runner.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(trainer.runner.pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.mark.slow
def test_on_a_full_disk_output_waits_and_a_stop_does_not(node: FakeNode, folder: Path) -> None:
    """It slept in the middle of everything until there was room: `rltui down` waited with it."""
    go = folder.with_name("go")
    for is_stopped in (False, True):
        with NodeAttempt(folder.with_name(str(is_stopped)), node, python(TOLD, go)) as trainer:
            trainer.wait_for_output("ready\n")
            before = trainer.log
            leave_room(trainer, len(before))
            go.touch()
            retry_until(lambda: not go.exists(), timeout_s=20)
            if is_stopped:
                trainer.signal(signal.SIGTERM)
                assert trainer.code() == 7
                assert trainer.log == before
            else:
                leave_room(trainer, resource.RLIM_INFINITY)
                trainer.wait_for_output("more\n")
                trainer.signal(signal.SIGTERM)
                assert trainer.code() == 7
                assert trainer.log == before + "more\nasked\n"


@pytest.mark.slow
def test_without_its_shim_it_goes_on_and_is_ended_with_all_that_it_started(
    node: FakeNode, folder: Path
) -> None:
    with NodeAttempt(folder, node, python(PARENT)) as trainer:
        trainer.wait_for_output("ready")
        record = retry_until(
            lambda: running if len((running := trainer.running()).descendants) == 2 else None
        )
        assert record.shim is not None
        processes.send_signal(record.shim, signal.SIGKILL)
        retry_until(lambda: "shim there was killed" in trainer.status.reason)
        assert all(map(processes.is_alive, record.descendants))
        trainer.signal(signal.SIGTERM)
        trainer.code()
        assert trainer.status.error == "its shim there was killed; how it ended is unknown"
        assert not any(map(processes.is_alive, record.descendants))


@pytest.mark.slow
def test_a_shim_that_is_killed_again_and_again_is_replaced_and_a_stop_stays_the_layouts(
    node: FakeNode, folder: Path
) -> None:
    with NodeAttempt(folder, node, python(PATIENT)) as trainer:
        trainer.wait_for_output("ready")
        first = trainer.running()
        shims = [first.shim]
        for _ in range(2):
            assert shims[-1] is not None
            processes.send_signal(shims[-1], signal.SIGKILL)
            record = retry_until(lambda: newest if (newest := trainer.running()).shim not in shims else None)
            assert record.main == first.main
            shims.append(record.shim)
        trainer.signal(signal.SIGTERM)
        assert trainer.code() == 1
        assert trainer.log == "ready\nasked\n"
        assert trainer.status.error == "its shim there was killed; how it ended is unknown"


@pytest.mark.slow
def test_without_its_shim_and_room_for_another_it_is_ended_all_the_same(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, python(PARENT)) as trainer:
        trainer.wait_for_output("ready")
        record = retry_until(
            lambda: running if len((running := trainer.running()).descendants) == 2 else None
        )
        (there,) = node.attempts
        (there / "lock").unlink()
        (there / "lock").mkdir()  # no file can be opened there
        assert record.shim is not None
        processes.send_signal(record.shim, signal.SIGKILL)
        retry_until(lambda: trainer.status.reason == "its shim there was killed")
        trainer.signal(signal.SIGTERM)
        assert trainer.code() == 1
        assert trainer.status.error == "its shim there was killed; how it ended is unknown"
        assert not any(map(processes.is_alive, record.descendants))


@pytest.mark.slow
def test_what_lives_without_shim_and_folder_is_followed_and_ended(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, python(PARENT)) as trainer:
        trainer.wait_for_output("ready")
        record = retry_until(
            lambda: running if len((running := trainer.running()).descendants) == 2 else None
        )
        trainer.kill()
        assert record.shim is not None
        processes.send_signal(record.shim, signal.SIGKILL)
        shutil.rmtree(node.attempts[0])
        trainer.follow()
        retry_until(lambda: trainer.status.reason == "its folder there is gone")
        assert all(map(processes.is_alive, record.descendants))
        trainer.signal(signal.SIGTERM)
        assert trainer.code() == 1
        assert trainer.status.error == "its folder there is gone; how it ended is unknown"
        assert not any(map(processes.is_alive, record.descendants))


@pytest.mark.slow
def test_a_port_that_is_taken_there_is_named_with_its_holder(node: FakeNode, folder: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with NodeAttempt(folder, node, ["true"], ports=[port], wait_s=0.3) as trainer:
            assert trainer.code() == 127
            error = trainer.status.error or ""
        assert f"on node-2: port {port}, in use by pid {os.getpid()} " in error
        assert error.endswith(f"way kill {os.getpid()}")
    with NodeAttempt(folder.with_name("again"), node, ["true"], ports=[port]) as trainer:
        assert trainer.code() == 0


def test_what_cannot_be_run_or_reached_says_why(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, ["no-such-program"]) as trainer:
        assert trainer.code() == 127
        assert trainer.status.error == "cannot run 'no-such-program': No such file or directory"
        assert trainer.status.starts == 0
    with NodeAttempt(folder.with_name("python"), node, ["true"], python="python9") as trainer:
        assert trainer.code() == 127
        assert (trainer.status.error or "").startswith("node-2: cannot run Python there")
    node.close()
    with NodeAttempt(folder.with_name("closed"), node, ["true"], wait_s=0.3) as trainer:
        assert trainer.code() == 127
        assert "way: connect to node: No such file" in (trainer.status.error or "")


@pytest.mark.slow
def test_what_outlived_an_earlier_attempt_is_ended_and_one_that_lives_is_in_the_way(
    node: FakeNode, folder: Path
) -> None:
    with NodeAttempt(folder, node, python(PARENT)) as first:
        first.wait_for_output("ready")
        record = retry_until(lambda: running if len((running := first.running()).descendants) == 2 else None)
        first.kill()
        (folder / "remote.json").unlink()  # as if nobody here knew of it
        second = NodeAttempt(folder, node, ["true"], attempt=2)
        second.follow()
        assert second.code() == 127
        assert record.shim is not None
        assert f"an unknown attempt (1) is running there; to end it: {first.node.reach[0]}" in (
            second.status.error or ""
        )
        processes.send_signal(record.shim, signal.SIGKILL)
        (folder / "remote.json").unlink()
        second.follow()
        assert second.code() == 0
        assert not any(map(processes.is_alive, record.descendants))


@pytest.mark.slow
def test_a_node_that_was_started_anew_took_it_along_and_another_one_knows_nothing(
    node: FakeNode, folder: Path
) -> None:
    with NodeAttempt(folder, node, ["sh", "-c", "echo once; sleep 600"]) as trainer:
        record = trainer.running()
        trainer.wait_for_output("once")
        trainer.kill()
        (there,) = node.attempts
        started = json.loads((there / "node.json").read_text())
        (there / "node.json").write_text(json.dumps({**started, "host": "node-7"}))
        trainer.follow()
        retry_until(lambda: "it was started on node-7, and this is " in trainer.status.problem)
        assert trainer.status.may_live
        trainer.kill()
        for process in (record.shim, record.main):
            assert process is not None
            processes.send_signal(process, signal.SIGKILL)
        retry_until(lambda: record.main is not None and not processes.is_alive(record.main))
        (there / "node.json").write_text(json.dumps({**started, "oom_kills": 0}))
        values = json.loads((there / "attempt.json").read_text())
        (there / "attempt.json").write_text(json.dumps({**values, "boot": "another"}))
        trainer.follow()
        assert trainer.code() == 1
        assert trainer.status.error == "the node was rebooted"
        assert trainer.log == "once\n"


@pytest.mark.slow
def test_a_kill_for_want_of_memory_there_is_told(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, ["sh", "-c", "sleep 600"]) as trainer:
        record = trainer.running()
        trainer.kill()
        (there,) = node.attempts
        started = json.loads((there / "node.json").read_text())
        (there / "node.json").write_text(json.dumps({**started, "oom_kills": -1}))  # as if it had risen since
        assert record.main is not None
        processes.send_signal(record.main, signal.SIGKILL)
        trainer.follow()
        assert trainer.code() == 128 + signal.SIGKILL
        assert trainer.status.error == "killed by the kernel: out of memory (node or job)"


@pytest.mark.slow
def test_a_folder_that_was_removed_there_is_no_second_start(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, ["sh", "-c", "echo once; sleep 600"]) as trainer:
        record = trainer.running()
        trainer.wait_for_output("once")
        trainer.kill()
        assert record.shim is not None
        processes.send_signal(record.shim, signal.SIGUSR1)
        retry_until(lambda: record.shim is not None and not processes.is_alive(record.shim))
        shutil.rmtree(node.attempts[0])
        trainer.follow()
        assert trainer.code() == 1
        assert trainer.status.error == "its folder there is gone; how it ended is unknown"
        assert trainer.log == "once\n"


SENT = [
    *(REPOSITORY / "tui/rltui/supervisor/shim").glob("*.py"),
    REPOSITORY / "tui/rltui/services/hosts/nodes/gpu_report.py",
]
OLD = [
    *Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"),
    *map(Path, filter(None, [which("python3.9")])),
]


@pytest.mark.parametrize("path", SENT, ids=lambda path: path.stem)
def test_what_is_sent_to_a_node_is_of_python_3_9(path: Path) -> None:
    text = path.read_text()
    ast.parse(text, feature_version=(3, 9))
    newer = {
        "tcgetwinsize",
        "tcsetwinsize",
        "pairwise",
        "match",
        "bit_count",
        "walk_up",
        "batched",
        "timeout_at",
    }
    named = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert not named & newer
    assert "from __future__ import annotations" in text or "|" not in text


@pytest.mark.skipif(not OLD, reason="needs a Python 3.9")
def test_a_node_with_python_3_9_will_do(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, python(COUNT, 200, 0), python=str(OLD[0])) as trainer:
        assert trainer.code() == 0
        assert trainer.log == counted(200)


def test_each_folder_of_what_a_node_gets_is_a_package(tmp_path: Path) -> None:
    program = shim_program("import rltui.hosts.shim.agent\nprint(rltui.__file__, rltui.hosts.__file__)")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-I", "-"]
    printed = subprocess.run(
        command, input=program, env=environment, capture_output=True, text=True, check=True
    )
    (root,) = (tmp_path / "rltui").iterdir()
    assert printed.stdout.split() == [f"{root}/rltui/{name}" for name in ("__init__.py", "hosts/__init__.py")]
    assert {path.name for path in (root / "rltui").iterdir() if path.name != "__pycache__"} == {
        "__init__.py",
        "hosts",
    }


def test_what_old_versions_left_goes_as_a_new_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, age_s in (("shim-old", 8 * 86400), ("shim-recent", 60)):
        (tmp_path / "rltui" / name).mkdir(parents=True)
        os.utime(tmp_path / "rltui" / name, (time.time() - age_s,) * 2)
    root = unpack({"rltui/a.py": "a = 1\n"}, "new")
    assert (Path(root) / "rltui/a.py").read_text() == "a = 1\n"
    assert sorted(path.name for path in (tmp_path / "rltui").iterdir()) == ["shim-new", "shim-recent"]


@pytest.mark.slow
def test_a_stop_that_reaches_nobody_says_so_and_a_later_one_is_passed_on(
    node: FakeNode, folder: Path
) -> None:
    with NodeAttempt(folder, node, python(PATIENT)) as trainer:
        trainer.wait_for_output("ready")
        node.close()
        retry_until(lambda: trainer.status.lost_at is not None)
        trainer.signal(signal.SIGTERM)
        assert trainer.code(60) == 255
        assert trainer.status.may_live
        node.open()
        trainer.follow()
        retry_until(lambda: trainer.status.lost_at is None)
        trainer.signal(signal.SIGTERM)
        assert trainer.code() == 7


@pytest.mark.slow
def test_a_frozen_way_is_left_and_another_taken(node: FakeNode, folder: Path) -> None:
    with NodeAttempt(folder, node, python(COUNT, 6_000, 1.0)) as trainer:
        trainer.wait_for_output("line 500 ")
        assert trainer.runner is not None
        way = next(pid for pid in _children(trainer.runner.pid))
        os.kill(way, signal.SIGSTOP)
        retry_until(lambda: "silent for" in trainer.status.problem, timeout_s=40)
        assert trainer.code(120) == 0
        assert trainer.log == counted(6_000)


@pytest.mark.slow
def test_a_slow_way_carries_a_stop_beside_the_output(node: FakeNode, folder: Path) -> None:
    reach = python(SLOW_WAY, *node.reach)
    with NodeAttempt(folder, node, python(VERBOSE), reach=reach) as trainer:
        trainer.wait_for_output("xxx")
        time.sleep(25.0)  # longer than any silence may be
        assert trainer.status.lost_at is None
        trainer.signal(signal.SIGTERM)
        (there,) = node.attempts
        retry_until(lambda: (there / "output.log").read_text().endswith("asked\n"), timeout_s=8)
        retry_until(lambda: trainer.status.reason.startswith("it ended"), timeout_s=8)
        trainer.kill()
        trainer.node.cut()


def _children(pid: int) -> list[int]:
    result = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(pid_text) for pid_text in result.stdout.split()]
