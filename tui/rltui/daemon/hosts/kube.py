"""Components in pods that a StatefulSet makes, such as those of a Helm release.

Where the pod runs a command of its own, that is the component: its output is followed, the end of its program
is its end also where the pod sleeps on, and to stop it is to scale its StatefulSet below it. Where the pod
does nothing but sleep, the component's command is run in it, as on a node that kubectl reaches.

A start takes what the pod runs as it finds it. Only where an earlier attempt has seen that very container's
end is the pod deleted, so that it is made anew.
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

from rltui.daemon.hosts.remote_runner import HostError, RemoteRunner, UnreachedError, is_set_within
from rltui.errors import RltuiError
from rltui.services import kube, subprocesses
from rltui.services.kube import Kubectl, NoContainerError, NoPodError, Pod, PodHandle

_PAUSES_S = (1.0, 15.0)
"""First and longest pause between two looks at a pod that does not run; each is 1.5 times the one before."""
_LOOK_S = 3.0
"""Between two looks at one that runs."""
_QUIET_S = 20.0
"""Without output for so long, it is looked whether the program still runs in a pod that would outlive it."""
_UNREACHED_S = 20.0
"""A stop that cannot be passed on for so long has failed."""
_REST_S = 10.0
"""For the rest of the output of a container that ended."""
_END_S = 1.0
"""From the end of a container to that of its output."""
_KEPT_S = 10.0
"""Between two notes of how far the output was brought over."""
_FORWARD_S = 1.0
"""Until a forwarding that ended is made again."""
_NO_PORT = "no port here leads to it"
_UNREADABLE = "its output cannot be read"
_ENDED_INSIDE = "its pod sleeps on and keeps its devices"

_NANOSECONDS = 10**9
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)(?: |(?=\r?\n?$))")
_END_BYTES = 1 << 14
"""Of the log, searched for what says that the work is done."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


async def run(follower: RemoteRunner) -> None:
    if shutil.which("kubectl") is None and not follower.remote.id:
        raise HostError("there is no kubectl on this machine")
    await _PodHost(follower).run()


