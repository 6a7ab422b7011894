"""Components in pods that a StatefulSet makes, such as those of a Helm release.

Where the pod runs a command of its own, that is the component: its output is copied, the end of its program
is its end also where the pod sleeps on, and it is stopped by scaling its StatefulSet below the pod. Where the
pod only sleeps, the component's command is run in it, as on a node that kubectl reaches.

A start takes what the pod runs as it finds it. Only where an earlier attempt has seen that very container's
end is the pod deleted, so that it is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from rltui.core.hosts.kubectl import Kubectl
from rltui.errors import RltuiError
from rltui.hosts.remote_runner import HostError, RemoteRunner, is_set_within
from rltui.services.hosts import kube
from rltui.services.hosts.kube import NoContainerError, NoPodError, Pod, PodHandle
from rltui.services.processes import subprocesses

_PAUSES_S = (1.0, 15.0)
"""First and longest pause between two polls of a pod that does not run; each is 1.5 times the one before."""
_POLL_S = 3.0
"""Pause between two polls of a pod that runs."""
_QUIET_S = 20.0
"""After so long without output, a pod that outlives its program is searched for that program."""
_REST_TIMEOUT_S = 10.0
"""Longest time spent on the rest of the output of a container that ended."""
_OUTPUT_END_S = 1.0
"""Longest time from the end of a container to the end of its output."""
_SAVE_INTERVAL_S = 10.0
"""Pause between two writes of the cursor."""
_FORWARD_RETRY_S = 1.0
"""Pause before a port-forward that ended is started again."""
_NO_PORT = "no local port forwards to it"
_UNREADABLE = "cannot read its output"
_ENDED_INSIDE = "the pod stays up and keeps its devices"

_NANOSECONDS = 10**9
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)(?: |(?=\r?\n?$))")
_DONE_SEARCH_BYTES = 1 << 14
"""Size of the end of the log that is searched for the text that says that the work is done."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


async def run(runner: RemoteRunner) -> None:
    if shutil.which("kubectl") is None and not runner.status.id:
        raise HostError("kubectl is not installed")
    await _PodHost(runner).run()


