"""Every place says the same word of a run on disk, whether its supervisor is away, answers or hangs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.cli.conftest import CommandLine
from tests.fakes.experiment import NOW
from tests.fakes.past_run import write_attempt
from tests.supervisor.conftest import CONFIG, enter

from rltui import paths
from rltui.cli import main
from rltui.cli.commands import status as status_command
from rltui.cli.completion import candidates
from rltui.client import statuses
from rltui.client.local_runs import LocalRuns
from rltui.core.experiment.api import Down, Status
from rltui.core.experiment.states import ComponentState, EntryState, Reason
from rltui.core.runs.queue import QueueEntry
from rltui.core.runs.row import RunOrigin
from rltui.services.experiment.files import ControlFolder, ExperimentRecord, list_dir
from rltui.services.experiment.intent import Intent, IntentFile
from rltui.services.experiment.registry import new_socket_path
from rltui.services.processes import boot_identity
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import new_metadata, save_metadata
from rltui.services.runs.queue_file import change_queue, scheduler_lock
from rltui.supervisor.api_server import ApiServer
from rltui.supervisor.runs.index import IndexFeed
from rltui.supervisor.supervisor import Supervisor
from rltui.ui.widgets.bars import header_line
from rltui.views.experiment import exit_code, state_cell
from rltui.views.run import column_of, run_summary

S = ComponentState
LAYOUT = """\
[[component]]
id = "inference"
kind = "service"
command = ["sleep", "9"]
[[component]]
id = "orchestrator"
command = ["sleep", "9"]
[[component]]
id = "trainer"
command = ["sleep", "9"]
"""
COMPONENTS = ("inference", "orchestrator", "trainer")
STARTED, ENDED = NOW - 7200.0, NOW - 3600.0
Attempt = Mapping[str, Any] | None
NONE: Attempt = None
STOPPED: Attempt = {"ended_at": ENDED, "exit_code": 0, "stop_requested": True}
EXITED: Attempt = {"ended_at": ENDED, "exit_code": 0}
FAILED: Attempt = {"ended_at": ENDED, "exit_code": 1}
KILLED: Attempt = {"ended_at": ENDED, "signal": "SIGKILL"}
UNSEEN: Attempt = {}
"""It ran when the last word of it was written, and its process is gone."""


class Folder(NamedTuple):
    """A run as it lies on disk, and the verdict on it."""

    state: str
    code: str
    components: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = (STOPPED, STOPPED, STOPPED)
    """Of `COMPONENTS`."""
    steps: int = 3
    down: Down | None = None
    boot: str = ""
    """Boot in which the intent was written; empty: this one."""
    entry: EntryState | None = None
    damage: tuple[tuple[str, str], ...] = ()
    """Files of its control folder, of the workspace (`./`) or the list (`list/`), and what they hold instead;
    `-`: they were deleted.
    """


NEVER, ALL = (NONE, NONE, NONE), (STOPPED, EXITED, EXITED)
BY_ADA = Down(by="ada", at=ENDED, complete=True)
FOLDERS: Mapping[str, Folder] = {
    "never": Folder("stopped", "never_started", attempts=NEVER, steps=0),
    "done": Folder("done", "steps_done", attempts=ALL, steps=20),
    "short": Folder("done", "steps_done", attempts=ALL),
    "stopped": Folder("stopped", "stop_requested"),
    "stopped-after-all": Folder("done", "steps_done", steps=20),
    "down": Folder("stopped", "down", down=BY_ADA),
    "down-idle": Folder("stopped", "stop_requested", down=BY_ADA.replace(idle=True)),
    "down-then-reboot": Folder("stopped", "down", down=Down(by="ada", at=ENDED), boot="earlier"),
    "down-after-all": Folder("done", "steps_done", steps=20, down=BY_ADA),
    "failed": Folder("failed", "exited", ("trainer",), (STOPPED, STOPPED, FAILED)),
    "both-failed": Folder("failed", "exited", ("orchestrator", "trainer"), (STOPPED, FAILED, FAILED)),
    "killed": Folder("failed", "killed_outside", ("trainer",), (STOPPED, STOPPED, KILLED)),
    "failed-after-all": Folder("failed", "exited", ("trainer",), (STOPPED, EXITED, FAILED), 20),
    "failed-server": Folder("failed", "exited", ("inference",), (FAILED, STOPPED, STOPPED)),
    "failed-server-after-all": Folder("done", "steps_done", attempts=(FAILED, EXITED, EXITED), steps=20),
    "lost": Folder("lost", "end_unseen", ("orchestrator", "trainer"), (STOPPED, UNSEEN, UNSEEN)),
    "lost-server": Folder("stopped", "stop_requested", attempts=(UNSEEN, STOPPED, STOPPED)),
    "lost-after-all": Folder("done", "steps_done", attempts=(STOPPED, UNSEEN, UNSEEN), steps=20),
    "lost-and-failed": Folder("failed", "exited", ("trainer",), (STOPPED, UNSEEN, FAILED)),
    "edited-since": Folder(
        "done", "steps_done", steps=20, damage=(("./edited-since.toml", CONFIG.replace("20", "40")),)
    ),
    "without-config": Folder("done", "steps_done", steps=20, damage=(("./without-config.toml", "-"),)),
    "queued": Folder("queued", "queue", attempts=NEVER, steps=0, entry="queued"),
    "retried": Folder("queued", "queue", attempts=(STOPPED, STOPPED, FAILED), entry="queued"),
    "starting": Folder("starting", "queue", attempts=NEVER, steps=0, entry="starting"),
    "just-made": Folder("starting", "queue", attempts=NEVER, steps=0, entry="running"),
    "done-in-queue": Folder("done", "steps_done", attempts=ALL, steps=20, entry="running"),
    "failed-in-queue": Folder("failed", "exited", ("trainer",), (STOPPED, STOPPED, FAILED), entry="failed"),
    "lost-in-queue": Folder("lost", "end_unseen", ("trainer",), (STOPPED, STOPPED, UNSEEN), entry="lost"),
    "damaged-attempt": Folder(
        "lost", "end_unseen", ("trainer",), damage=(("components/trainer/attempt-1/attempt.json", "{"),)
    ),
    "without-shim": Folder(
        "stopped", "stop_requested", damage=(("components/trainer/attempt-1/attempt.json", "-"),)
    ),
    "damaged-intent": Folder("stopped", "stop_requested", damage=(("intent.json", "{"),)),
    "damaged-journal": Folder("stopped", "stop_requested", damage=(("journal.jsonl", "\0{\n[]\n"),)),
    "damaged-record": Folder("stopped", "stop_requested", damage=(("experiment.toml", "name = "),)),
    "damaged-sheet": Folder("stopped", "stop_requested", damage=(("run.json", "[]"),)),
    "damaged-list": Folder("stopped", "stop_requested", damage=(("list/damaged-list", "x"),)),
    "damaged": Folder("lost", "folder_damaged", damage=(("list/damaged", "x"), ("experiment.toml", "x"))),
    "without-layout": Folder("lost", "folder_damaged", damage=(("./without-layout-layout.toml", "-"),)),
    "gone": Folder("lost", "folder_gone", damage=(("./out/gone", "-"),)),
    "moved": Folder("stopped", "stop_requested", damage=(("./out/moved", "out/elsewhere"),)),
}
UNREADABLE = {"damaged", "without-layout", "gone", "moved"}
"""Those that have no supervisor: it could not start."""
LIVING: Mapping[str, tuple[tuple[ComponentState, ...], str, str, tuple[str, ...]]] = {
    "running": ((S.READY, S.READY, S.READY), "running", "jobs_run", ()),
    "loading": ((S.STARTING, S.WAITING, S.WAITING), "starting", "on_the_way", COMPONENTS),
    "restarting": ((S.READY, S.READY, S.BACKOFF), "starting", "backoff", ("trainer",)),
    "ending": ((S.READY, S.STOPPED, S.STOPPING), "stopping", "stop_requested", ("trainer",)),
    "broken": ((S.READY, S.READY, S.FAILED), "failed", "component_failed", ("trainer",)),
    "served": ((S.READY, S.EXITED, S.EXITED), "done", "still_up", ("inference",)),
    "stalled": ((S.READY, S.READY, S.READY), "stalled", "no_progress", ("trainer",)),
}
"""States of `COMPONENTS` under a supervisor, and the verdict."""


def write_run(root: Path, name: str, folder: Folder) -> ExperimentRecord:
    config, layout = root / f"{name}.toml", root / f"{name}-layout.toml"
    config.write_text(CONFIG)
    layout.write_text(LAYOUT)
    record = ExperimentRecord(
        name=name, output_dir=str(root / "out" / name), workspace=str(root), config_files=(str(config),),
        layout_file=str(layout), framework="tinyrl", created_at=STARTED,
    )  # fmt: skip
    control = record.control
    control.write_record(record)
    for component, values in zip(COMPONENTS, folder.attempts, strict=True):
        if values is not None:
            attempt = control.attempt_dir(component, control.new_attempt(component))
            (attempt / "config").mkdir()
            shutil.copy(config, attempt / "config" / "rl.toml")
            write_attempt(attempt, experiment=record.tag, started_at=STARTED, **values)
            (attempt / "output.log").write_text("")
    rows = [
        {"step": step, "time": STARTED + step, key: step / 20}
        for step in range(1, folder.steps + 1)
        for key in ("train/agg/effective/agent/reward/mean", "loss/mean")
    ]
    (Path(record.output_dir) / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if folder.down is not None:
        IntentFile(control.intent_file).write(Intent(boot=folder.boot or boot_identity(), down=folder.down))
    if folder.entry is not None:
        entry = QueueEntry(
            id=name, name=name, folder=record.output_dir, added_at=NOW, state=folder.entry, why="after x"
        )
        change_queue(lambda queue: queue.with_entries([*queue.entries, entry]))
        save_metadata(control.path, new_metadata(STARTED, RunOrigin(entry=name)))
    return record


def damage(root: Path, name: str) -> None:
    for place, content in FOLDERS[name].damage:
        head, _, rest = place.partition("/")
        control = ControlFolder(root / "out" / name).path
        path = {".": root / rest, "list": list_dir() / rest}.get(head, control / place)
        if path.is_dir() and content == "-":
            shutil.rmtree(path)
        elif path.is_dir():
            path.rename(root / content)
        elif content == "-":
            path.unlink()
        else:
            path.write_text(content)


class Places:
    """What every place says of the runs, as `(state, code, text)` of the reason, or as a text."""

    def __init__(self, cli: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._lists: dict[str, dict[str, Any]] = {}
        for place, words, list_key, key in (
            ("runs", ("runs", "--all"), "runs", "name"),
            ("status of all", ("status", "--all"), "runs", "experiment"),
            ("queue", ("queue",), "entries", "name"),
        ):
            self._lists[place] = {item[key]: item for item in cli.json(*words)[list_key]}
        self._table = cli("runs", "--all", "--columns", "name,state")
        self._words = dict(candidates(["status", ""]))
        self._entries = dict(candidates(["queue", "cancel", ""]))
        self._screen = {row.name: row for row in LocalRuns().rows()}

    def check(
        self, name: str, state: str, code: str, components: tuple[str, ...], *, is_described: bool = True
    ) -> None:
        exit_, document = self._command("status", name, "--json")
        status = json.loads(document)
        reason = Reason.parse(status["reason"])
        assert (status["state"], reason.code, reason.components) == (state, code, components), name
        told = state_cell(state, reason).text
        _, _, text = told.partition(" ")
        assert exit_ == exit_code(state, reason), (name, "exit code")
        exit_, output = self._command("status", name)
        assert (exit_, f" · {told}" in output.splitlines()[0]) == (exit_code(state, reason), True), output
        assert reason.text in output or state in ("stopped", "starting", "stopping", "failed", "stalled")
        if "problem" not in status:
            header = header_line(Status.from_plain({**status, "created_at": None}), 400).plain
            assert f" · {told}" in header, (name, "header")
            if is_described:
                assert self._command("describe", name)[1].splitlines()[0] == f"{name} · {told}"
        for place, items in self._lists.items():
            if name in items:
                item = items[name]
                assert (item["state"], Reason.parse(item["reason"])) == (state, reason), (name, place)
        assert any(line.split() == [name, *told.split()] for line in self._table.splitlines()), name
        row = self._screen[name]
        assert (row.state, row.reason) == (state, reason), (name, "screen 7")
        assert column_of("state").text(row, now=NOW) == text, (name, "screen 7")
        assert run_summary(row).startswith(told), (name, "screen 7")
        _, shown = self._command("runs", "show", name)
        assert shown.startswith(f"{name} · {told}"), (name, "runs show")
        if code != "no_answer":
            assert self._words[name] in (state, text), (name, "completion")
        if name in self._lists["queue"]:
            assert self._entries[name] in (state, text), (name, "completion of entries")

    def _command(self, *words: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = main([*words])
        return code, self._capsys.readouterr().out


@pytest.fixture
def root(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for runs, whose queue nobody works at."""
    paths.queue_folder().mkdir(parents=True, mode=0o700)
    lock = scheduler_lock()
    assert lock.acquire()
    monkeypatch.setattr(status_command, "CONNECT_TIMEOUT_S", 0.1)
    monkeypatch.setattr(statuses, "_LIST_TIMEOUT_S", 0.1)
    yield tmp_path
    lock.release()


