"""The submission of a component as a SLURM job, and SLURM's commands, which may not answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.text import count_text
from rltui.errors import RltuiError
from rltui.hosts.remote_runner import STOP_TIMEOUT_S, HostError, RemoteRunner, UnreachedError
from rltui.services.hosts import slurm
from rltui.services.hosts.job_arrays import ArrayMember, JobArray, Task, array_script

_RETRY_PAUSES_S = (2.0, 60.0)
"""First and longest pause after a command that nobody answered; each is twice the one before."""
_ANSWER_TIMEOUT_S = 60.0
"""SLURM's commands give a silent controller up after 9 to 20 s."""
_SUBMIT_TIMEOUT_S = 300.0
"""`sbatch` itself tries again while the controller has no room."""
_CLOCK_SKEW_S = 60.0
"""Most that the clock of a file server may be behind ours."""
_ARRAY_POLL_S = 0.5
"""Pause between two checks whether all runs of an array have joined it."""
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class _Answer:
    code: int
    output: str
    errors: str


class SlurmCommands:
    """SLURM's commands; reports whether they are answered."""

    def __init__(self, runner: RemoteRunner) -> None:
        self._runner = runner
        self.env = slurm.environment({**os.environ, **runner.env})

    async def run_until_answered(
        self, command: Sequence[str], *, may_fail: Callable[[str], bool] = lambda _: False
    ) -> _Answer:
        """Run the command until there is an answer: a success, or a failure that `may_fail` accepts."""
        pause, longest = _RETRY_PAUSES_S
        while True:
            answer = await self.run(command, timeout_s=_ANSWER_TIMEOUT_S)
            if answer is not None and (answer.code == 0 or may_fail(answer.errors)):
                self._runner.report_reached()
                return answer
            self._runner.report_lost(_lost_reason(answer))
            await self._runner.pause(pause)
            pause = min(longest, 2 * pause)

    async def cancel(self, *arguments: str) -> None:
        """Run `scancel` until it is answered.

        Raises:
            UnreachedError: if a stop was asked for and nobody has answered for some time.
        """
        while True:
            answer = await self.run(("scancel", *arguments), timeout_s=_ANSWER_TIMEOUT_S)
            if answer is not None and not slurm.is_no_answer(answer.errors):
                return  # done, or it has ended meanwhile: either way, the next poll tells
            self._runner.report_lost(_lost_reason(answer))
            await self._runner.pause(_RETRY_PAUSES_S[0])

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> _Answer | None:
        """Run the command once. `None`: there was no answer in time."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd or self._runner.folder,
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
        output_text, error_text = output.decode(errors="replace"), errors.decode(errors="replace")
        if process.returncode and not error_text.strip():  # as scontrol says that an array has no such task
            error_text = output_text
        return _Answer(process.returncode or 0, output_text, error_text)


class Submission:
    def __init__(self, runner: RemoteRunner, commands: SlurmCommands) -> None:
        self._runner = runner
        self._spec = runner.host
        self._script = runner.folder / slurm.SCRIPT_FILE
        self._commands = commands

    async def submit(self) -> str | None:
        """The number of the job, also of one that an earlier runner has submitted and could not report.

        `None`: a stop was asked for before there was one.

        Raises:
            HostError: if there cannot be one.
            UnreachedError: if a stop was asked for and SLURM does not say whether there is one.
        """
        if slurm.is_absent():
            raise HostError("`sbatch` not found: start rltui on a submit host")
        if job_id := self._spec["job"]:
            return str(job_id)
        if not self._script.exists():
            text = await self._script_text()
            if text is None:
                return None
            temporary = self._script.with_suffix(".begun")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self._script)  # as a whole: from now on it may run
        elif (job_id := await self._find_job(self._script)) is not None:
            return job_id
        if not self._spec["array"]:
            return await self._sbatch(self._script)
        try:
            return await self._submit_in_array()
        except (OSError, ValueError, RltuiError) as error:
            raise HostError(f"the job array of its sweep: {error}") from error

    async def _script_text(self) -> str | None:
        """The job script. `None`: a stop was asked for before it was there."""
        runner = self._runner
        try:
            if not self._spec["script"]:
                return slurm.script_text(
                    self._spec,
                    name=slurm.job_name(runner.experiment, runner.component),
                    argv=runner.argv,
                    cwd=runner.cwd,
                    folder=runner.folder,
                )
            slurm.options(self._spec)
        except ValueError as error:
            raise HostError(str(error)) from error
        started_at = time.time()
        exit_code = await self._run_launcher([*runner.argv, *self._spec["arguments"], *self._spec["preview"]])
        if exit_code is None:
            return None
        if exit_code:
            raise HostError(f"{runner.argv[0]} wrote no job script (exit code {exit_code})")
        # the first that the launcher wrote
        paths = [Path(runner.cwd, name) for name in self._spec["script"]]
        for path in paths:
            with contextlib.suppress(OSError):
                if path.stat().st_mtime >= started_at - _CLOCK_SKEW_S:
                    return path.read_text(encoding="utf-8")
        raise HostError(f"no job script was written as {' or '.join(map(str, paths))}")

    async def _run_launcher(self, argv: Sequence[str]) -> int | None:
        """Run the launcher that writes the script, on this machine; its output is the component's.

        Returns its exit code; `None`: a stop was asked for.
        """
        runner = self._runner
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=runner.cwd,
                env={**os.environ, **runner.env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"cannot run {argv[0]}: {error.strerror}") from error
        runner.report(replace(runner.status, reason="its job script is being written"))
        assert process.stdout is not None
        stop_waiter = asyncio.create_task(runner.stop_requested.wait())
        reader = asyncio.create_task(_copy(process.stdout, runner.write))
        try:
            await asyncio.wait({stop_waiter, reader}, return_when=asyncio.FIRST_COMPLETED)
            if stop_waiter.done():
                return None
            return await process.wait()
        finally:
            stop_waiter.cancel()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM if stop_waiter.done() else signal.SIGKILL)
                await process.wait()

    async def _submit_in_array(self) -> str | None:
        """The number of its task, once all expected ones have joined; of a job of its own where the array
        went without it.

        `None`: a stop was asked for before.

        Raises:
            OSError: if a script cannot be read or written.
            ValueError: if the layout names no array.
            RltuiError: if the array cannot be read or written.
        """
        runner = self._runner
        place = ArrayMember(self._spec["array"])
        script, log = str(self._script), str(runner.folder / slurm.LOG_FILE)
        task = Task(script=script, log=log, env=runner.env, since=time.time())
        stopping_since: float | None = None
        while place.folder.is_dir():
            if place.lock.acquire():
                try:
                    array = await self._join_array(place, task)
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
                missing = array.awaited_count(time.time())
                missing_text = count_text(missing, "more run")
                reason = f"waiting for {missing_text} of its sweep, to form one job array"
                runner.report(replace(runner.status, reason=reason))
            if runner.stop_requested.is_set():
                stopping_since = stopping_since or time.monotonic()
                if time.monotonic() - stopping_since > STOP_TIMEOUT_S:
                    raise UnreachedError
            await runner.pause(_ARRAY_POLL_S)
        return await self._sbatch(self._script)

    async def _join_array(self, place: ArrayMember, task: Task) -> JobArray | None:
        """The array with our task, or without it where a stop was asked for; submitted once all have joined.

        `None`: there is none for us. The caller holds its lock.
        """
        previous = array = place.read()
        if array is None or array.component != self._runner.component:
            return None
        if (
            array.is_closed and not array.job and not array.fault
        ):  # its submitter was ended before it could say so
            job_id = await self._find_job(place.script)
            array = replace(array, job=job_id or "", is_closed=job_id is not None)
        if not array.is_closed:
            is_stopping = self._runner.stop_requested.is_set()
            array = array.without(place.number) if is_stopping else array.with_task(place.number, task)
            if not is_stopping and not array.awaited_count(time.time()):
                array = array.closed(place.number)
                place.write(array)
                array = await self._submit_all(place, array)
        if array != previous:
            place.write(array)
        return array

    async def _submit_all(self, place: ArrayMember, array: JobArray) -> JobArray:
        place.script.write_text(
            array_script(array, place.number, name=self._spec["job_name"]), encoding="utf-8"
        )
        try:
            job = await self._sbatch(place.script)
        except HostError as error:
            return replace(array, fault=str(error))
        return replace(array, job=job) if job else replace(array, is_closed=False).without(place.number)

    async def _sbatch(self, script: Path) -> str | None:
        """The number of the job that was submitted; `None`: a stop was asked for before."""
        runner = self._runner
        command = slurm.submit_command(self._spec, script)
        cwd = runner.cwd if self._spec["script"] else None  # where a launcher's script begins
        env = self._commands.env
        if self._spec["auto_auth"] and not env.get("HF_TOKEN") and (token := slurm.saved_hub_token(env)):
            env = {**env, "HF_TOKEN": token}
        pause, longest = _RETRY_PAUSES_S
        while not runner.stop_requested.is_set():
            answer = await self._commands.run(command, timeout_s=_SUBMIT_TIMEOUT_S, env=env, cwd=cwd)
            if answer is not None and answer.code == 0 and (job_id := _job_number(answer.output)):
                runner.report_reached()
                return job_id
            if answer is not None and not slurm.is_no_answer(answer.errors):
                raise HostError(f"SLURM rejected the job: {slurm.error_text(answer.errors)}")
            runner.report_lost("the job cannot be submitted: " + _lost_reason(answer))
            await runner.pause(pause)
            pause = min(longest, 2 * pause)
            # The controller may have taken it, and only its answer was lost.
            if (job_id := await self._find_job(script)) is not None:
                return job_id
        return None

    async def _find_job(self, script: Path) -> str | None:
        """The number of the job that was submitted with that script; `None`: there is none."""
        answer = await self._commands.run_until_answered(slurm.find_command())
        return slurm.find_job_number(answer.output, script)


async def _copy(reader: asyncio.StreamReader, write: Callable[[bytes], None]) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        write(data)


def _job_number(printed: str) -> str | None:
    """The job's number in what `--parsable` prints: `NUMBER`, or `NUMBER;CLUSTER` where there are several."""
    number = printed.strip().rpartition("\n")[2].partition(";")[0]
    return number if number.isdecimal() else None


def _lost_reason(answer: _Answer | None) -> str:
    return (
        f"no answer within {_ANSWER_TIMEOUT_S:.0f} s" if answer is None else slurm.error_text(answer.errors)
    )