class _PodHost:
    def __init__(self, runner: RemoteRunner) -> None:
        host = runner.host
        self._runner = runner
        kubectl = Kubectl(host["context"], host["namespace"])
        self._pod = PodHandle(kubectl, host["name"], host["container"])
        self._name: str = host["name"]
        self._earlier_attempt = runner.folder.with_name(f"attempt-{runner.attempt - 1}")
        self._done_pattern: str = host["done"]
        self._forward: tuple[str, ...] = tuple(host["forward"])
        self._pod_log = _PodLog(runner)
        self._pause_s = _PAUSES_S[0]
        self._idle_polls = 0
        self._forwarding = asyncio.create_task(self._forward_ports(), name="port-forward")

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            await _cancel(self._forwarding)

    async def _run(self) -> None:
        inside = _CommandInPod(self._runner, self._pod)
        if inside.was_started:
            await inside.run()
        elif (pod := await self._wait_for_pod()) is None:
            return
        elif pod.waits:
            inside.mark_started(pod)
            await inside.run()
        else:
            await self._follow(pod)

    async def _forward_ports(self) -> None:
        """Keep the ports here forwarded. That nobody answers is reported where the pod itself is polled."""
        arguments = ("port-forward", "--address=127.0.0.1", f"pod/{self._name}", *self._forward)
        while self._forward:
            with contextlib.suppress(RltuiError):
                failure = await subprocesses.follow(self._pod.kubectl.argv(*arguments), lambda _: None)
                if failure is not None and "unable to listen" in failure:
                    self._runner.report(replace(self._runner.status, reason=f"{_NO_PORT}: {failure}"))
            await asyncio.sleep(_FORWARD_RETRY_S)

    # --- until the pod runs -------------------------------------------------------------------------------

    async def _wait_for_pod(self) -> Pod | None:
        """The pod, once its container has run; `None` where a stop came first."""
        while True:
            if self._runner.stop_requested.is_set():
                await self._stop(None)
                return None
            try:
                pod = await self._read()
                if await self._can_start(pod):
                    return pod
            except NoContainerError as error:
                raise HostError(str(error)) from None
            except NoPodError as error:
                await self._scale_up(error)
            except RltuiError as error:
                self._runner.report_lost(error.title)
            await self._wait_for_poll()

    async def _can_start(self, pod: Pod) -> bool:
        """True if there is a container to follow, or to run something in. One that was seen to end is
        deleted.
        """
        if pod.is_terminating:
            self._report_pending(f"{self._name} is being ended and recreated")
        elif not self._runner.status.id and kube.was_followed_to_end(self._earlier_attempt, pod):
            self._report_pending(f"{self._name} is being recreated")
            await self._pod.delete()
        elif pod.phase == "pending":
            self._report_pending(pod.reason)
        else:
            return True
        return False

    async def _scale_up(self, missing: NoPodError) -> None:
        owner, number = self._pod.owner
        try:
            replicas = await self._pod.replicas()
            if replicas > number:
                self._report_pending(f"{owner} has not created {self._name} yet")
                return
            self._report_pending(f"{owner} is being scaled from {replicas} to {number + 1}")
            await self._pod.scale(replicas, number + 1)
        except NoPodError:
            if not self._runner.status.id:
                raise HostError(f"{missing}, and no StatefulSet {owner} to create it") from None
            self._report_pending(f"no pod {self._name}, and no StatefulSet {owner} to create it")
        except RltuiError as error:
            self._runner.report_lost(error.title)

    # --- the command of the pod itself --------------------------------------------------------------------

    async def _follow(self, pod: Pod) -> None:
        self._report_running(pod, starts=max(self._runner.status.starts, pod.restarts + 1))
        copying = self._start_copying()
        try:
            while True:
                if self._runner.stop_requested.is_set():
                    await self._stop(copying)
                    return
                # before the poll, which tells whether another container runs by now
                was_over = copying.done()
                now = await self._poll()
                if now is None and await self._is_scaled_away():
                    await _finish_task(copying)
                    error = "its pod was deleted, and its StatefulSet does not create another"
                    self._report_ended(None, error)
                    return
                if now is not None and now.instance != pod.instance:
                    if now.uid == pod.uid:
                        await self._copy_rest(copying, "--previous")
                    await _finish_task(copying)
                    pod = self._report_restart(pod, now)
                if now is not None and await self._check_ended(now, copying):
                    return
                if was_over:  # of a container that does not run, the next output might be that of another one
                    if now is not None and now.phase == "running":
                        copying = self._start_copying()
                elif self._runner.status.reason.startswith(_UNREADABLE):
                    self._runner.report(replace(self._runner.status, reason=""))
                await self._wait_for_poll()
        finally:
            await _cancel(copying)

    async def _poll(self) -> Pod | None:
        """Read the pod and report its phase; `None`: nobody answers, or it is gone."""
        try:
            pod = await self._read()
        except NoPodError:
            self._report_pending(f"{self._name} is gone; its StatefulSet is recreating it")
        except RltuiError as error:
            self._runner.report_lost(error.title)
        else:
            if pod.phase == "pending":
                self._report_pending(pod.reason)
            elif self._runner.status.phase == "pending":
                self._report_running(pod, starts=self._runner.status.starts)
            return pod
        return None

    async def _is_scaled_away(self) -> bool:
        """True if the pod is gone, and nothing makes it again."""
        if self._runner.status.lost_at is not None:
            return False
        _, number = self._pod.owner
        try:
            return await self._pod.replicas() <= number
        except NoPodError:
            return True
        except RltuiError as error:
            self._runner.report_lost(error.title)
            return False

    def _report_restart(self, previous: Pod, pod: Pod) -> Pod:
        starts = self._runner.status.starts
        if pod.uid == previous.uid:
            starts += pod.restarts - previous.restarts
            reason_text = (
                f"it {pod.end.text}, and was restarted" if pod.end is not None else "it was restarted"
            )
        else:
            starts += pod.restarts + 1
            reason_text = "the pod was recreated"
        self._pod_log.note(f"{reason_text}: start {starts}")
        self._forwarding.cancel()  # of a pod that is gone, it would notice at the next connection
        self._forwarding = asyncio.create_task(self._forward_ports(), name="port-forward")
        reason = reason_text if pod.phase == "running" else pod.reason
        self._runner.report(replace(self._runner.status, id=pod.instance, starts=starts, reason=reason))
        return pod

    async def _check_ended(self, pod: Pod, copying: asyncio.Task[None]) -> bool:
        if pod.phase == "ended":
            await self._copy_rest(copying)
            is_plain_exit = pod.end is not None and pod.reason == pod.end.text == f"exited {pod.end.code}"
            code = pod.end.code if pod.end is not None else None
            self._report_ended(code, None if is_plain_exit else pod.reason)
            return True
        if not pod.sleeps_after_program or pod.phase != "running" or self._pod_log.quiet_s < _QUIET_S:
            self._idle_polls = 0
            return False
        try:
            processes = await kube.read_programs(self._pod.kubectl, pod)
        except RltuiError:  # asked again at the next poll
            return False
        self._idle_polls = 0 if processes.own else self._idle_polls + 1
        if self._idle_polls < 2:  # between two programs of the command there may be none
            return False
        await self._copy_rest(copying)
        is_done = (
            bool(self._done_pattern) and re.search(self._done_pattern, self._pod_log.last_lines()) is not None
        )
        self._report_ended(0 if is_done else None, None if is_done else _ENDED_INSIDE)
        return True

    # --- its output ---------------------------------------------------------------------------------------

    def _start_copying(self) -> asyncio.Task[None]:
        """Copy its output from the cursor on, until the connection or the container ends."""
        return asyncio.create_task(self._copy_log("--follow"), name="output")

    async def _copy_log(self, *options: str) -> None:
        command = self._pod.logs(*self._pod_log.options(), *options)
        self._pod_log.restart()
        failure = await subprocesses.follow(command, self._pod_log.feed)
        if "--follow" not in options:
            self._pod_log.finish()
        elif failure is not None and self._runner.status.phase == "running":
            self._runner.report(replace(self._runner.status, reason=f"{_UNREADABLE}: {failure}"))

    async def _copy_rest(self, copying: asyncio.Task[None], *options: str) -> None:
        """Copy the rest of the output of a container that ended."""
        await _finish_task(copying)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REST_TIMEOUT_S):
                await self._copy_log(*options)

    # --- its end on request -------------------------------------------------------------------------------

    async def _stop(self, copying: asyncio.Task[None] | None) -> None:
        """Scale its StatefulSet below the pod, and return when that is gone.

        Raises:
            UnreachedError: if nobody answers.
        """
        runner = self._runner
        is_killed, uid = False, ""
        while True:
            try:
                await self._pod.take_away()
                pod = await self._read()
                uid = uid or pod.uid
                if pod.uid != uid:
                    break
                if runner.kill_requested.is_set() and not is_killed:
                    await self._pod.delete(at_once=True)
                    is_killed = True
            except NoPodError:
                break
            except RltuiError as error:
                runner.report_lost(error.title)
            await runner.pause(_PAUSES_S[0])
        if copying is not None:  # it ends with the pod
            await asyncio.wait([copying], timeout=_REST_TIMEOUT_S)
        runner.report_ended(signal_name="SIGKILL" if is_killed else "SIGTERM")

    # --- reports ------------------------------------------------------------------------------------------

    async def _read(self) -> Pod:
        pod = await self._pod.read()
        self._runner.report_reached()
        return pod

    def _report_pending(self, reason: str) -> None:
        self._runner.report(
            replace(self._runner.status, where=f"pod {self._name}", phase="pending", reason=reason)
        )

    def _report_running(self, pod: Pod, *, starts: int) -> None:
        where = f"pod {pod.name}" + (f" on {pod.node}" if pod.node else "")
        self._pause_s = _PAUSES_S[0]
        self._runner.report(
            replace(
                self._runner.status,
                id=pod.instance,
                where=where,
                phase="running",
                reason="",
                starts=starts,
            )
        )

    def _report_ended(self, exit_code: int | None, error: str | None) -> None:
        """Once all output is copied, so that no cursor is needed any more."""
        status = replace(self._runner.status, cursor="")
        self._runner.report_ended(status, exit_code=exit_code, error=error)

    async def _wait_for_poll(self) -> None:
        """Return when it is time for the next poll, or a stop is asked for."""
        pause_s = _POLL_S if self._runner.status.phase == "running" else self._pause_s
        self._pause_s = min(_PAUSES_S[1], 1.5 * self._pause_s)
        await is_set_within(self._runner.stop_requested, pause_s)
        self._pod_log.save_cursor()