def test_without_a_supervisor(root: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    for name, folder in FOLDERS.items():
        write_run(root, name, folder)
    damage(root, "damaged-attempt")  # nothing tells the index of what happens to an attempt that has ended
    cli("runs")  # the index knows all before the others are damaged, deleted, or moved
    for name in FOLDERS:
        damage(root, name)
    cli("runs")
    for is_saved in (False, True):  # of the second look much was saved, but not what describes a run
        places = Places(cli, capsys)
        for name, folder in FOLDERS.items():
            places.check(name, folder.state, folder.code, folder.components, is_described=not is_saved)


@contextmanager
def supervised(records: Mapping[str, ExperimentRecord]) -> Iterator[None]:
    """A supervisor for each of these, in a thread; those of `LIVING` have components in such states."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def supervise(record: ExperimentRecord) -> tuple[ApiServer, IndexFeed]:
        no_tmux: Any = None
        supervisor = Supervisor(record, tmux=no_tmux)
        server = ApiServer(supervisor, partial(new_socket_path, record))
        supervisor.adopt()
        if record.name in LIVING:
            for component, state in zip(COMPONENTS, LIVING[record.name][0], strict=True):
                enter(supervisor, component, state, "exited 1" if state in (S.FAILED, S.BACKOFF) else None)
        if record.name == "stalled":
            supervisor.runtime.processes.runners["trainer"].evidence = "no output for 6m"
        await server.open()
        feed = IndexFeed(supervisor)
        await feed.poll()
        return server, feed

    async def end(server: ApiServer, feed: IndexFeed) -> None:
        await server.close()
        await feed.close()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=30)

    supervisors = [run(supervise(record)) for record in records.values()]
    try:
        yield
    finally:
        for server, feed in supervisors:
            run(end(server, feed))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_with_a_supervisor(root: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name in FOLDERS if name not in UNREADABLE]
    records = {name: write_run(root, name, FOLDERS[name]) for name in names}
    records |= {name: write_run(root, name, FOLDERS["stopped"]) for name in LIVING}
    for name in names:
        damage(root, name)
    with supervised(records):
        cli("runs")
        places = Places(cli, capsys)
        for name in names:
            places.check(name, *FOLDERS[name][:3])
        for name, (_, state, code, components) in LIVING.items():
            places.check(name, state, code, components)


HANGS = """\
import os, signal, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_with_a_supervisor_that_does_not_answer(
    root: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    records = {name: write_run(root, name, FOLDERS["stopped"]) for name in ("running", "broken")}
    with supervised(records):
        pass
    hanging: dict[str, subprocess.Popen[bytes]] = {}
    for name, record in records.items():
        command = [sys.executable, "-S", "-c", HANGS, str(new_socket_path(record))]
        hanging[name] = subprocess.Popen(command)
        os.waitpid(hanging[name].pid, os.WUNTRACED)  # it listens, and has stopped itself
        row = RunIndex().named(name)[0]
        supervisor = (hanging[name].pid, time.time())
        RunIndex().put([(replace(row, is_alive=True, state="running", supervisor=supervisor), None)])
    try:
        places = Places(cli, capsys)
        for name in records:
            places.check(name, "stalled", "no_answer", ())
    finally:
        for process in hanging.values():
            process.kill()
            process.wait()
