"""The way from a component to the number of its SLURM job, and SLURM's commands, which may not answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.daemon.hosts.remote_runner import HostError, RemoteRunner, UnreachedError, is_set_within
from rltui.errors import RltuiError
from rltui.services import slurm
from rltui.services.job_arrays import ArrayPlace, JobArray, Task, array_script

_LOST_S = (2.0, 60.0)
"""First and longest pause after a question that nobody answered; each is twice the one before."""
_ANSWER_S = 60.0
"""SLURM's commands give a silent controller up after 9 to 20 s."""
_SUBMIT_S = 300.0
"""sbatch itself tries again while the controller has no room."""
_UNREACHED_S = 25.0
"""So long a stop is tried where nobody answers."""
_CLOCKS_DIFFER_S = 60.0
"""So much the clock of a file server may be behind ours."""
_GATHERED_S = 0.5
"""Between two looks at whether all runs of an array are there."""
_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class _Answer:
    code: int
    output: str
    errors: str


class Commands:
    """SLURM's own, with whether they answer."""

    def __init__(self, follower: RemoteRunner) -> None:
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
            await self._give_time(answer, pause)
            pause = min(longest, 2 * pause)

    async def cancel(self, *words: str) -> None:
        """Ask `scancel` until it answers.

        Raises:
            UnreachedError: if a stop was asked for and nobody has answered for some time.
        """
        while True:
            answer = await self.ask(("scancel", *words), timeout_s=_ANSWER_S)
            if answer is not None and not slurm.is_no_answer(answer.errors):
                return  # done, or it has ended meanwhile: either way, the next look tells
            await self._give_time(answer, _LOST_S[0])

    async def _give_time(self, answer: _Answer | None, pause: float) -> None:
        """Nobody answered: wait before the next try.

        Raises:
            UnreachedError: if a stop was asked for and nobody has answered for some time.
        """
        follower = self._follower
        follower.lose(_why_lost(answer))
        lost_at = follower.remote.lost_at
        if not follower.stop_asked.is_set():
            await is_set_within(follower.stop_asked, pause)
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
        if process.returncode and not wrong.strip():  # as scontrol says that an array has no such task
            wrong = said
        return _Answer(process.returncode or 0, said, wrong)


class Submission:
    """From a component to the number of its job."""

    def __init__(self, follower: RemoteRunner, commands: Commands) -> None:
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
        if not self._spec["array"]:
            return await self._sbatch(self._script)
        try:
            return await self._submit_in_array()
        except (OSError, ValueError, RltuiError) as error:
            raise HostError(f"the job array of its sweep: {error}") from error

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
        # the first that the launcher wrote
        paths = [Path(follower.cwd, name) for name in self._spec["script"]]
        for path in paths:
            with contextlib.suppress(OSError):
                if path.stat().st_mtime >= began - _CLOCKS_DIFFER_S:
                    return path.read_text(encoding="utf-8")
        raise HostError(f"no job script was written as {' or '.join(map(str, paths))}")

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
                await asyncio.sleep(_GATHERED_S)
            else:
                await is_set_within(follower.stop_asked, _GATHERED_S)
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
            await is_set_within(follower.stop_asked, pause)
            pause = min(longest, 2 * pause)
            # The controller may have taken it, and only its answer was lost.
            if (number := await self._find(script)) is not None:
                return number
        return None

    async def _find(self, script: Path) -> str | None:
        """The number of the job that was submitted with that script."""
        answer = await self._commands.until_answered(slurm.find_command())
        return slurm.found(answer.output, script)


async def _copy(reader: asyncio.StreamReader, write: Callable[[bytes], None]) -> None:
    while data := await reader.read(_PIECE_BYTES):
        write(data)


def _job_number(printed: str) -> str | None:
    """The option `--parsable` prints it, with `;CLUSTER` behind it where there are several."""
    number = printed.strip().rpartition("\n")[2].partition(";")[0]
    return number if number.isdecimal() else None


def _why_lost(answer: _Answer | None) -> str:
    return f"no answer within {_ANSWER_S:.0f} s" if answer is None else slurm.fault(answer.errors)