class _CommandInPod:
    """The component's command, run in a pod that sleeps."""

    def __init__(self, runner: RemoteRunner, pod: PodHandle) -> None:
        self._runner, self._pod = runner, pod
        self._container_file = runner.folder / "pod"
        """Holds the id of the container that the command was started in."""

    @property
    def was_started(self) -> bool:
        """True if it was started, also by an earlier runner."""
        return self._container_file.exists()

    def mark_started(self, pod: Pod) -> None:
        self._container_file.write_text(pod.instance, encoding="utf-8")

    async def run(self) -> None:
        """Run it as on a node; it ends with the container that it was started in."""
        from rltui.hosts import node  # most pods run commands of their own

        runner = self._runner
        no_ports = {"forward": (), "ports": ()}  # its ports are those that lead to the pod from here
        runner.host = {**runner.host, "name": f"pod {self._pod.name}", **no_ports}
        command_task = asyncio.create_task(node.run(runner), name="in the pod")
        container_task = asyncio.create_task(self._wait_until_replaced(), name="the pod")
        try:
            await asyncio.wait([command_task, container_task], return_when=asyncio.FIRST_COMPLETED)
            if command_task.done():
                command_task.result()
                reason = "" if self._is_end_known else await self._replacement_reason()
            else:
                reason = container_task.result()
            if reason:
                runner.report_ended(error=reason)
        finally:
            await _cancel(command_task, container_task)

    @property
    def _is_end_known(self) -> bool:
        """True if it is known how the command ended."""
        status = self._runner.status
        return status.exit_code is not None or status.signal is not None or status.starts == 0

    async def _wait_until_replaced(self) -> str:
        """Return when the container is gone, with the reason in words."""
        while True:
            if reason := await self._replacement_reason():
                return reason
            await asyncio.sleep(_POLL_S)

    async def _replacement_reason(self) -> str:
        """Why the container is gone, in words; empty where it is there, or nobody answers, which `node`
        reports.
        """
        started_in = self._container_file.read_text(encoding="utf-8")
        try:
            pod = await self._pod.read()
        except NoPodError:
            return f"its pod {self._pod.name} was deleted"
        except RltuiError:
            return ""
        if pod.instance == started_in:
            return ""
        is_same = pod.uid == started_in.partition("/")[0]
        end_text = f": it {pod.end.text}" if pod.end is not None else ""
        return f"its container was restarted{end_text}" if is_same else "its pod was recreated"


