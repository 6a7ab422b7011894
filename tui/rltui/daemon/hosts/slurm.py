"""A component that runs as a SLURM job: submitted, followed by its number, its output read, cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.daemon.hosts.follower import Follower, HostError, UnreachedError
from rltui.errors import RltuiError
from rltui.services import slurm
from rltui.services.job_arrays import ArrayPlace, JobArray, Task, array_script
from rltui.services.remote import Remote

_POLLS_S = (1.0, 10.0)
"""First and longest pause between two questions; each is 1.3 times the one before, from every change on."""
_OUTPUT_S = 0.5
"""Between two looks at the file with the output."""
_LOST_S = (2.0, 60.0)
"""First and longest pause after a question that nobody answered; each is twice the one before."""
_ANSWER_S = 60.0
"""SLURM's commands give a silent controller up after 9 to 20 s."""
_SUBMIT_S = 300.0
"""sbatch itself tries again while the controller has no room."""
_UNREACHED_S = 25.0
"""So long a stop is tried where nobody answers."""
_UNSEEN_S = 60.0
"""A job that runs for so long has made the file with its output, where that can be seen from here."""
_CLOCKS_DIFFER_S = 60.0
"""So much the clock of a file server may be behind ours."""
_PIECE_BYTES = 1 << 18
_OVERLAP_BYTES = 256
"""So much before the place that was read up to must still be what it was: else the file was begun anew."""
_TRAPS_TERM = re.compile(r"^[^#\n]*\btrap\b[^#\n]*\b(?:SIG)?TERM\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Answer:
    code: int
    output: str
    errors: str


async def run(follower: Follower) -> None:
    """See `ProcessHost`."""
    await _FollowedJob(follower).follow()


class _Commands:
    """SLURM's own, with whether they answer."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.env = slurm.environment({**os.environ, **follower.env})

    async def until_answered(
        self, command: Sequence[str], *, may_fail: Callable[[str], bool] = lambda _: False
    ) -> _Answer:
        """Ask again and again until there is an answer: a success, or a failure that may be."""
        pause, longest = _LOST_S
        while True:
            answer = await self.ask(command, timeout_s=_ANSWER_S)
            if answer is not None and (answer.code == 0 or may_fail(answer.errors)):
                self._follower.reach()
                return answer
            await self.give_time(answer, pause)
            pause = min(longest, 2 * pause)

    async def give_time(self, answer: _Answer | None, pause: float) -> None:
        """Nobody answered: wait before the next try.

        Raises:
            UnreachedError: if a stop was asked for and nobody has answered for some time.
        """
        follower = self._follower
        follower.lose(_why_lost(answer))
        lost_at = follower.remote.lost_at
        if not follower.stop_asked.is_set():
            await _wait(follower.stop_asked, pause)
        elif lost_at is not None and time.time() - lost_at > _UNREACHED_S:
            raise UnreachedError
        else:
            await asyncio.sleep(_LOST_S[0])

    async def ask(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> _Answer | None:
        """`None`: there was no answer in time."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd or self._follower.folder,
                env=env or self.env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return _Answer(127, "", f"cannot run {command[0]}: {error.strerror}")
        try:
            async with asyncio.timeout(timeout_s):
                output, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return None
        said, wrong = output.decode(errors="replace"), errors.decode(errors="replace")
        if (
            process.returncode and not wrong.strip()
        ):  # as scontrol says that there is no such task of an array
            wrong = said
        return _Answer(process.returncode or 0, said, wrong)


class _Submission:
    """From a component to the number of its job."""

    def __init__(self, follower: Follower, commands: _Commands) -> None:
        self._follower = follower
        self._spec = follower.host
        self._script = follower.folder / slurm.SCRIPT_FILE
        self._commands = commands

    async def make(self) -> str | None:
        """The number of the job, of one that a follower before has submitted and could not say any more too.

        `None`: a stop was asked for before there was one.

        Raises:
            HostError: if there cannot be one.
            UnreachedError: if a stop was asked for and SLURM does not say whether there is one.
        """
        if slurm.is_absent():
            raise HostError("there is no `sbatch` here: start rltui where jobs are submitted from")
        if number := self._spec["job"]:
            return str(number)
        if not self._script.exists():
            text = await self._script_text()
            if text is None:
                return None
            begun = self._script.with_suffix(".begun")
            begun.write_text(text, encoding="utf-8")
            begun.replace(self._script)  # as a whole: from now on it may run
        elif (number := await self._find(self._script)) is not None:
            return number
        return await self._submit()

    async def _script_text(self) -> str | None:
        """`None`: a stop was asked for before it was there."""
        follower = self._follower
        try:
            if not self._spec["script"]:
                return slurm.script_text(
                    self._spec,
                    name=slurm.job_name(follower.experiment, follower.component),
                    argv=follower.argv,
                    cwd=follower.cwd,
                    folder=follower.folder,
                )
            slurm.options(self._spec)
        except ValueError as error:
            raise HostError(str(error)) from error
        began = time.time()
        code = await self._prepare([*follower.argv, *self._spec["arguments"], *self._spec["preview"]])
        if code is None:
            return None
        if code:
            raise HostError(f"{follower.argv[0]} wrote no job script: it ended with code {code}")
        return _written([Path(follower.cwd, name) for name in self._spec["script"]], since=began)

    async def _prepare(self, argv: Sequence[str]) -> int | None:
        """Run what writes the script, on this machine; its output is the component's."""
        follower = self._follower
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=follower.cwd,
                env={**os.environ, **follower.env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"cannot run {argv[0]}: {error.strerror}") from error
        follower.tell(replace(follower.remote, reason="its job script is being written"))
        assert process.stdout is not None
        asked = asyncio.create_task(follower.stop_asked.wait())
        reading = asyncio.create_task(_copy(process.stdout, follower.write))
        try:
            await asyncio.wait({asked, reading}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return None
            return await process.wait()
        finally:
            asked.cancel()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM if asked.done() else signal.SIGKILL)
                await process.wait()

    async def _submit(self) -> str | None:
        """The number of the job; `None`: a stop was asked for before it was one."""
        if not self._spec["array"]:
            return await self._sbatch(self._script)
        try:
            return await self._submit_in_array()
        except (OSError, ValueError, RltuiError) as error:
            raise HostError(f"the job array of its sweep: {error}") from error

    async def _submit_in_array(self) -> str | None:
        """The number of its task, once all that are expected are there; where the array goes without it, of a
        job of its own. `None`: a stop was asked for before.

        Raises:
            OSError: if a script cannot be read or written.
            ValueError: if the layout names no array.
            RltuiError: if the array cannot be read or written.
        """
        follower = self._follower
        place = ArrayPlace(self._spec["array"])
        script, log = str(self._script), str(follower.folder / slurm.LOG_FILE)
        task = Task(script=script, log=log, env=follower.env, since=time.time())
        began_to_stop: float | None = None
        while place.folder.is_dir():
            if place.lock.take():
                try:
                    array = await self._joined(place, task)
                finally:
                    place.lock.release()
                is_over = array is None or array.job or array.fault
                if array is None or (is_over and not array.has(place.number, script)):
                    break
                if array.fault:
                    raise HostError(array.fault)
                if array.job:
                    return f"{array.job}_{place.number}"
                if not array.has(place.number, script):
                    return None
                runs = array.awaits(time.time())
                more = f"{runs} more run{'s' if runs != 1 else ''}"
                waits = f"waits for {more} of its sweep, to be one job array with"
                follower.tell(replace(follower.remote, reason=waits))
            if follower.stop_asked.is_set():
                began_to_stop = began_to_stop or time.monotonic()
                if time.monotonic() - began_to_stop > _UNREACHED_S:
                    raise UnreachedError
                await asyncio.sleep(_OUTPUT_S)
            else:
                await _wait(follower.stop_asked, _OUTPUT_S)
        return await self._sbatch(self._script)

    async def _joined(self, place: ArrayPlace, task: Task) -> JobArray | None:
        """The array with our task, or without it where a stop was asked for; submitted where it is time.
        `None`: there is none for us. Its lock is held.
        """
        before = array = place.read()
        if array is None or array.component != self._follower.component:
            return None
        if array.is_closed and not array.job and not array.fault:  # who submitted it did not come to say so
            found = await self._find(place.script)
            array = replace(array, job=found or "", is_closed=found is not None)
        if not array.is_closed:
            stops = self._follower.stop_asked.is_set()
            array = array.without(place.number) if stops else array.with_task(place.number, task)
            if not stops and not array.awaits(time.time()):
                array = array.closed(place.number)
                place.write(array)
                array = await self._submit_all(place, array)
        if array != before:
            place.write(array)
        return array

    async def _submit_all(self, place: ArrayPlace, array: JobArray) -> JobArray:
        place.script.write_text(
            array_script(array, place.number, name=self._spec["job_name"]), encoding="utf-8"
        )
        try:
            job = await self._sbatch(place.script)
        except HostError as error:
            return replace(array, fault=str(error))
        return replace(array, job=job) if job else replace(array, is_closed=False).without(place.number)

    async def _sbatch(self, script: Path) -> str | None:
        """The number of the job that it has become; `None`: a stop was asked for before."""
        follower = self._follower
        command = slurm.submit_command(self._spec, script)
        cwd = follower.cwd if self._spec["script"] else None  # where a launcher's script begins
        env = self._commands.env
        if self._spec["auto_auth"] and not env.get("HF_TOKEN") and (token := slurm.token_of_login(env)):
            env = {**env, "HF_TOKEN": token}
        pause, longest = _LOST_S
        while not follower.stop_asked.is_set():
            answer = await self._commands.ask(command, timeout_s=_SUBMIT_S, env=env, cwd=cwd)
            if answer is not None and answer.code == 0 and (number := _job_number(answer.output)):
                follower.reach()
                return number
            if answer is not None and not slurm.is_no_answer(answer.errors):
                raise HostError(f"SLURM refused the job: {slurm.fault(answer.errors)}")
            follower.lose("the job cannot be submitted: " + _why_lost(answer))
            await _wait(follower.stop_asked, pause)
            pause = min(longest, 2 * pause)
            # The controller may have taken it, and only its answer was lost.
            if (number := await self._find(script)) is not None:
                return number
        return None

    async def _find(self, script: Path) -> str | None:
        """The number of the job that was submitted with that script."""
        answer = await self._commands.until_answered(slurm.find_command())
        return slurm.found(answer.output, script)


class _FollowedJob:
    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._spec = follower.host
        self._script = follower.folder / slurm.SCRIPT_FILE
        self._commands = _Commands(follower)
        self._own_output = follower.folder / slurm.LOG_FILE
        self._output: _Output | None = None
        self._last: slurm.Job | None = None

    async def follow(self) -> None:
        follower = self._follower
        if not follower.remote.id:
            number = await _Submission(follower, self._commands).make()
            if number is None:
                follower.tell(replace(follower.remote, phase="ended", signal="SIGTERM", reason=""))
                return
            written = str(follower.written)
            follower.tell(Remote(id=number, where=f"job {number}", reason="submitted", cursor=written))
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
            await _wait(self._follower.stop_asked, min(left, _OUTPUT_S))
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
                await asyncio.sleep(_LOST_S[1])

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
                ends_at=job.end if is_running else None,
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
        if self._output is None and not self._spec["script"] and not self._spec["job"]:
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
            await self._cancel(*words, number)
            if again_s < grace_s and not await _wait(follower.kill_asked, again_s):
                await self._cancel(*words, number)
                again_s = grace_s - again_s
            await _wait(follower.kill_asked, again_s)
        if not follower.kill_asked.is_set():
            await self._cancel(number)
            await follower.kill_asked.wait()
        # Of the batch step alone: any other SIGKILL is taken for a request to end the job with SIGTERM first.
        await self._cancel("--batch", "--signal=KILL", number)
        await self._cancel(number)
        await asyncio.Event().wait()

    async def _telling_first(self) -> tuple[str, ...]:
        """How what runs is asked to end; empty: by cancelling the job, as no signal of ours would do."""
        job = await self._look()
        if job is None or job.phase != "running":
            return ()
        if self._spec["script"] or self._spec["job"]:
            # A launcher's script that minds SIGTERM ends its programs in order. Another one would die of it.
            return ("--batch", "--signal=TERM") if self._minds_term() else ()
        signal_ = f"--signal={self._follower.stop['signal'].removeprefix('SIG')}"
        return (signal_,) if slurm.is_parallel(self._spec) else ("--batch", signal_)

    def _minds_term(self) -> bool:
        try:
            return bool(_TRAPS_TERM.search(self._script.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError):
            return False

    async def _cancel(self, *words: str) -> None:
        while True:
            answer = await self._commands.ask(("scancel", *words), timeout_s=_ANSWER_S)
            if answer is not None and not slurm.is_no_answer(answer.errors):
                return  # done, or it has ended meanwhile: either way, the next look tells
            await self._commands.give_time(answer, _LOST_S[0])


class _Output:
    """The file that the job writes its output to, on a file system that this machine shares.

    The log of the attempt has what was read of it, from `cursor` on: so the place to read on from is known
    however a follower ended.
    """

    def __init__(self, path: Path, follower: Follower) -> None:
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


def _written(paths: Sequence[Path], *, since: float) -> str:
    """The first that the launcher wrote. Raises HostError where it has written none."""
    for path in paths:
        with contextlib.suppress(OSError):
            if path.stat().st_mtime >= since - _CLOCKS_DIFFER_S:
                return path.read_text(encoding="utf-8")
    raise HostError(f"no job script was written as {' or '.join(map(str, paths))}")


async def _copy(reader: asyncio.StreamReader, write: Callable[[bytes], None]) -> None:
    while data := await reader.read(_PIECE_BYTES):
        write(data)


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    """Whether it was set within that time."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _job_number(printed: str) -> str | None:
    """The option `--parsable` prints it, with `;CLUSTER` behind it where there are several."""
    number = printed.strip().rpartition("\n")[2].partition(";")[0]
    return number if number.isdecimal() else None


def _why_lost(answer: _Answer | None) -> str:
    return f"no answer within {_ANSWER_S:.0f} s" if answer is None else slurm.fault(answer.errors)


def _news(job: slurm.Job) -> tuple[object, ...]:
    return job.state, job.reason, job.restarts, job.nodes


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
