"""An experiment of small programs in a box of its own, driven over the supervisor's socket."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import Box
from tests.faults.truth import Being, Truth
from tests.faults.watcher import RecordWatcher
from tests.waiting import retry_until

from rltui.client.transports.unix import SupervisorGoneError, Wire
from rltui.errors import RltuiError

NAME = "faults"
PROGRAM = Path(__file__).parents[1] / "fakes" / "programs" / "misbehave.py"
CLOCK = Path(__file__).parent / "clock"
COMPONENTS = ("inference", "orchestrator", "trainer")
TRUE_WITHIN_S = 5.0
"""The invariant: after this, what is shown is so."""
GRACE_S = 0.4
READY_TIMEOUT_S = 1.0
SETTLE_S = 25.0
"""Longest time for what was asked to come to its end, SIGKILL after both graces included."""

LAYOUT = """\
title = "Faults"
framework = "generic"

[[component]]
id = "inference"
kind = "service"
command = ["{python}", "-I", "-S", "PROGRAM", "FOLDER", "PORT"]
port = "PORT"
wait_s = 10
ready = { tcp = "127.0.0.1:PORT", timeout_s = READY_TIMEOUT }
stop = { grace_s = GRACE }
restart = RESTART

[[component]]
id = "orchestrator"
command = ["{python}", "-I", "-S", "PROGRAM", "FOLDER", "-"]
after = ["inference"]
ready = { log = "^ready", timeout_s = READY_TIMEOUT }
stop = { grace_s = GRACE }
restart = RESTART

