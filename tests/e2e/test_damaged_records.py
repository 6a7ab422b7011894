"""Files of rltui itself are emptied, damaged or deleted, and then its supervisor is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.params import slow_but
from tests.waiting import remove_at_once, retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def pids(box: Box) -> dict[str, int]:
    return {item["id"]: item["pid"] for item in box.json("status", "one")["components"]}


@contextmanager
def frozen(box: Box, supervisor: int) -> Iterator[None]:
    """Stopped, and its tmux server before it, which would wake it."""
    tmux = ["tmux", "-L", box.env["RLTUI_TMUX_SOCKET"], "display-message", "-p", "#{pid}"]
    server = int(subprocess.run(tmux, env=box.env, capture_output=True, text=True, check=True).stdout)
    os.kill(server, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)
        os.kill(server, signal.SIGCONT)


def freeze_and_kill(box: Box, harm: Callable[[], None]) -> None:
    """Stop the supervisor, do `harm`, and kill it: so it repairs nothing."""
    supervisor = box.supervisor_pid()
    with frozen(box, supervisor):
        harm()
        os.kill(supervisor, signal.SIGKILL)
    retry_until(lambda: not is_running(supervisor))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def damage(control: Path, content: bytes) -> None:
    """Damage the records of two shims that go on; one of them has repaired its own before the next supervisor
    comes.
    """
    files = [
        *control.glob("components/*/attempt-1/attempt.json"),
        *control.glob("components/*/attempt-1/spec.json"),
        *(control / name for name in ("experiment.toml", "intent.json", "supervisor.socket", "run_id")),
    ]
    for file in files:
        if file.exists():
            file.write_bytes(content)


@pytest.mark.parametrize(
    "content", slow_but({"empty": b"", "half": b'{"half": ', "bytes": b"\xff\xfe\0"}, "empty")
)
def test_damaged_records_and_a_killed_supervisor(counters: Box, content: bytes) -> None:
    """Findings F2 and H21: living components are taken over, none is ended, none started beside them."""
    counters.json(*UP)
    before = pids(counters)
    freeze_and_kill(counters, lambda: damage(counters.work / "out/.rltui", content))
    status = counters.json("status", "one")
    assert {item["id"]: item["pid"] for item in status["components"]} == before
    assert {item["attempt"] for item in status["components"]} == {1}
    assert {item["state"] for item in status["components"]} == {"ready"}
    assert counters.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    assert counters.component("trainer")["attempt"] == 2
    assert counters.run("down").returncode == 0
    assert counters.tagged("one") == []
    assert not any(map(is_running, before.values()))


@pytest.mark.slow
def test_a_component_without_shim_and_record_is_found_by_its_tag(counters: Box) -> None:
    """Finding F2: session and environment are all that is left."""
    counters.json(*UP)
    before = pids(counters)
    records = counters.work / "out/.rltui/components"
    shims = [
        int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in before.values()
    ]

    def harm() -> None:
        for shim in shims:
            os.kill(shim, signal.SIGKILL)
        retry_until(lambda: not any(map(is_running, shims)))
        for file in records.glob("*/*/attempt.json"):
            file.write_bytes(b"")

    freeze_and_kill(counters, harm)
    assert pids(counters) == before
    assert counters.run("down").returncode == 0
    assert not any(map(is_running, before.values()))


@pytest.mark.slow
def test_a_deleted_folder_and_a_killed_supervisor(counters: Box) -> None:
    """Finding F3: the copy on the user's list leads to what still runs."""
    counters.json(*UP)
    before = pids(counters)
    out = counters.work / "out"
    freeze_and_kill(counters, lambda: remove_at_once(out))
    assert [row["experiment"] for row in counters.json("status", "--all")["runs"]] == ["one"]
    assert pids(counters) == before
    assert counters.run("down").returncode == 0
    assert counters.tagged("one") == []
    assert not any(map(is_running, before.values()))
    remove_at_once(out)
    assert counters.json("status", "--all")["runs"] == [], (
        "a deleted folder of which nothing lives is forgotten"
    )


