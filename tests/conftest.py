"""A box of its own for every test that runs real experiments: folders, tmux server, nothing left behind."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests import checked_values, forked
from tests.detached import pytest_cmdline_main  # noqa: F401 - a hook
from tests.faults.report import pytest_terminal_summary  # noqa: F401 - a hook, for the controller of xdist too
from tests.waiting import retry_until

from rltui.base.interpreter import module_command
from rltui.client.transports.unix import Wire
from rltui.errors import ExitCode, RltuiError

MOST_WORKERS = 16
GARBAGE_THRESHOLD = 20_000

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
"""Neither the thousands of processes that tests start nor each worker need compile hundreds of modules anew:
pytest takes 12 s of CPU to rewrite the asserts of all tests, and keeps what it has rewritten.
"""


checked_values.check_all()
settings.register_profile("rltui", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("rltui")
"""How long an example takes says how busy the machine is. More of them: `--hypothesis-profile=thorough`."""


def pytest_collection_finish() -> None:
    """Exclude modules imported by now from garbage collection: scanning them took a tenth of the time of UI
    tests.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def pytest_xdist_auto_num_workers() -> int:
    """Two per core: the tests of real experiments wait for other processes most of the time."""
    return min(MOST_WORKERS, 2 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class Box:
    """An empty machine, as far as rltui can see. `run` is the command line."""

    root: Path
    env: dict[str, str]

    @property
    def work(self) -> Path:
        """The folder commands run in."""
        return self.root / "work"

    def run(
        self, *arguments: str, timeout_s: float = 60.0, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `rltui …` without a terminal."""
        if forked.can_run(self.env):
            return forked.run(arguments, cwd=self.work, env=self.env, stdin=stdin, timeout_s=timeout_s)
        return subprocess.run(
            module_command("rltui", *arguments),  # as the script does, with nothing of `work` on its path
            cwd=self.work,
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def as_agent(self, name: str = "night-1", *, rights: str = "act") -> Box:
        """The same box, in the hands of an agent that has these rights."""
        settings = Path(self.env["XDG_CONFIG_HOME"]) / "rltui" / "settings.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f'[agents]\nrights = "{rights}"\n')
        return replace(self, env={**self.env, "RLTUI_AGENT": name})

    def json(self, *arguments: str, timeout_s: float = 60.0) -> Any:
        """Run a command that must succeed, and parse its document."""
        result = self.run(*arguments, "--json", timeout_s=timeout_s)
        tells_of_failure = arguments[0] == "status" and result.returncode == ExitCode.COMPONENT_FAILED
        assert result.returncode == 0 or tells_of_failure, result.stderr + result.stdout
        return json.loads(result.stdout)

    def status(self, experiment: str | None = None) -> dict[str, Any]:
        """Status of this run, else of the one that is alive, else of the newest, by the way that costs least:
        it is asked for again and again.
        """
        document: dict[str, Any] | None = self._ask_supervisor(experiment)
        if document is None:
            document = self.json("status", experiment) if experiment else self.json("status")["runs"][0]
        return document

    def component(self, name: str, *, experiment: str | None = None) -> dict[str, Any]:
        """Status of one component."""
        status = self.status(experiment)
        return next(item for item in status["components"] if item["id"] == name)

    def _ask_supervisor(self, experiment: str | None) -> dict[str, Any] | None:
        """The supervisor's answer, as the command line would pass it on. `None` where that would have to
        choose, or to start something.
        """
        sockets = list((self.root / "run/rltui").glob(f"{experiment or '*'}-*.sock"))
        if len(sockets) != 1:
            return None
        try:
            with Wire(sockets[0]) as wire:
                return wire.call("status", timeout_s=10.0)
        except RltuiError:
            return None

    def wait_for(self, name: str, state: str, *, timeout_s: float = 20.0) -> dict[str, Any]:
        """Wait until a component is in `state`, and return its status."""
        component: dict[str, Any] = {}

        def reached() -> bool:
            component.update(self.component(name))
            return bool(component["state"] == state)

        retry_until(reached, timeout_s=timeout_s)
        return component

    def supervisor_pid(self, output_dir: str = "out") -> int:
        """Pid of the newest supervisor, alive or not, of the experiment in this folder below `work`."""
        journal = (self.work / output_dir / ".rltui" / "journal.jsonl").read_text()
        return int(re.findall(r"supervisor started, pid (\d+)", journal)[-1])

    def tagged(self, experiment: str) -> list[int]:
        """Pids of living processes that carry the experiment's tag."""
        tag = f"RLTUI_EXPERIMENT={experiment}@{self.root}".encode()
        pids = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if tag in (entry / "environ").read_bytes():
                        pids.append(int(entry.name))
                except OSError:
                    continue
        return pids


@pytest.fixture(scope="session", autouse=True)
def _no_run_of_a_test_is_in_the_own_dashboard() -> Iterator[None]:
    """prime-rl's list of folders in the home of whoever runs the tests gets none of theirs."""
    file = Path.home() / ".cache/prime-rl/dashboard/dirs.json"
    before = file.read_text() if file.exists() else ""
    yield
    after = file.read_text() if file.exists() else ""
    assert after.count(tempfile.gettempdir()) <= before.count(tempfile.gettempdir())


@pytest.fixture(scope="session", autouse=True)
def _no_run_of_whoever_runs_the_tests_is_known() -> Iterator[None]:
    """What is tested in this process knows none of their runs, settings and layouts."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="rlt-") as folder:
        for name in ("STATE", "CONFIG"):
            patch.setenv(f"XDG_{name}_HOME", f"{folder}/{name.lower()}")
        yield


@pytest.fixture
def own_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without records, settings and sockets, for tests in this process; these are the folders."""
    user = tmp_path / "user"
    for name in ("state", "config", "cache", "run", "home"):
        (user / name).mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HOME", str(user / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(user / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(user / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(user / "run"))
    return user


@pytest.fixture
def box() -> Iterator[Box]:
    with temporary_box() as new_box:
        yield new_box


def environment_of(root: Path) -> dict[str, str]:
    """Environment of a user whose folders lie in `root`."""
    # pytest sets COLUMNS and LINES, which Textual believes rather than the terminal.
    outer = ("RLTUI_", "TMUX", "COLUMNS", "LINES")
    return {key: value for key, value in os.environ.items() if not key.startswith(outer)} | {
        "HOME": str(root / "home"),
        "XDG_RUNTIME_DIR": str(root / "run"),
        "XDG_STATE_HOME": str(root / "state"),
        "XDG_CONFIG_HOME": str(root / "config"),
        "XDG_CACHE_HOME": str(root / "cache"),
        "TMUX_TMPDIR": str(root / "tmux"),
        "RLTUI_TMUX_SOCKET": f"t{uuid.uuid4().hex[:8]}",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }


def kill_tmux_server(env: Mapping[str, str]) -> None:
    """End the private tmux server of such an environment, if there is one."""
    argv = ["tmux", "-L", env["RLTUI_TMUX_SOCKET"], "kill-server"]
    subprocess.run(argv, env=env, check=False, capture_output=True)


@contextmanager
def temporary_box() -> Iterator[Box]:
    """A new box. Afterwards nothing of it is left, and nothing of it may run."""
    # Short, since the sockets below it may have at most 107 bytes of path.
    root = Path(tempfile.mkdtemp(prefix="rlt-"))
    for name in ("run", "state", "config", "cache", "work", "tmux", "home"):
        (root / name).mkdir(mode=0o700)
    env = environment_of(root)
    tour_file = root / "state/rltui/screen/app.json"
    tour_file.parent.mkdir(mode=0o700, parents=True)
    tour_file.write_text('{"tour": "seen"}')  # keys are for what is tested, not for the tour
    new_box = Box(root, env)
    try:
        yield new_box
    finally:
        names = [entry.name for entry in (root / "state/rltui/experiments").glob("*")]
        for name in names:
            new_box.run("down", name)
        kill_tmux_server(env)
        survivors = {name: new_box.tagged(name) for name in names}
        shutil.rmtree(root, ignore_errors=True)
        assert not any(survivors.values()), f"processes left behind: {survivors}"


SERVICE = """\
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *args): pass
print("serving on", sys.argv[1], flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
COUNTER = """\
import itertools, sys, time
for number in itertools.count():
    print(f"count {number}", flush=True)
    time.sleep(0.005)
"""
LAYOUT = """\
title = "Counters"
framework = "generic"

[[component]]
id = "inference"
kind = "service"
command = ["{python}", "-u", "{workspace}/service.py", "PORT"]
port = "PORT"
ready = { http = "http://127.0.0.1:PORT/health", timeout_s = 20 }
stop = { grace_s = 5 }

[[component]]
id = "orchestrator"
command = ["{python}", "-u", "{workspace}/counter.py"]
after = ["inference"]
stop = { grace_s = 5 }

[[component]]
id = "trainer"
command = ["{python}", "-u", "{workspace}/counter.py"]
after = ["inference"]
stop = { grace_s = 5 }
"""


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def counters(box: Box, free_port: int) -> Box:
    """A box with an experiment of three small programs: `run.toml` and `counters.toml`, its layout."""
    (box.work / "service.py").write_text(SERVICE)
    (box.work / "counter.py").write_text(COUNTER)
    (box.work / "counters.toml").write_text(LAYOUT.replace("PORT", str(free_port)))
    (box.work / "run.toml").write_text('# how long\nmax_steps = 20 # steps\nname = "counters"\n')
    return box