class _PodHost:
    def __init__(self, follower: RemoteRunner) -> None:
        host = follower.host
        self._follower = follower
        kubectl = Kubectl(host["context"], host["namespace"])
        self._pod = PodHandle(kubectl, host["name"], host["container"])
        self._name: str = host["name"]
        self._earlier = follower.folder.with_name(f"attempt-{follower.attempt - 1}")
        self._done: str = host["done"]
        self._forward: tuple[str, ...] = tuple(host["forward"])
        self._lines = _Lines(follower)
        self._pause_s = _PAUSES_S[0]
        self._idle_looks = 0
        self._forwarding = asyncio.create_task(self._keep_forwarding(), name="port-forward")

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            await _cancelled(self._forwarding)

    async def _run(self) -> None:
        inside = _Inside(self._follower, self._pod)
        if inside.was_begun:
            await inside.run()
        elif (pod := await self._running()) is None:
            return
        elif pod.waits:
            inside.begin(pod)
            await inside.run()
        else:
            await self._follow(pod)

    async def _keep_forwarding(self) -> None:
        """Its ports here. That nobody answers there is told by those who ask the pod itself."""
        words = ("port-forward", "--address=127.0.0.1", f"pod/{self._name}", *self._forward)
        while self._forward:
            with contextlib.suppress(RltuiError):
                failure = await subprocesses.follow(self._pod.kubectl.words(*words), lambda _: None)
                if failure is not None and "unable to listen" in failure:
                    self._follower.tell(replace(self._follower.remote, reason=f"{_NO_PORT}: {failure}"))
            await asyncio.sleep(_FORWARD_S)

    # --- until the pod runs -------------------------------------------------------------------------------

    async def _running(self) -> Pod | None:
        """The pod, once its container has run; `None` where a stop came first."""
        while True:
            if self._follower.stop_asked.is_set():
                await self._stop(None)
                return None
            try:
                pod = await self._read()
                if await self._can_begin(pod):
                    return pod
            except NoContainerError as error:
                raise HostError(str(error)) from None
            except NoPodError as error:
                await self._want(error)
            except RltuiError as error:
                self._follower.lose(error.title)
            await self._wait()

    async def _can_begin(self, pod: Pod) -> bool:
        """Whether there is something to follow, or to run something in. What was seen to end is deleted."""
        if pod.is_leaving:
            self._pend(f"{self._name} is being ended, and comes anew")
        elif not self._follower.remote.id and kube.seen_to_end(self._earlier, pod):
            self._pend(f"{self._name} is made anew")
            await self._pod.delete()
        elif pod.phase == "pending":
            self._pend(pod.why)
        else:
            return True
        return False

    async def _want(self, missing: NoPodError) -> None:
        """A StatefulSet that was scaled below the pod is scaled up."""
        owner, number = self._pod.owner
        try:
            replicas = await self._pod.replicas()
            if replicas > number:
                self._pend(f"{owner} has not made {self._name} yet")
                return
            self._pend(f"{owner} is scaled from {replicas} to {number + 1}")
            await self._pod.scale(replicas, number + 1)
        except NoPodError:
            if not self._follower.remote.id:
                raise HostError(f"{missing}, and there is no StatefulSet {owner} to make it") from None
            self._pend(f"there is no pod {self._name}, and no StatefulSet {owner} to make it")
        except RltuiError as error:
            self._follower.lose(error.title)

    # --- the command of the pod itself --------------------------------------------------------------------

    async def _follow(self, pod: Pod) -> None:
        self._run_on(pod, starts=max(self._follower.remote.starts, pod.restarts + 1))
        bringing = self._bring()
        try:
            while True:
                if self._follower.stop_asked.is_set():
                    await self._stop(bringing)
                    return
                was_over = (
                    bringing.done()
                )  # before the look, which tells whether another container runs by now
                now = await self._look()
                if now is None and await self._is_unwanted():
                    await _ended(bringing)
                    self._end(error="its pod was deleted, and its StatefulSet makes no other")
                    return
                if now is not None and now.instance != pod.instance:
                    if now.uid == pod.uid:
                        await self._rest(bringing, "--previous")
                    await _ended(bringing)
                    pod = self._change(pod, now)
                if now is not None and await self._has_ended(now, bringing):
                    return
                if was_over:  # of a container that does not run, the next output might be that of another one
                    if now is not None and now.phase == "running":
                        bringing = self._bring()
                elif self._follower.remote.reason.startswith(_UNREADABLE):
                    self._follower.tell(replace(self._follower.remote, reason=""))
                await self._wait()
        finally:
            await _cancelled(bringing)

    async def _look(self) -> Pod | None:
        """What is known of the pod now, and told; `None`: nothing, or that it is gone."""
        try:
            pod = await self._read()
        except NoPodError:
            self._pend(f"{self._name} is gone; its StatefulSet makes it anew")
        except RltuiError as error:
            self._follower.lose(error.title)
        else:
            if pod.phase == "pending":
                self._pend(pod.why)
            elif self._follower.remote.phase == "pending":
                self._run_on(pod, starts=self._follower.remote.starts)
            return pod
        return None

    async def _is_unwanted(self) -> bool:
        """It is gone, and nothing makes it again."""
        if self._follower.remote.lost_at is not None:
            return False
        _, number = self._pod.owner
        try:
            return await self._pod.replicas() <= number
        except NoPodError:
            return True
        except RltuiError as error:
            self._follower.lose(error.title)
            return False

    def _change(self, before: Pod, now: Pod) -> Pod:
        """Another container runs, or will."""
        starts = self._follower.remote.starts
        if now.uid == before.uid:
            starts += now.restarts - before.restarts
            how = (
                f"it {now.end.text}, and was started again" if now.end is not None else "it was started again"
            )
        else:
            starts += now.restarts + 1
            how = "the pod was made anew"
        self._lines.note(f"{how}: start {starts}")
        self._forwarding.cancel()  # of a pod that is gone, it would notice at the next connection
        self._forwarding = asyncio.create_task(self._keep_forwarding(), name="port-forward")
        reason = how if now.phase == "running" else now.why
        self._follower.tell(replace(self._follower.remote, id=now.instance, starts=starts, reason=reason))
        return now

    async def _has_ended(self, pod: Pod, bringing: asyncio.Task[None]) -> bool:
        if pod.phase == "ended":
            await self._rest(bringing)
            is_told = pod.end is not None and pod.why == pod.end.text == f"exited {pod.end.code}"
            self._end(code=pod.end.code if pod.end is not None else None, error=None if is_told else pod.why)
            return True
        if not pod.outlives_its_program or pod.phase != "running" or self._lines.quiet_s < _QUIET_S:
            self._idle_looks = 0
            return False
        try:
            inside = await kube.read_inside(self._pod.kubectl, pod)
        except RltuiError:  # asked again at the next look
            return False
        self._idle_looks = 0 if inside.own else self._idle_looks + 1
        if self._idle_looks < 2:  # between two programs of the command there may be none
            return False
        await self._rest(bringing)
        is_done = bool(self._done) and re.search(self._done, self._lines.end()) is not None
        self._end(code=0 if is_done else None, error=None if is_done else _ENDED_INSIDE)
        return True

    # --- its output ---------------------------------------------------------------------------------------

    def _bring(self) -> asyncio.Task[None]:
        """Its output, from where it was brought to, until the connection or the container ends."""
        return asyncio.create_task(self._bring_over("--follow"), name="output")

    async def _bring_over(self, *options: str) -> None:
        command = self._pod.logs(*self._lines.options(), *options)
        self._lines.begin()
        failure = await subprocesses.follow(command, self._lines.take)
        if "--follow" not in options:
            self._lines.finish()
        elif failure is not None and self._follower.remote.phase == "running":
            self._follower.tell(replace(self._follower.remote, reason=f"{_UNREADABLE}: {failure}"))

    async def _rest(self, bringing: asyncio.Task[None], *options: str) -> None:
        """What a container that ended has left to say."""
        await _ended(bringing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REST_S):
                await self._bring_over(*options)

    # --- its end on request -------------------------------------------------------------------------------

    async def _stop(self, bringing: asyncio.Task[None] | None) -> None:
        """Scale its StatefulSet below it, and return when it is gone.

        Raises:
            UnreachedError: if nobody answers.
        """
        follower = self._follower
        asked_at, is_killed, uid = time.monotonic(), False, ""
        while True:
            try:
                await self._pod.take_away()
                pod = await self._read()
                follower.reach()
                uid = uid or pod.uid
                if pod.uid != uid:
                    break
                if follower.kill_asked.is_set() and not is_killed:
                    await self._pod.delete(at_once=True)
                    is_killed = True
                asked_at = time.monotonic()
            except NoPodError:
                break
            except RltuiError as error:
                follower.lose(error.title)
                if time.monotonic() - asked_at > _UNREACHED_S:
                    raise UnreachedError from None
            await asyncio.sleep(_PAUSES_S[0])
        if bringing is not None:  # it ends with the pod
            await asyncio.wait([bringing], timeout=_REST_S)
        follower.tell(
            replace(follower.remote, phase="ended", signal="SIGKILL" if is_killed else "SIGTERM", reason="")
        )

    # --- what is told -------------------------------------------------------------------------------------

    async def _read(self) -> Pod:
        pod = await self._pod.read()
        self._follower.reach()
        return pod

    def _pend(self, reason: str) -> None:
        self._follower.tell(
            replace(self._follower.remote, where=f"pod {self._name}", phase="pending", reason=reason)
        )

    def _run_on(self, pod: Pod, *, starts: int) -> None:
        where = f"pod {pod.name}" + (f" on {pod.node}" if pod.node else "")
        self._pause_s = _PAUSES_S[0]
        self._follower.tell(
            replace(
                self._follower.remote,
                id=pod.instance,
                where=where,
                phase="running",
                reason="",
                starts=starts,
            )
        )

    def _end(self, *, code: int | None = None, error: str | None) -> None:
        remote = replace(self._follower.remote, phase="ended", exit_code=code, error=error, reason="")
        self._follower.tell(replace(remote, lost_at=None, problem="", cursor=""))

    async def _wait(self) -> None:
        """Until the next look, or a stop is asked for."""
        pause_s = _LOOK_S if self._follower.remote.phase == "running" else self._pause_s
        self._pause_s = min(_PAUSES_S[1], 1.5 * self._pause_s)
        await is_set_within(self._follower.stop_asked, pause_s)
        self._lines.keep()


