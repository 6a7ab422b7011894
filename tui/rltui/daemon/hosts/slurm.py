"""A component that runs as a SLURM job: submitted, followed by its number, its output read, cancelled."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

from rltui.daemon.hosts.remote_runner import RemoteRunner, is_set_within
from rltui.daemon.hosts.slurm_submission import Commands, Submission
from rltui.services import slurm
from rltui.services.job_status import JobStatus

_POLLS_S = (1.0, 10.0)
"""First and longest pause between two questions; each is 1.3 times the one before, from every change on."""
_OUTPUT_S = 0.5
"""Between two looks at the file with the output."""
_UNSEEN_S = 60.0
"""A job that runs for so long has made the file with its output, where that can be seen from here."""
_PIECE_BYTES = 1 << 18
_OVERLAP_BYTES = 256
"""So much before the place that was read up to must still be what it was: else the file was begun anew."""
_TRAPS_TERM = re.compile(r"^[^#\n]*\btrap\b[^#\n]*\b(?:SIG)?TERM\b", re.MULTILINE)


async def run(follower: RemoteRunner) -> None:
    await _FollowedJob(follower).follow()


class _FollowedJob:
    def __init__(self, follower: RemoteRunner) -> None:
        self._follower = follower
        self._spec = follower.host
        self._script = follower.folder / slurm.SCRIPT_FILE
        self._commands = Commands(follower)
        self._own_output = follower.folder / slurm.LOG_FILE
        self._output: _Output | None = None
        self._last: slurm.Job | None = None

    @property
    def _is_ours(self) -> bool:
        """The script is one of rltui's, which passes signals on and has its output where we say."""
        return not self._spec["script"] and not self._spec["job"]

    async def follow(self) -> None:
        follower = self._follower
        if not follower.remote.id:
            number = await Submission(follower, self._commands).make()
            if number is None:
                follower.tell(replace(follower.remote, phase="ended", signal="SIGTERM", reason=""))
                return
            written = str(follower.written)
            follower.tell(JobStatus(id=number, where=f"job {number}", reason="submitted", cursor=written))
        tasks = [asyncio.create_task(work) for work in (self._watch(), self._stop(), self._read_on())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # --- while it is a job ----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Until SLURM says that it has ended."""
        follower = self._follower
        pause, longest = _POLLS_S
        while True:
            job = await self._look()
            if job is None:
                self._end_forgotten()
                return
            is_news = self._last is None or _news(job) != _news(self._last)
            self._last = job
            if self._output is None and job.output:
                self._output = _Output(self._output_file(job), follower)
            if job.phase == "ended":
                self._end(job)
                return
            self._tell(job)
            pause = _POLLS_S[0] if is_news else min(longest, pause * 1.3)
            # What the script writes at its end is here sooner than SLURM is asked again, as is a stop.
            await self._until_worth_asking(pause, job.restarts)

    async def _until_worth_asking(self, pause: float, restarts: int) -> None:
        deadline = time.monotonic() + pause
        had_ended = slurm.recorded_end(self._follower.folder, restarts) is not None
        was_asked = self._follower.stop_asked.is_set()
        while (left := deadline - time.monotonic()) > 0:
            if was_asked:
                await asyncio.sleep(min(left, _POLLS_S[0]))
                return
            await is_set_within(self._follower.stop_asked, min(left, _OUTPUT_S))
            has_ended = slurm.recorded_end(self._follower.folder, restarts) is not None
            if self._follower.stop_asked.is_set() or has_ended != had_ended:
                return

    async def _look(self) -> slurm.Job | None:
        """`None`: SLURM does not know it any more."""
        command = ("scontrol", "show", "job", self._follower.remote.id)
        while True:
            answer = await self._commands.until_answered(command, may_fail=slurm.is_forgotten)
            if answer.code:
                return None
            try:
                return slurm.parse_job(answer.output)
            except ValueError as error:
                self._follower.lose(str(error))
                await asyncio.sleep(_POLLS_S[1])

    def _tell(self, job: slurm.Job) -> None:
        now, before = time.time(), self._follower.remote
        is_running = job.phase == "running"
        reason = job.reason_text(now)
        if is_running and not reason and job.start and self._is_unseen(job, now):
            file = self._output_file(job)
            reason = f"its output cannot be seen from here: {file}; do the nodes share that folder?"
        self._follower.tell(
            replace(
                before,
                where=self._where(job),
                nodes=job.nodes if job.state == "RUNNING" else "",
                phase=job.phase,
                reason=reason,
                starts=max(before.starts, job.restarts + (1 if job.state == "RUNNING" else 0)),
                ends_at=job.end if job.state == "RUNNING" else None,
            )
        )

    def _is_unseen(self, job: slurm.Job, now: float) -> bool:
        return job.start is not None and now - job.start > _UNSEEN_S and not self._output_file(job).exists()

    def _where(self, job: slurm.Job) -> str:
        at = f" on {job.nodes}" if job.nodes and job.phase != "pending" else ""
        return f"job {self._follower.remote.id}{at}"

    def _output_file(self, job: slurm.Job) -> Path:
        """That of an array is for all its tasks: each has its own file instead."""
        return (
            self._own_output if self._spec["array"] and "_" in self._follower.remote.id else Path(job.output)
        )

    # --- its end --------------------------------------------------------------------------------------------

    def _end(self, job: slurm.Job) -> None:
        self._drain()
        code: int | None = job.exit_code
        by_signal = _signal_name(job.signal)
        if code and code > 128 and by_signal is None and not self._spec["script"]:  # as the shell says it
            by_signal = _signal_name(code - 128)
        # At its time limit SLURM says 0, 15 or 255, whatever the program said.
        if by_signal is not None or job.state == "TIMEOUT" or (code == 0 and job.state != "COMPLETED"):
            code = None
        why = "" if self._follower.stop_asked.is_set() else job.why_ended
        self._ended(code, by_signal, why, starts=job.restarts + bool(job.nodes))

    def _end_forgotten(self) -> None:
        """SLURM has no record of it: what the script wrote at its end is the only witness."""
        self._drain()
        restarts = self._last.restarts if self._last is not None else 0
        code = slurm.recorded_end(self._follower.folder, restarts)
        if code is None:
            text = "SLURM does not know the job any more, and its script did not come to its end"
            if self._follower.stop_asked.is_set():  # a task of an array that had not begun
                text = ""
            self._ended(None, None, text, starts=self._follower.remote.starts)
            return
        by_signal = _signal_name(code - 128)
        self._ended(None if by_signal else code, by_signal, "", starts=max(1, self._follower.remote.starts))

    def _ended(self, code: int | None, by_signal: str | None, error: str, *, starts: int) -> None:
        self._follower.tell(
            replace(
                self._follower.remote,
                where=self._follower.remote.where if self._last is None else self._where(self._last),
                nodes="",
                phase="ended",
                reason="",
                exit_code=code,
                signal=by_signal,
                error=error or None,
                ends_at=None,
                starts=starts,
            )
        )

    # --- its output -----------------------------------------------------------------------------------------

    async def _read_on(self) -> None:
        while True:
            if self._output is not None and self._output.read_on():
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(_OUTPUT_S)

    def _drain(self) -> None:
        if self._output is None and self._is_ours:
            self._output = _Output(self._own_output, self._follower)
        while self._output is not None and self._output.read_on():
            pass

    # --- to end it ------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """As asked for. Does not return: SLURM says when it was enough.

        Raises:
            UnreachedError: if nobody has answered for some time.
        """
        follower = self._follower
        await follower.stop_asked.wait()
        number, grace_s = follower.remote.id, follower.stop["grace_s"]
        if not follower.kill_asked.is_set() and (words := await self._telling_first()):
            again_s = min(grace_s, follower.stop["again_s"] or grace_s)
            await self._commands.cancel(*words, number)
            if again_s < grace_s and not await is_set_within(follower.kill_asked, again_s):
                if (
                    not self._is_ours
                ):  # its shell minds a signal once its command has ended: that is told, too
                    words = ("--full", words[-1])
                await self._commands.cancel(*words, number)
                again_s = grace_s - again_s
            await is_set_within(follower.kill_asked, again_s)
        if not follower.kill_asked.is_set():
            await self._commands.cancel(number)
            await follower.kill_asked.wait()
        # Of the batch step alone: any other SIGKILL is taken for a request to end the job with SIGTERM first.
        await self._commands.cancel("--batch", "--signal=KILL", number)
        await self._commands.cancel(number)
        await asyncio.Event().wait()

    async def _telling_first(self) -> tuple[str, ...]:
        """How what runs is asked to end; empty: by cancelling the job, as no signal of ours would do."""
        job = await self._look()
        if job is None or job.phase != "running":
            return ()
        if not self._is_ours:
            # A launcher's script that minds SIGTERM ends its programs in order. Another one would die of it.
            return ("--batch", "--signal=TERM") if self._minds_term() else ()
        signal_ = f"--signal={self._follower.stop['signal'].removeprefix('SIG')}"
        return (signal_,) if slurm.is_parallel(self._spec) else ("--batch", signal_)

    def _minds_term(self) -> bool:
        try:
            return bool(_TRAPS_TERM.search(self._script.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError):
            return False


class _Output:
    """The file that the job writes its output to, on a file system that this machine shares.

    The log of the attempt has what was read of it, from `cursor` on: so the place to read on from is known
    however a follower ended.
    """

    def __init__(self, path: Path, follower: RemoteRunner) -> None:
        self._path = path
        self._follower = follower

    def read_on(self) -> bool:
        """Bring a piece over. False where there is no more for now."""
        follower = self._follower
        try:
            # Opened anew each time: so a network file system asks its server.
            with self._path.open("rb") as file:
                at = follower.written - int(follower.remote.cursor)
                if not self._is_the_same(file.fileno(), at):
                    at = 0
                    follower.tell(replace(follower.remote, cursor=str(follower.written)))
                piece = os.pread(file.fileno(), _PIECE_BYTES, at)
        except OSError:  # not made yet, or gone for a moment: looked at again
            return False
        follower.write(piece)
        return bool(piece)

    def _is_the_same(self, descriptor: int, at: int) -> bool:
        """It is the file that was read up to there: a requeued job may begin its output anew."""
        length = min(at, _OVERLAP_BYTES)
        if not length:
            return True
        return os.pread(descriptor, length, at - length) == self._follower.tail(length)


def _news(job: slurm.Job) -> tuple[object, ...]:
    return job.state, job.reason, job.restarts, job.nodes


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
