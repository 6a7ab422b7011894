"""A component that runs as a SLURM job: submitted, polled by its number, its output copied, cancelled."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

from rltui.hosts.remote_runner import RemoteRunner, is_set_within
from rltui.hosts.slurm_submission import SlurmCommands, Submission
from rltui.services.hosts import slurm
from rltui.services.hosts.job_status import JobStatus

_POLLS_S = (1.0, 10.0)
"""First and longest pause between two polls; each is 1.3 times the one before, from every change on."""
_OUTPUT_POLL_S = 0.5
"""Pause between two polls of the file with the output."""
_OUTPUT_DELAY_S = 60.0
"""A job that has run for so long has made its output file, where that can be seen from here."""
_CHUNK_BYTES = 1 << 18
_OVERLAP_BYTES = 256
"""The bytes before the read offset that must still be the same: else the file was begun again."""
_TRAPS_TERM = re.compile(r"^[^#\n]*\btrap\b[^#\n]*\b(?:SIG)?TERM\b", re.MULTILINE)


async def run(runner: RemoteRunner) -> None:
    await _JobRunner(runner).run()


class _JobRunner:
    def __init__(self, runner: RemoteRunner) -> None:
        self._runner = runner
        self._spec = runner.host
        self._script = runner.folder / slurm.SCRIPT_FILE
        self._commands = SlurmCommands(runner)
        self._own_output = runner.folder / slurm.LOG_FILE
        self._output: _Output | None = None
        self._last_job: slurm.Job | None = None

    @property
    def _is_own_script(self) -> bool:
        """True if rltui wrote the script, which then passes signals on and writes its output where we say."""
        return not self._spec["script"] and not self._spec["job"]

    async def run(self) -> None:
        runner = self._runner
        if not runner.status.id:
            script = str(self._script)
            runner.status = replace(runner.status, script=script)
            job_id = await Submission(runner, self._commands).submit()
            if job_id is None:
                runner.report_ended(signal_name="SIGTERM")
                return
            cursor = str(runner.written_bytes)
            where = f"job {job_id}"
            status = JobStatus(id=job_id, where=where, reason="submitted", cursor=cursor, script=script)
            runner.report(status)
        tasks = [asyncio.create_task(work) for work in (self._watch(), self._stop(), self._copy_output())]
        try:
            finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # --- while it is a job ----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Poll the job until SLURM says that it has ended."""
        runner = self._runner
        pause, longest = _POLLS_S
        while True:
            job = await self._poll()
            if job is None:
                self._finish_forgotten()
                return
            is_changed = self._last_job is None or _poll_state(job) != _poll_state(self._last_job)
            self._last_job = job
            if self._output is None and job.output:
                self._output = _Output(self._output_file(job), runner)
            if job.phase == "ended":
                self._finish(job)
                return
            self._report(job)
            pause = _POLLS_S[0] if is_changed else min(longest, pause * 1.3)
            # What the script writes at its end is here sooner than the next poll, as is a stop.
            await self._wait_for_poll(pause, job.restarts)

    async def _wait_for_poll(self, pause: float, restarts: int) -> None:
        deadline = time.monotonic() + pause
        had_recorded_end = slurm.recorded_end(self._runner.folder, restarts) is not None
        was_stop_requested = self._runner.stop_requested.is_set()
        while (remaining_s := deadline - time.monotonic()) > 0:
            if was_stop_requested:
                await asyncio.sleep(min(remaining_s, _POLLS_S[0]))
                return
            await is_set_within(self._runner.stop_requested, min(remaining_s, _OUTPUT_POLL_S))
            has_recorded_end = slurm.recorded_end(self._runner.folder, restarts) is not None
            if self._runner.stop_requested.is_set() or has_recorded_end != had_recorded_end:
                return

    async def _poll(self) -> slurm.Job | None:
        """The job as SLURM reports it; `None`: SLURM does not know it any more."""
        command = ("scontrol", "show", "job", self._runner.status.id)
        while True:
            answer = await self._commands.run_until_answered(command, may_fail=slurm.is_forgotten)
            if answer.code:
                return None
            try:
                return slurm.parse_job(answer.output)
            except ValueError as error:
                self._runner.report_lost(str(error))
                await asyncio.sleep(_POLLS_S[1])

    def _report(self, job: slurm.Job) -> None:
        now, previous = time.time(), self._runner.status
        is_running = job.phase == "running"
        reason = job.reason_text(now)
        is_due = is_running and job.start is not None and now - job.start > _OUTPUT_DELAY_S
        if is_due and not reason and not (file := self._output_file(job)).exists():
            reason = f"its output is not visible here: {file}; check that the nodes share that folder"
        self._runner.report(
            replace(
                previous,
                where=self._where(job),
                nodes=job.nodes if job.state == "RUNNING" else "",
                phase=job.phase,
                reason=reason,
                starts=max(previous.starts, job.restarts + (1 if job.state == "RUNNING" else 0)),
                ends_at=job.end if job.state == "RUNNING" else None,
            )
        )

    def _where(self, job: slurm.Job) -> str:
        on_nodes = f" on {job.nodes}" if job.nodes and job.phase != "pending" else ""
        return f"job {self._runner.status.id}{on_nodes}"

    def _output_file(self, job: slurm.Job) -> Path:
        """The file of this job's output; the tasks of an array have one each, unlike the array."""
        return self._own_output if self._spec["array"] and "_" in self._runner.status.id else Path(job.output)

    # --- its end --------------------------------------------------------------------------------------------

    def _finish(self, job: slurm.Job) -> None:
        self._drain()
        exit_code: int | None = job.exit_code
        signal_name = _signal_name(job.signal)
        # a shell adds 128 to the number of a signal
        if exit_code and exit_code > 128 and signal_name is None and not self._spec["script"]:
            signal_name = _signal_name(exit_code - 128)
        # At its time limit SLURM says 0, 15 or 255, whatever the program said.
        if signal_name is not None or job.state == "TIMEOUT" or (exit_code == 0 and job.state != "COMPLETED"):
            exit_code = None
        error = "" if self._runner.stop_requested.is_set() else job.why_ended
        self._report_ended(exit_code, signal_name, error, starts=job.restarts + bool(job.nodes))

    def _finish_forgotten(self) -> None:
        """Report the end as the script recorded it: SLURM has no record of the job."""
        self._drain()
        restarts = self._last_job.restarts if self._last_job is not None else 0
        exit_code = slurm.recorded_end(self._runner.folder, restarts)
        if exit_code is None:
            error = "SLURM no longer knows the job, whose script did not finish"
            if self._runner.stop_requested.is_set():  # a task of an array that had not begun
                error = ""
            self._report_ended(None, None, error, starts=self._runner.status.starts)
            return
        signal_name = _signal_name(exit_code - 128)
        self._report_ended(
            None if signal_name else exit_code, signal_name, "", starts=max(1, self._runner.status.starts)
        )

    def _report_ended(
        self, exit_code: int | None, signal_name: str | None, error: str, *, starts: int
    ) -> None:
        status = self._runner.status
        where = status.where if self._last_job is None else self._where(self._last_job)
        self._runner.report_ended(
            replace(status, where=where, nodes="", ends_at=None, starts=starts),
            exit_code=exit_code,
            signal_name=signal_name,
            error=error or None,
        )

    # --- its output -----------------------------------------------------------------------------------------

    async def _copy_output(self) -> None:
        while True:
            if self._output is not None and self._output.copy_chunk():
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(_OUTPUT_POLL_S)

    def _drain(self) -> None:
        if self._output is None and self._is_own_script:
            self._output = _Output(self._own_output, self._runner)
        while self._output is not None and self._output.copy_chunk():
            pass

    # --- to end it ------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Stop the job as requested. Does not return: SLURM says when it has ended.

        Raises:
            UnreachedError: if nobody has answered for some time.
        """
        runner = self._runner
        await runner.stop_requested.wait()
        job_id, grace_s = runner.status.id, runner.stop["grace_s"]
        if not runner.kill_requested.is_set() and (options := await self._gentle_stop_options()):
            pause_s = min(grace_s, runner.stop["again_s"] or grace_s)
            await self._commands.cancel(*options, job_id)
            if pause_s < grace_s and not await is_set_within(runner.kill_requested, pause_s):
                # its shell handles a signal once its command has ended: signal that, too
                if not self._is_own_script:
                    options = ("--full", options[-1])
                await self._commands.cancel(*options, job_id)
                pause_s = grace_s - pause_s
            await is_set_within(runner.kill_requested, pause_s)
        if not runner.kill_requested.is_set():
            await self._commands.cancel(job_id)
            await runner.kill_requested.wait()
        # Of the batch step alone: any other SIGKILL is taken for a request to end the job with SIGTERM first.
        await self._commands.cancel("--batch", "--signal=KILL", job_id)
        await self._commands.cancel(job_id)
        await asyncio.Event().wait()

    async def _gentle_stop_options(self) -> tuple[str, ...]:
        """Options of `scancel` that ask the program to end; empty where only cancelling the job ends it."""
        job = await self._poll()
        if job is None or job.phase != "running":
            return ()
        if not self._is_own_script:
            # A launcher's script that traps SIGTERM ends its programs in order. Another one would die of it.
            return ("--batch", "--signal=TERM") if self._traps_term() else ()
        signal_option = f"--signal={self._runner.stop['signal'].removeprefix('SIG')}"
        return (signal_option,) if slurm.is_parallel(self._spec) else ("--batch", signal_option)

    def _traps_term(self) -> bool:
        try:
            return bool(_TRAPS_TERM.search(self._script.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError):
            return False


class _Output:
    """The file that the job writes its output to, on a file system that this machine shares.

    The attempt's log holds a copy of it from `cursor` on, so the offset to read on from is known however a
    runner ended.
    """

    def __init__(self, path: Path, runner: RemoteRunner) -> None:
        self._path = path
        self._runner = runner

    def copy_chunk(self) -> bool:
        """Copy the next bytes to the log. False where there are no more for now."""
        runner = self._runner
        try:
            # Opened anew each time: so a network file system asks its server.
            with self._path.open("rb") as file:
                offset = runner.written_bytes - int(runner.status.cursor)
                if not self._is_same_file(file.fileno(), offset):
                    offset = 0
                    runner.report(replace(runner.status, cursor=str(runner.written_bytes)))
                chunk = os.pread(file.fileno(), _CHUNK_BYTES, offset)
        except OSError:  # not made yet, or gone for a moment: polled again
            return False
        runner.write(chunk)
        return bool(chunk)

    def _is_same_file(self, descriptor: int, offset: int) -> bool:
        """True if the file still has the bytes that were read: a requeued job may begin its output again."""
        length = min(offset, _OVERLAP_BYTES)
        if not length:
            return True
        return os.pread(descriptor, length, offset - length) == self._runner.tail(length)


def _poll_state(job: slurm.Job) -> tuple[object, ...]:
    return job.state, job.reason, job.restarts, job.nodes


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