class _PodLog:
    """The output of a pod, copied into the attempt's log: each line once, also after a kill or a lost
    connection.

    Where copying begins again, the cluster can only be asked for lines from a whole second on. Lines of that
    time that the log has already are left out: as many times as it has them, and only up to the newest time
    seen.
    """

    def __init__(self, runner: RemoteRunner) -> None:
        self._runner = runner
        cursor = json.loads(runner.status.cursor or "{}")
        self._since: int = cursor.get("since", 0)
        """The second of the newest line, of the clock there; 0: no line yet."""
        self._since_offset: int = cursor.get("from", 0)
        """Offset in the log at which the lines of that second begin, or earlier."""
        self._newest: int = cursor.get("newest", 0)
        """Time of the newest line, in nanoseconds."""
        self._is_exact = cursor.get("written", 0) == runner.written_bytes
        """True if no line in the log is newer than `_newest`."""
        self._logged_lines: Counter[bytes] = Counter()
        self._partial = b""
        self._grew_at = time.monotonic()
        self._saved_at = time.monotonic()

    @property
    def quiet_s(self) -> float:
        """Seconds since the newest line, by the clock here or there, whichever is longer."""
        quiet_there_s = time.time() - self._newest / _NANOSECONDS if self._newest else 0.0
        return max(time.monotonic() - self._grew_at, quiet_there_s)

    def options(self) -> list[str]:
        """Options of `kubectl logs` that make it begin at the cursor."""
        if not self._since:
            return []
        return [f"--since-time={datetime.fromtimestamp(self._since, UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}"]

    def restart(self) -> None:
        """Prepare for output that comes again, from the second on that `options` names."""
        self._partial = b""
        self._logged_lines = Counter(
            self._runner.tail(self._runner.written_bytes - self._since_offset).splitlines(keepends=True)
        )

    def feed(self, data: bytes) -> None:
        """Take the next bytes that `kubectl logs` printed; an incomplete line waits for its end."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._write([line + b"\n" for line in lines])
        if time.monotonic() - self._saved_at > _SAVE_INTERVAL_S:
            self.save_cursor()

    def finish(self) -> None:
        """Write a last line that has no newline: nothing follows."""
        last_line, self._partial = self._partial, b""
        if last_line:
            self._write([last_line])

    def note(self, text: str) -> None:
        self.save_cursor()
        self._runner.write(f"rltui: {text}\n".encode())

    def save_cursor(self) -> None:
        """Record how far the output was copied, for the next runner."""
        if not self._since:
            return
        self._saved_at = time.monotonic()
        cursor = {
            "since": self._since,
            "from": self._since_offset,
            "newest": self._newest,
            "written": self._runner.written_bytes,
        }
        self._runner.report(replace(self._runner.status, cursor=json.dumps(cursor)))

    def last_lines(self) -> str:
        """The end of the log, without colours."""
        return _COLOUR.sub("", self._runner.tail(_DONE_SEARCH_BYTES).decode(errors="replace"))

    def _write(self, lines: list[bytes]) -> None:
        new_lines: list[bytes] = []
        size = self._runner.written_bytes
        for line in lines:
            timestamp, text = _split_timestamp(line)
            if self._is_duplicate(timestamp, text):
                continue
            if timestamp is not None and timestamp // _NANOSECONDS > self._since:
                self._since, self._since_offset = timestamp // _NANOSECONDS, size
            self._newest = max(self._newest, timestamp or 0)
            new_lines.append(text)
            size += len(text)
        if new_lines:
            self._grew_at = time.monotonic()
            self._runner.write(b"".join(new_lines))

    def _is_duplicate(self, timestamp: int | None, text: bytes) -> bool:
        if self._is_exact and timestamp is not None and timestamp > self._newest:
            return False
        if self._logged_lines[text] > 0:
            self._logged_lines[text] -= 1
            return True
        if timestamp is not None and timestamp > self._newest:
            self._is_exact = True
        return False


def _split_timestamp(line: bytes) -> tuple[int | None, bytes]:
    """A line's time in nanoseconds, and its text; `None` where the cluster itself prints a line without a
    time.
    """
    match = _STAMP.match(line)
    if match is None:
        return None, line
    moment = datetime.fromisoformat((match[1] + match[3]).decode())
    fraction = int((match[2] or b"0").ljust(9, b"0"))
    return int(moment.timestamp()) * _NANOSECONDS + fraction, line[match.end() :]


async def _finish_task(copying: asyncio.Task[None]) -> None:
    """Return when the copying has ended, as it does with its container; cancel it after `_OUTPUT_END_S`."""
    await asyncio.wait([copying], timeout=_OUTPUT_END_S)
    await _cancel(copying)


async def _cancel(*tasks: asyncio.Task[object]) -> None:
    """Cancel the tasks and return when they have ended; what they raise is dropped."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
