"""rltui is updated in place while experiments run: their supervisors have loaded code that is gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

import rltui
from rltui.base.interpreter import module_command

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]


class Installed(Box):
    """A box with an rltui of its own, whose version changes."""

    @classmethod
    def on(cls, box: Box) -> Installed:
        code = box.root / "code"
        package = Path(rltui.__file__).parent
        shutil.copytree(package, code / "tui/rltui", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("layouts", "examples"):
            (code / name).symlink_to(package.parents[1] / name)
        return cls(box.root, {**box.env, "PYTHONPATH": str(code / "tui")})

    def run(
        self, *arguments: str, timeout_s: float = 60.0, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            module_command("rltui", *arguments), cwd=self.work, env=self.env, input=stdin,
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def update(self) -> None:
        """Install a version whose shims are in another folder: what living supervisors start is gone."""
        package = self.root / "code/tui/rltui"
        (package / "hosts/shim").rename(package / "hosts/shims")
        for module in package.rglob("*.py"):
            text = module.read_text().replace("rltui.hosts.shim", "rltui.hosts.shims")
            module.unlink()
            module.write_text(f"{text}# the next version\n")

    def pids(self) -> dict[str, int]:
        return {item["id"]: item["pid"] for item in self.status("one")["components"]}

    def journal(self) -> str:
        return (self.work / "out/.rltui/journal.jsonl").read_text()


@pytest.fixture
def installed(counters: Box) -> Installed:
    box = Installed.on(counters)
    box.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    return box


def test_the_next_command_after_an_update_replaces_the_supervisor(installed: Installed) -> None:
    before = installed.pids()
    installed.update()
    assert installed.json("status", "one")["state"] == "running"
    assert installed.pids() == before
    assert "rltui was updated: a new supervisor takes over" in installed.journal()
    restarted = installed.run("restart", "one", "-c", "trainer", "--yes", "--wait")
    assert restarted.returncode == 0, restarted.stderr
    after = installed.pids()
    assert after["trainer"] != before["trainer"]
    assert {**after, "trainer": 0} == {**before, "trainer": 0}
    assert installed.journal().count("supervisor started") == 2


def test_a_restart_right_after_an_update_stops_nothing_that_cannot_start_again(installed: Installed) -> None:
    installed.update()
    restarted = installed.run("restart", "one", "-c", "trainer", "--yes", "--wait")
    assert restarted.returncode == 0, restarted.stderr
    assert installed.json("status", "one")["state"] == "running"


def test_a_supervisor_that_nobody_asks_is_replaced_too(installed: Installed) -> None:
    before, pid = installed.pids(), installed.supervisor_pid()
    installed.update()
    retry_until(lambda: installed.journal().count("supervisor started") == 2, timeout_s=100)
    assert installed.supervisor_pid() != pid
    retry_until(lambda: installed.status("one")["state"] == "running")
    assert installed.pids() == before


def test_the_queue_goes_on_after_an_update(box: Box) -> None:
    installed = Installed.on(box)
    job = 'framework = "generic"\n[[component]]\nid = "trainer"\ncommand = ["sleep", "8"]\n'
    (box.work / "job.toml").write_text(job)
    (box.work / "run.toml").write_text("seed = 0\n")
    for name in ("first", "second"):
        added = installed.run("queue", "add", "run.toml", "-l", "job.toml", "-n", name, "-o", name)
        assert added.returncode == 0, added.stderr

    def states() -> dict[str, str]:
        queue = json.loads((box.root / "state/rltui/queue/queue.json").read_text())
        return {entry["name"]: entry.get("state", "queued") for entry in queue["entries"]}

    retry_until(lambda: states()["first"] == "running", timeout_s=60)
    installed.update()
    retry_until(lambda: states() == {"first": "done", "second": "done"}, timeout_s=120)
    log = (box.root / "state/rltui/queue/scheduler.log").read_text()
    assert log.count("scheduler started") > 1
    assert "CRITICAL" not in log


def test_an_update_that_cannot_run_leaves_the_supervisor_as_it_is(installed: Installed) -> None:
    package = installed.root / "code/tui/rltui"
    before = installed.pids()
    (package / "paths.py").write_text("half a fi")
    log = installed.work / "out/.rltui/supervisor.log"
    retry_until(lambda: "SyntaxError" in log.read_text(), timeout_s=100)
    healthy = replace(installed, env={**installed.env, "PYTHONPATH": str(Path(rltui.__file__).parents[1])})
    assert healthy.pids() == before
    os.kill(healthy.supervisor_pid(), 0)
