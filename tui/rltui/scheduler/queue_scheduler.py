"""The scheduler of the queue starts entries that may start, follows them, ends and retries them.

Every action is on disk before it is done, and its result is read from the run itself: killed at any point,
the next scheduler goes on, and no run is started twice.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rltui import paths
from rltui.base.interpreter import ACTOR, OUTER_VARIABLES, module_command
from rltui.client import launch
from rltui.core import hints
from rltui.core.runs.queue import Outcome, QueueEntry, RunQueue, decide, is_kept_variable
from rltui.core.runs.row import RunMetadata
from rltui.errors import ExitCode, RltuiError
from rltui.scheduler.stop_rules import StopRules
from rltui.services.actor import introduce, requester
from rltui.services.experiment.files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.experiment.registry import find_experiment
from rltui.services.experiment.rights import waiting_text
from rltui.services.fingerprints import Fingerprints
from rltui.services.gpu.account import read_once
from rltui.services.gpu.reservations import release_devices, reserve_devices
from rltui.services.processes import subprocesses
from rltui.services.runs.metadata import read_metadata
from rltui.services.runs.queue_file import change_queue, start_lock
from rltui.views.gpu.reservations import shortage_text

logger = logging.getLogger("rltui.queue")

_STATUS_TIMEOUT_S = 2.0
"""Time limit for a supervisor that does not answer."""
_LONGEST_START_S = 1800.0
"""A start that takes longer is ended: meanwhile nothing else starts."""
_INDEX_WAIT_S = 300.0
"""Time limit for somebody who holds the index of runs, such as a process that was stopped as it wrote."""
_COMMAND_TIMEOUT_S = 120.0
"""Time limit for a command that only reads."""
_RETRY_END_S = 30.0
"""Pause between two attempts to end a run that cannot be ended."""
_HOPELESS = frozenset({ExitCode.USAGE, ExitCode.INVALID_CONFIG})
"""Exit codes of starts that would come out the same again."""
_GPUS_S = 5.0
"""Time for which a reading of the GPUs without free devices is reused."""
_LAST_ERROR_BYTES = 4000
START_ENTRY = "start-entry"
"""Argument of `python -m rltui.scheduler` that starts the run of the entry on stdin; its name follows."""


@dataclass
class _Program:
    """A command of ours that is at work for an entry."""

    process: subprocess.Popen[bytes]
    until: float
    """Deadline by the monotonic clock; then it is killed."""

    def has_ended(self) -> bool:
        """True if it exited, or was killed at its deadline."""
        if self.process.poll() is None and time.monotonic() > self.until:
            self.process.kill()  # who waits for a disk goes only when that answers
        return self.process.poll() is not None


@dataclass
class QueueScheduler:
    """Runs the queue, for one thread. `look` does what is due now."""

    queue: RunQueue = RunQueue()
    _programs: dict[str, _Program] = field(default_factory=dict)
    _rules: StopRules = field(default_factory=StopRules)
    _files: Fingerprints = field(default_factory=Fingerprints)
    _refused: tuple[tuple[object, ...], float, str] | None = None
    """Last request without free devices, how long that answer is reused, and the reason."""
    _not_before: dict[str, float] = field(default_factory=dict)
    """Entry id → time of the next attempt to end it, by the monotonic clock."""

    _has_planned: bool = False
    """A bench has runs that a limit keeps out of the queue."""

    @property
    def is_idle(self) -> bool:
        return self.queue.is_idle and not self._has_planned

    def has_ended_programs(self) -> bool:
        return any(program.has_ended() for program in self._programs.values())

    def look(self) -> None:
        """Follow what runs, then start what may start.

        Raises:
            RltuiError: if the queue cannot be read or written. What runs goes on.
        """
        self._change(lambda queue: queue)
        for entry in self.queue.entries:
            try:
                if entry.is_open and entry.state != "queued":
                    self._advance(entry)
            except (OSError, subprocess.TimeoutExpired) as error:  # a full disk; others go on
                logger.error("%s: %s", entry.name, error)
        if paths.bench_folder().is_dir():
            self._advance_benches()
        self._start_next()

    def _advance_benches(self) -> None:
        """Queue what follows in benches of which runs have ended."""
        from rltui.client import bench  # few queues have one

        self._has_planned = False
        try:
            self._has_planned = bench.advance_all()
        except RltuiError as error:
            logger.error("bench: %s", error)

    def _advance(self, entry: QueueEntry) -> None:
        if reason := self._silent_folder(entry):
            if reason != entry.why and entry.state == "running":
                self._replace(entry, lambda now: now.replace(why=reason))
        elif entry.state == "starting":
            self._settle_start(entry)
        elif entry.state == "running":
            self._follow(entry)
        elif entry.state == "stopping":
            self._end(entry)

    def _change(self, change: Callable[[RunQueue], RunQueue]) -> None:
        self.queue = change_queue(
            change, fallback=self.queue if self.queue.entries else None, author=requester
        )

    def _replace(self, entry: QueueEntry, change: Callable[[QueueEntry], QueueEntry]) -> None:
        """Change the entry, if it is still in the state that we have seen."""

        def changed(queue: RunQueue) -> RunQueue:
            now = queue.entry(entry.id)
            return queue if now is None or now.state != entry.state else queue.with_entry(change(now))

        self._change(changed)

    # --- starting -----------------------------------------------------------------------------------------

    def _start_next(self) -> None:
        decision = decide(self.queue, time.time(), devices=self._devices, changed=self._obstacle)
        start, waits = decision.start, decision.waits
        if start is not None:
            start_fields = {
                "attempts_before": _attempts(start),
                "started_at": time.time(),
                "devices": start.devices,
            }

        def decided(queue: RunQueue) -> RunQueue:
            entries = []
            for entry in queue.entries:
                now = entry
                if entry.state == "queued" and start is not None and entry.id == start.id:
                    if not queue.paused:
                        now = entry.replace(state="starting", why="", **start_fields)
                elif entry.state == "queued" and entry.id in waits:
                    now = entry.replace(why=waits[entry.id])
                entries.append(now)
            return queue.with_entries(entries)

        if start is not None or any(
            entry.why != waits.get(entry.id, entry.why) for entry in self.queue.entries
        ):
            self._change(decided)
        started = None if start is None else self.queue.entry(start.id)
        if started is not None and started.state == "starting" and started.id not in self._programs:
            self._start(started)
        elif start is not None and start.gpus:  # the queue was paused, or it was removed
            release_devices(start.name)

    def _devices(self, entry: QueueEntry) -> tuple[str, str]:
        """Devices that are its own from now on, or why there are none. The GPUs are not read each time."""
        assigned_devices = {
            device: open_entry.name
            for open_entry in self.queue.entries
            if open_entry.is_open and open_entry.state != "queued" and open_entry.devices
            for device in open_entry.devices.split(",")
        }
        now, about = time.monotonic(), (entry.name, entry.gpus, entry.gpu_bytes, *assigned_devices)
        if self._refused is not None and self._refused[0] == about and now < self._refused[1]:
            return "", self._refused[2]
        report, count = read_once(), entry.gpus or 0
        free = reserve_devices(entry.name, report, count, entry.gpu_bytes, without=assigned_devices.keys())
        shortage = shortage_text(report, free, count)
        assignment_texts = [
            f"GPU {device} is assigned to {name}" for device, name in assigned_devices.items()
        ]
        if not shortage:
            self._refused = None
            return ",".join(device.as_choice for device in free.devices[:count]), ""
        reason = "; ".join((shortage, *assignment_texts))
        self._refused = (about, now + _GPUS_S, reason)
        return "", reason

    def _start(self, entry: QueueEntry) -> None:
        """Run the command that starts it. The lock says to our successor that it is still at work."""
        lock = start_lock(entry.id)
        if not lock.acquire():
            return
        try:
            number = lock.descriptor
            assert number is not None
            command = module_command("rltui.scheduler", START_ENTRY, entry.name)
            self._programs[entry.id] = self._run(
                entry,
                command,
                _LONGEST_START_S,
                stdin=entry.to_json().decode(),
                hand_on=(number,),
                by={} if entry.by is None else entry.by.variables,
            )
        except OSError as error:
            reason = f"cannot be started: {error.strerror}"
            self._replace(entry, lambda now: now.ended("failed", reason, time.time()))
        finally:
            lock.release()

    def _run(
        self,
        entry: QueueEntry,
        command: Sequence[str],
        timeout_s: float,
        *,
        stdin: str = "",
        hand_on: tuple[int, ...] = (),
        by: Mapping[str, str],
    ) -> _Program:
        """Run a program of ours with the variables of the time at which the entry was added.

        `by`: variables that say who acts.
        """
        environment = self.queue.surroundings.get(entry.surroundings)
        own_variables = {} if environment is None else environment.variables
        ours = {
            name: value
            for name, value in os.environ.items()
            if name not in OUTER_VARIABLES and not is_kept_variable(name)
        }
        with TemporaryFile() as stdin_file, _stderr_file(entry).open("wb") as stderr_file:
            stdin_file.write(stdin.encode())
            stdin_file.seek(0)
            process = subprocess.Popen(
                command,
                cwd=paths.queue_folder(),
                env={**ours, **own_variables, **by},
                stdin=stdin_file,
                stdout=subprocess.DEVNULL,
                stderr=stderr_file,
                pass_fds=hand_on,
                start_new_session=True,
            )
        return _Program(process, time.monotonic() + timeout_s)

    def _settle_start(self, entry: QueueEntry) -> None:
        """Once the program that starts it has ended: what has come of it?"""
        program = self._programs.get(entry.id)
        if program is not None and not program.has_ended():
            return
        if program is None:
            lock = start_lock(entry.id)
            if not lock.acquire():  # our predecessor's program is still at work
                return
            lock.release()
        run = _started_record(entry)
        code = None if program is None else program.process.returncode
        self._programs.pop(entry.id, None)
        start_lock(entry.id).path.unlink(missing_ok=True)
        if entry.gpus:
            release_devices(entry.name)  # by now it claims what it needs itself
        if run:
            self._replace(entry, lambda now: now.replace(state="running", run=run))
        elif code is None or waiting_text(entry):  # never started, killed before, or a limit came in between
            self._replace(entry, lambda now: now.replace(state="queued"))
        else:
            signal_text = subprocesses.failure_text(code, b"") if code < 0 else None
            reason = f"its start {signal_text}" if signal_text else _last_error(entry)
            retries = 0 if code in _HOPELESS else entry.retries
            self._replace(
                entry,
                lambda now: now.replace(retries=retries).ended("failed", reason, time.time()),
            )

    def _silent_folder(self, entry: QueueEntry) -> str:
        """Say which folder of the entry lies on a disk that does not answer: whoever used it would wait."""
        workspace = entry.request.workspace if entry.request is not None else None
        folders = (entry.folder, str(workspace or ""))
        silent = [folder for folder in folders if folder and not self._files.answers(folder)]
        return f"the disk of {silent[0]} does not respond" if silent else ""

    def _obstacle(self, entry: QueueEntry) -> str:
        """Why it cannot start now, whatever is free: the rights of the agent that added it, or its files."""
        return waiting_text(entry) or self._changed_files(entry)

    def _changed_files(self, entry: QueueEntry) -> str:
        if reason := self._silent_folder(entry):
            return reason
        for name, sha256 in entry.files.items():
            now = self._files.of(name)
            if now.sha256 != sha256:
                change = now.problem or "has changed since the run was queued"
                return f"{name} {change}; to use the new version: {hints.QUEUE_RETRY(entry=entry.name)}"
        return ""

    # --- following ----------------------------------------------------------------------------------------

    def _follow(self, entry: QueueEntry) -> None:
        record = _record(entry)
        if record is None:
            self._replace(entry, lambda now: now.ended("failed", f"{entry.folder} is gone", time.time()))
            return
        try:
            status, is_living = _status(record)
        except RltuiError as error:  # it is stopped, or at its limit of clients: it goes on
            logger.warning("%s: %s", entry.name, error.title)
            return
        outcome, reason = verdict(status, living=is_living)
        if outcome is None and is_living:
            reason = self._rules.broken(entry, record)
            outcome = "stopped" if reason else None
            if reason:
                _note(record, reason)
        if outcome is None:
            pending_reason = _pending(status) if entry.is_job else ""
            if pending_reason != entry.why:
                self._replace(entry, lambda now: now.replace(why=pending_reason))
            return
        logger.info("%s: %s %s", entry.name, outcome, reason)
        if is_living:
            ending_fields = {"state": "stopping", "outcome": outcome, "why": reason}
            self._replace(entry, lambda now: now.replace(**ending_fields))
        else:
            self._replace(entry, lambda now: now.ended(outcome, reason, time.time()))

    def _end(self, entry: QueueEntry) -> None:
        """Have `rltui down` end what still runs of it: its devices are for the next one. The queue does that,
        whoever added it: an agent would need a person for it.
        """
        program, record = self._programs.get(entry.id), _record(entry)
        is_up = record is not None and (launch.has_supervisor(record) or launch.is_running(record))
        if program is not None:
            if not program.has_ended():
                return
            del self._programs[entry.id]
            if is_up and program.process.returncode:
                logger.error("%s cannot be ended: %s", entry.name, _last_error(entry))
                self._not_before[entry.id] = time.monotonic() + _RETRY_END_S
        if is_up:
            if time.monotonic() >= self._not_before.get(entry.id, 0.0):
                self._programs[entry.id] = self._run(
                    entry, module_command("rltui", "down", entry.name), _LONGEST_START_S, by={ACTOR: "queue"}
                )
            return
        outcome = entry.outcome or "stopped"
        self._replace(entry, lambda now: now.ended(outcome, now.why, time.time()))


def verdict(status: Mapping[str, Any], *, living: bool) -> tuple[Outcome | None, str]:
    """Outcome of a run by its status, and the reason in words. `None`: it still runs.

    `living`: the status is the supervisor's, rather than made from the files.
    """
    state, reason = status["state"], status["reason"]["text"]
    if status.get("transaction"):
        return None, ""
    if state == "done":
        return (None, "") if living and status.get("evals") else ("done", "")
    is_over = state == "failed" or (not living and state in ("stopped", "lost"))
    return (state, reason) if is_over else (None, "")


def _pending(status: Mapping[str, Any]) -> str:
    hosts = [component["host"] for component in status["components"] if component.get("host")]
    return next((host["reason"] for host in hosts if host["phase"] == "pending"), "")


def start_entry(entry: QueueEntry) -> None:
    """Start the run of an entry; where an earlier start came to something, that is resumed. While somebody
    holds the index of runs, it is tried again: nothing is left of a start that failed.

    Raises:
        ConfigError, ConflictError, RltuiError: as `starting.start_order`.
    """
    from rltui.client.starting import StartOrder, start_order  # in the program that starts it
    from rltui.services.runs.index import IndexBusyError

    if entry.by is not None:
        introduce(entry.by.kind, entry.by.name)
    report, until = partial(print, file=sys.stderr), time.monotonic() + _INDEX_WAIT_S
    while True:
        is_resumed = bool(_attempts(entry)) and _record(entry) is not None
        evals = () if is_resumed else entry.evals
        order = StartOrder(request=entry.run_request(is_resumed=is_resumed), evals=evals)
        try:
            start_order(order, report=report)
            return
        except IndexBusyError as error:
            if time.monotonic() > until:
                raise
            report(error)


def _record(entry: QueueEntry) -> ExperimentRecord | None:
    """`None` if this entry did not start it."""
    try:
        record = find_experiment(entry.name)
        if record is None or not same_folder(record.output_dir, entry.folder):
            return None
        metadata = _metadata(entry)
    except RltuiError as error:
        logger.error("%s: %s", entry.name, error)
        return None
    return record if metadata is not None and metadata.entry == entry.id else None


def _metadata(entry: QueueEntry) -> RunMetadata | None:
    return read_metadata(ControlFolder(Path(entry.folder)).path)


def _attempts(entry: QueueEntry) -> int:
    control = ControlFolder(Path(entry.folder))
    return sum(len(control.attempts(folder.parent.name)) for folder in control.newest_attempts())


def _started_record(entry: QueueEntry) -> str:
    """Id of the run, where the last start of the entry has begun something; empty: it has not."""
    record = _record(entry)
    metadata = _metadata(entry) if record is not None else None
    if record is None or metadata is None:
        return ""
    try:
        status, is_living = _status(record)
    except RltuiError:  # somebody is there
        return metadata.id
    is_under_way = is_living and (status["alive"] or bool(status["transaction"]))
    return metadata.id if is_under_way or _attempts(entry) > entry.attempts_before else ""


def _status(record: ExperimentRecord) -> tuple[Mapping[str, Any], bool]:
    """Output of `rltui status`, and whether a supervisor sent it."""
    wire = launch.connect(record, timeout_s=_STATUS_TIMEOUT_S)
    if wire is not None:
        with wire:
            return wire.call("status", timeout_s=_STATUS_TIMEOUT_S), True
    argv = module_command("rltui", "status", record.name, "--json")
    process = subprocess.run(
        argv, capture_output=True, timeout=_COMMAND_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
    )
    if process.returncode not in (ExitCode.DONE, ExitCode.COMPONENT_FAILED):
        output = process.stderr or process.stdout  # that a supervisor hangs is a status, on stdout
        raise RltuiError(f"cannot read its status: {output.decode(errors='replace')[-200:]}")
    return json.loads(process.stdout), False


def _note(record: ExperimentRecord, text: str) -> None:
    try:
        wire = launch.connect(record, timeout_s=_STATUS_TIMEOUT_S)
        if wire is not None:
            with wire:
                wire.call("note", {"text": text}, timeout_s=_STATUS_TIMEOUT_S)
    except RltuiError as error:
        logger.warning("%s: not in its journal: %s", record.name, error.title)


def _stderr_file(entry: QueueEntry) -> Path:
    """File with the stderr of the last command for an entry."""
    return paths.queue_folder() / f"{entry.id}.log"


def _last_error(entry: QueueEntry) -> str:
    """The last error on its stderr, as one line."""
    text = _stderr_file(entry).read_bytes()[-_LAST_ERROR_BYTES:].decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    text_line = next(
        (line for line in reversed(lines) if line.startswith("rltui: ")), lines[-1] if lines else ""
    )
    return text_line.removeprefix("rltui: ") or "did not start and printed nothing"