class _Inside:
    """A command of ours, in a pod that sleeps."""

    def __init__(self, follower: RemoteRunner, pod: PodHandle) -> None:
        self._follower, self._pod = follower, pod
        self._file = follower.folder / "pod"
        """In which container it was begun."""

    @property
    def was_begun(self) -> bool:
        """By an earlier follower too."""
        return self._file.exists()

    def begin(self, pod: Pod) -> None:
        self._file.write_text(pod.instance, encoding="utf-8")

    async def run(self) -> None:
        """As on a node; but where the container goes, so does what ran in it."""
        from rltui.daemon.hosts import node  # most pods run commands of their own

        follower = self._follower
        here = {"forward": (), "ports": ()}  # its ports are those that lead to the pod from here
        follower.host = {**follower.host, "name": f"pod {self._pod.name}", **here}
        running = asyncio.create_task(node.run(follower), name="in the pod")
        watching = asyncio.create_task(self._until_replaced(), name="the pod")
        try:
            await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
                why = "" if self._is_known else await self._replaced()
            else:
                why = watching.result()
            if why:
                ended = replace(follower.remote, phase="ended", error=why, reason="")
                follower.tell(replace(ended, lost_at=None, problem=""))
        finally:
            await _cancelled(running, watching)

    @property
    def _is_known(self) -> bool:
        """How the command ended."""
        remote = self._follower.remote
        return remote.exit_code is not None or remote.signal is not None or remote.starts == 0

    async def _until_replaced(self) -> str:
        """Return, in words, that the container is gone."""
        while True:
            if why := await self._replaced():
                return why
            await asyncio.sleep(_LOOK_S)

    async def _replaced(self) -> str:
        """That it is gone, in words; empty where it is there, or nobody answers, which `node` tells."""
        began_in = self._file.read_text(encoding="utf-8")
        try:
            pod = await self._pod.read()
        except NoPodError:
            return f"its pod {self._pod.name} was deleted"
        except RltuiError:
            return ""
        if pod.instance == began_in:
            return ""
        is_same = pod.uid == began_in.partition("/")[0]
        how = f": it {pod.end.text}" if pod.end is not None else ""
        return f"its container was started again{how}" if is_same else "its pod was made anew"