[[component]]
id = "trainer"
command = ["{python}", "-I", "-S", "PROGRAM", "FOLDER", "-"]
ready = { log = "^ready", timeout_s = READY_TIMEOUT }
stop = { grace_s = GRACE }
restart = RESTART
"""
MOVING = frozenset({"waiting", "starting", "stopping", "backoff"})
NO_RESTART = '{ policy = "never" }'

Components = Mapping[str, dict[str, Any]]
"""Status of each, by id."""


@dataclass
class Experiment:
    """Three components: a service with a port, a job that needs it, a job alone."""

    box: Box
    port: int
    output_dir: Path
    restart: str = NO_RESTART
    name: str = NAME
    unrecorded: set[tuple[str, int]] = field(default_factory=set)
    """Component and attempt whose shim was killed or could not write: its record stays unfinished."""
    cut_logs: set[tuple[str, int]] = field(default_factory=set)
    """Component and attempt whose log was truncated or replaced."""
    folder: Path = field(init=False)
    truth: Truth = field(init=False)
    watcher: RecordWatcher = field(init=False)
    _wire: Wire | None = None

    def __post_init__(self) -> None:
        self.folder = self.box.root / f"truth-{self.name}"
        self.folder.mkdir()
        (self.folder / "clock").write_bytes(bytes(16))
        self.truth = Truth(self.folder, COMPONENTS)
        self.watcher = RecordWatcher(self.control)
        self.box.env["FAULT_CLOCK"] = str(self.folder / "clock")
        self.box.env["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(CLOCK), self.box.env.get("PYTHONPATH")))
        )
        for component in COMPONENTS:
            self.behave(component)
        values = {
            "PROGRAM": str(PROGRAM),
            "FOLDER": str(self.folder),
            "PORT": str(self.port),
            "READY_TIMEOUT": str(READY_TIMEOUT_S),
            "GRACE": str(GRACE_S),
            "RESTART": self.restart,
        }
        layout = LAYOUT
        for name, value in values.items():
            layout = layout.replace(name, value)
        (self.box.work / "layout.toml").write_text(layout)
        self.config.write_text("max_steps = 20\n")

    # --- places -------------------------------------------------------------------------------------------

    @property
    def control(self) -> Path:
        return self.output_dir / ".rltui"

    @property
    def config(self) -> Path:
        return self.box.work / "run.toml"

    @property
    def tag(self) -> str:
        return f"{self.name}@{self.output_dir}"

    @property
    def socket_path(self) -> Path:
        sockets = (self.box.root / "run/rltui").glob(f"{self.name}-*.sock")
        return next(sockets, self.box.root / "run/rltui/none.sock")

    def attempt_dir(self, component: str, attempt: int) -> Path:
        return self.control / "components" / component / f"attempt-{attempt}"

    def attempts(self, component: str) -> list[int]:
        """Numbers of the attempts there are folders for, ascending."""
        found = self.control.glob(f"components/{component}/attempt-*")
        return sorted(int(path.name.removeprefix("attempt-")) for path in found)

    def log(self, component: str) -> Path:
        """Output of its newest attempt."""
        return self.attempt_dir(component, self.attempts(component)[-1]) / "output.log"

    # --- asking -------------------------------------------------------------------------------------------

    def behave(self, component: str, *words: str) -> None:
        """How it behaves from its next start on."""
        (self.folder / f"{component}.behaviour").write_text(" ".join(words))

    def up(self, *, settle: bool = True) -> dict[str, Being]:
        """Create the experiment and start all of it. Returns the main processes that live then."""
        made = (
            "up",
            "run.toml",
            "-l",
            "layout.toml",
            "-n",
            self.name,
            "-o",
            str(self.output_dir),
            "--no-wait",
        )
        done = self.box.run(*made)
        assert done.returncode == 0, done.stderr
        if settle:
            self.settle()
        return self.truth.mains()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The supervisor's answer; one that is gone is replaced first, as every client does."""
        try:
            return self._call(method, params)
        except (SupervisorGoneError, OSError):
            self.forget_connection()
            self.revive()
            return self._call(method, params)

    def execute(self, action: str, *components: str, **options: Any) -> dict[str, Any]:
        """Ask for it and return the plan, which is under way by then."""
        return self.ask("execute", {"action": action, "components": list(components), **options})

    def request(self, action: str, *components: str, **options: Any) -> dict[str, Any]:
        """Ask for it and wait until it has come to its end."""
        before = self.shown()
        plan = self.execute(action, *components, **options)
        self.settle_plan(plan, before)
        return plan

    def shown(self) -> Components:
        """What clients are told of each component."""
        return {item["id"]: item for item in self.ask("status")["components"]}

    def revive(self) -> None:
        """Start a supervisor where none is, as the TUI does."""
        command = [sys.executable, "-m", "rltui.client", self.name]
        done = subprocess.run(
            command,
            env=self.box.env,
            cwd=self.box.work,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def forget_connection(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def supervisor_pid(self) -> int | None:
        """Who listens on the socket, as the kernel has it; `None` where nobody does."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket_path))
            except OSError:
                return None
            return int(struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])

    def edits(self) -> list[dict[str, Any]]:
        """What the journal says of every edit, oldest first."""
        journal = (self.control / "journal.jsonl").read_text().splitlines()
        return [entry["data"] for entry in map(json.loads, journal) if entry["kind"] == "edit"]

    # --- waiting ------------------------------------------------------------------------------------------

    def settle(self, done: Callable[[Components], bool] = lambda _: True) -> Components:
        """What is shown once nothing is on its way any more, twice in a row, and `done` says so."""
        calm = 0

        def settled() -> Components | None:
            nonlocal calm
            status = self.ask("status")
            components = {item["id"]: item for item in status["components"]}
            moves = status["transaction"] or MOVING & {item["state"] for item in components.values()}
            calm = calm + 1 if not moves and done(components) else 0
            return components if calm >= 2 else None

        self.ask(
            "status"
        )  # a new supervisor may take long to start, after which the probe would pause longer
        try:
            return retry_until(settled, timeout_s=SETTLE_S)
        except TimeoutError:
            raise AssertionError(f"never came to rest: {self.describe()}") from None

    def settle_plan(self, plan: Mapping[str, Sequence[str]], before: Components) -> None:
        """Until what `plan` stops is stopped, and what it starts was started or says why not."""

        def done(components: Components) -> bool:
            gone = {"stopped", "exited", "failed"}
            stopped = all(components[name]["state"] in gone for name in set(plan["stop"]) - {*plan["start"]})
            started = all(
                (components[name]["attempt"] or 0) > (before[name]["attempt"] or 0)
                or components[name]["state"] == "failed"
                for name in plan["start"]
            )
            return stopped and started

        self.settle(done)

    def wait_for_main(self, component: str, *, other_than: Being | None = None) -> Being:
        """Its living main process, once there is one."""

        def found() -> Being | None:
            main = self.truth.main(component)
            return main if main != other_than else None

        return retry_until(found)

    def describe(self) -> str:
        """For the message of a failed assertion: shown beside true, and what the supervisor noted last."""
        try:
            status = self.ask("status")
            shown = {
                item["id"]: {
                    key: value for key, value in item.items() if key in _TELLING and value is not None
                }
                for item in status["components"]
            }
        except (AssertionError, SupervisorGoneError, OSError) as error:
            return f"no supervisor: {error}"
        living = {name: self.truth.living(name) for name in COMPONENTS}
        noted = [
            line
            for name in ("supervisor.log", "journal.jsonl")
            if (file := self.control / name).exists()
            for line in file.read_text().splitlines()[-12:]
        ]
        under_way = status["transaction"]
        return "\n".join((f"shown {shown}, under way: {under_way}", f"true {living}", *noted))

    # --- the end ------------------------------------------------------------------------------------------

    def begin_anew(self) -> None:
        """Its folder was deleted and nothing of it lives: attempts are counted from 1 again."""
        for pattern in ("*.pids", "*.count"):
            for file in self.folder.glob(pattern):
                file.unlink()
        self.unrecorded.clear()
        self.cut_logs.clear()
        self.forget_connection()
        self.watcher.begin_anew()
        self.up()

    def close(self) -> None:
        """Hang up, and end what the experiment's own means have left."""
        self.watcher.stop()
        self.forget_connection()
        for component in COMPONENTS:
            for being in self.truth.living(component):
                with suppress(ProcessLookupError):  # ended a moment ago
                    os.kill(being.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, method: str, params: dict[str, Any] | None) -> dict[str, Any]:
        if self._wire is None:
            self._wire = Wire(self.socket_path)
        return self._wire.call(method, params, timeout_s=15.0)


_TELLING = ("state", "reason", "pid", "attempt", "exit_code", "signal")


@contextmanager
def ended_afterwards(experiment: Experiment) -> Iterator[Experiment]:
    try:
        yield experiment
    finally:
        if experiment.supervisor_pid() is not None:
            with suppress(RltuiError, OSError):  # what is left is counted by the box
                experiment.ask("shutdown")
        experiment.close()