@pytest.mark.slow
def test_one_broken_and_one_stopped_experiment_leave_the_others_alone(counters: Box) -> None:
    """Findings E5 and H18: one experiment in trouble stopped commands that are about all."""
    counters.json(*UP)
    layout = counters.work / "other.toml"
    layout.write_text('framework = "generic"\n[[component]]\nid = "sleeper"\ncommand = ["sleep", "1000"]\n')
    other = ("up", "run.toml", "-l", "other.toml")
    counters.json(*other, "-n", "two", "-o", "two")
    counters.json(*other, "-n", "three", "-o", "three")
    assert counters.run("down", "three").returncode == 0
    (counters.work / "three/.rltui/experiment.toml").write_bytes(b"")
    entry = counters.root / "state/rltui/experiments/three"
    entry.write_text(str(counters.work / "three"))
    supervisor_pid = counters.supervisor_pid("two")
    with frozen(counters, supervisor_pid):
        rows = {row["experiment"]: row for row in counters.json("status", "--all")["runs"]}
        text = counters.run("status")
        mine = counters.run("status", "one")
        status = counters.run("status", "two")
    assert {name: row["state"] for name, row in rows.items()} == {
        "one": "running",
        "two": "stalled",
        "three": "lost",
    }
    assert f"kill -CONT {supervisor_pid}" in rows["two"]["problem"]["hint"]
    damaged = counters.work / "three/.rltui/experiment.toml"
    assert rows["three"]["problem"]["title"].startswith(f"{damaged} is damaged: ")
    assert text.returncode == 0
    assert re.search(r"three +\? lost", text.stdout)
    assert "⚠ three: " in text.stdout
    assert mine.returncode == 0
    assert (status.returncode, status.stdout.count("does not respond")) == (1, 1), "a state as any other"
    assert counters.run("set", "one", "max_steps=21").returncode == 0
    assert counters.run("restart", "one", "-c", "trainer", "--yes", "--wait").returncode == 0
    for name in ("one", "two"):
        assert counters.run("down", name).returncode == 0


@pytest.mark.slow
def test_the_runtime_folder_is_gone_and_the_shell_has_another(counters: Box) -> None:
    """Finding G5: logind removes `/run/user/UID` at logout; cron and `su` have no such variable."""
    with tempfile.TemporaryDirectory(prefix="rlt-") as tmp:
        counters.env["TMPDIR"] = tmp
        counters.json(*UP)
        before = pids(counters)
        run = Path(counters.env["XDG_RUNTIME_DIR"])
        remove_at_once(run)
        run.touch()  # as root, a test could make it anew
        bare = replace(counters, env={k: v for k, v in counters.env.items() if k != "XDG_RUNTIME_DIR"})
        runtime_folder = Path(tmp) / f"rltui-{os.getuid()}"
        retry_until(lambda: list(runtime_folder.glob("one-*.sock")))
        assert pids(bare) == before
        assert pids(counters) == before
        (counters.work / "out/.rltui/supervisor.socket").unlink()
        assert pids(bare) == before
        assert "cannot create the folder" in counters.run("doctor").stdout
        assert bare.run("down").returncode == 0
        journal = (counters.work / "out/.rltui/journal.jsonl").read_text()
        assert journal.count("supervisor started") == 1
        run.unlink()
        run.mkdir(mode=0o700)


def test_another_users_control_folder_is_not_touched(counters: Box) -> None:
    """Finding H15: an output folder in a shared place that holds a `.rltui` with traps."""
    control = counters.work / "out/.rltui"
    control.mkdir(parents=True)
    victim = counters.work / "victim"
    victim.write_text("mine\n")
    (control / "journal.jsonl").symlink_to(victim)
    (control / "supervisor.log").symlink_to(victim)
    control.chmod(0o777)
    refusal = counters.run(*UP)
    assert (refusal.returncode, "Traceback" in refusal.stderr) == (4, False)
    assert "other users may write to it" in refusal.stderr
    assert victim.read_text() == "mine\n"
    assert sorted(path.name for path in control.iterdir()) == ["journal.jsonl", "supervisor.log"]