class _Lines:
    """The output of a pod, on its way into the attempt's log: each line once, whoever is killed or cut off.

    Where bringing it over begins again, the cluster can be asked for lines from a second on. What of those is
    in the log here already is left out: as many times as it is there, and only up to the newest time seen.
    """

    def __init__(self, follower: RemoteRunner) -> None:
        self._follower = follower
        kept = json.loads(follower.remote.cursor or "{}")
        self._since: int = kept.get("since", 0)
        """The second of the newest line, of the clock there; 0: no line yet."""
        self._from: int = kept.get("from", 0)
        """Where in the log here the lines of that second begin, or earlier."""
        self._newest: int = kept.get("newest", 0)
        """Time of the newest line, in nanoseconds."""
        self._is_exact = kept.get("written", 0) == follower.written
        """`newest` holds for all that is in the log."""
        self._known: Counter[bytes] = Counter()
        self._partial = b""
        self._moved_at = time.monotonic()
        self._kept_at = time.monotonic()

    @property
    def quiet_s(self) -> float:
        """Since the newest line, by either clock."""
        by_theirs = time.time() - self._newest / _NANOSECONDS if self._newest else 0.0
        return max(time.monotonic() - self._moved_at, by_theirs)

    def options(self) -> list[str]:
        """For `kubectl logs`."""
        if not self._since:
            return []
        return [f"--since-time={datetime.fromtimestamp(self._since, UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}"]

    def begin(self) -> None:
        """The output comes again, from the second on that `options` names."""
        self._partial = b""
        self._known = Counter(
            self._follower.tail(self._follower.written - self._from).splitlines(keepends=True)
        )

    def take(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._write([line + b"\n" for line in lines])
        if time.monotonic() - self._kept_at > _KEPT_S:
            self.keep()

    def finish(self) -> None:
        """Nothing follows: what has no end of line is a line too."""
        last, self._partial = self._partial, b""
        if last:
            self._write([last])

    def note(self, text: str) -> None:
        self.keep()
        self._follower.write(f"rltui: {text}\n".encode())

    def keep(self) -> None:
        """Note how far it is brought over, for the next follower."""
        if not self._since:
            return
        self._kept_at = time.monotonic()
        cursor = {
            "since": self._since,
            "from": self._from,
            "newest": self._newest,
            "written": self._follower.written,
        }
        self._follower.tell(replace(self._follower.remote, cursor=json.dumps(cursor)))

    def end(self) -> str:
        """The last lines, without colours."""
        return _COLOUR.sub("", self._follower.tail(_END_BYTES).decode(errors="replace"))

    def _write(self, lines: list[bytes]) -> None:
        new: list[bytes] = []
        size = self._follower.written
        for line in lines:
            stamp, text = _stamped(line)
            if self._is_known(stamp, text):
                continue
            if stamp is not None and stamp // _NANOSECONDS > self._since:
                self._since, self._from = stamp // _NANOSECONDS, size
            self._newest = max(self._newest, stamp or 0)
            new.append(text)
            size += len(text)
        if new:
            self._moved_at = time.monotonic()
            self._follower.write(b"".join(new))

    def _is_known(self, stamp: int | None, text: bytes) -> bool:
        if self._is_exact and stamp is not None and stamp > self._newest:
            return False
        if self._known[text] > 0:
            self._known[text] -= 1
            return True
        if stamp is not None and stamp > self._newest:
            self._is_exact = True
        return False


def _stamped(line: bytes) -> tuple[int | None, bytes]:
    """Its time in nanoseconds, and what stands behind it; `None` where the cluster says something itself."""
    found = _STAMP.match(line)
    if found is None:
        return None, line
    moment = datetime.fromisoformat((found[1] + found[3]).decode())
    fraction = int((found[2] or b"0").ljust(9, b"0"))
    return int(moment.timestamp()) * _NANOSECONDS + fraction, line[found.end() :]


async def _ended(bringing: asyncio.Task[None]) -> None:
    """Return when it has, which it does with its container; soon in any case."""
    await asyncio.wait([bringing], timeout=_END_S)
    await _cancelled(bringing)


async def _cancelled(*tasks: asyncio.Task[object]) -> None:
    """Return when they have ended. What they raise is nobody's business any more."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
