"""One component under supervision: held back, started through a shim, probed, watched, stopped, adopted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from rltui.core.api import ComponentState, ComponentStatus
from rltui.core.layout import ComponentSpec, Ready
from rltui.core.lifecycle import (
    Ended,
    Held,
    Life,
    LifeEvent,
    ProbeSucceeded,
    Spawned,
    StartFailed,
    StartRequested,
    StopRequested,
    advance,
)
from rltui.daemon.recipe import Launch
from rltui.daemon.tasks import spawn
from rltui.errors import RltuiError
from rltui.services import processes
from rltui.services.attempt_life import ended_life, exit_info
from rltui.services.experiment_files import ControlFolder, ExperimentRecord, write_atomically
from rltui.services.probes import Probe

logger = logging.getLogger(__name__)

SPAWN_TIMEOUT_S = 20.0
"""From the tmux window to a running process; includes the start of the shim's interpreter."""
SPAWN_POLL_S = 0.02
PROBE_INTERVALS_S = (0.1, 1.0)
"""First and longest pause between two readiness probes; each is 1.3 times the one before."""
PORT_PATIENCE_S = 15.0
"""How long a start waits for its port, which the predecessor may just be giving back."""
STOP_MARGIN_S = 15.0
"""Beyond its grace, a shim gets this long to end a tree before the supervisor does it itself."""


class Surroundings(Protocol):
    """What a component needs of its supervisor."""

    record: ExperimentRecord
    control: ControlFolder

    def life_changed(self, runner: ComponentRunner, before: Life) -> None:
        """Called after every transition."""
        ...

    def why_held(self, component: str) -> tuple[bool, str] | None:
        """What the start of `component` waits for: (it can still come, reason), `None` if nothing."""
        ...

    async def next_change(self) -> None:
        """Returns when the state of any component has changed."""
        ...

    def prepare(self, component: str, attempt_dir: Path) -> Launch:
        """Snapshot the config into the attempt's folder and fill in the command."""
        ...

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        """Run the shim for `attempt_dir` in the component's tmux window."""
        ...


@dataclass(slots=True, eq=False)
class ComponentRunner:
    """Owns the life of one component. All methods run on the supervisor's loop."""

    spec: ComponentSpec
    around: Surroundings
    life: Life = field(init=False)
    attempt: int | None = None
    port: int | None = None
    record: processes.AttemptRecord | None = None
    """What the shim last wrote of the newest attempt."""
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.life = Life(kind=self.spec.kind, restart=self.spec.restart)

    # --- asked from outside -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a start; returns at once. Does nothing where one is under way or the process lives."""
        if self.life.busy:
            return
        self._advance(StartRequested())
        self._task = spawn(self._start(self.life.epoch), f"start {self.spec.id}")

    async def stop(self, *, kill: bool = False, reason: str | None = None) -> None:
        """End the whole tree and return when nothing of it is left."""
        was_waiting = self.life.state is ComponentState.WAITING
        self._advance(StopRequested(reason=reason))
        if was_waiting and self._task is not None:
            self._task.cancel()
            return
        if not self.life.alive:
            return
        await self._signal(signal.SIGUSR1 if kill else signal.SIGTERM)
        try:
            async with asyncio.timeout(self.spec.stop.grace_s + STOP_MARGIN_S):
                await self._until_ended()
        except TimeoutError:
            logger.warning("%s did not end in time, ending its tree from here", self.spec.id)
            await self._end_leftovers()
            await self._until_ended()

    def adopt(self) -> None:
        """Take over what an earlier supervisor started, or learn how it ended."""
        attempts = self.around.control.attempts(self.spec.id)
        if not attempts:
            return
        self.attempt = attempts[-1]
        self.record = processes.read_attempt(self._attempt_dir)
        if self.record is None:
            return
        if self._main_process() is None and self._shim_process() is None:
            # Old news: it has been told when it happened, or nobody can tell any more.
            self.life = ended_life(self.spec.kind, self.record)
            return
        self.life = replace(self.life, state=ComponentState.WAITING, epoch=1)
        launch = self._launch_of_attempt()
        if self._ready_file.exists():
            launch = replace(launch, ready=None)
        self.port = launch.port
        self._advance(Spawned(epoch=1, ready=launch.ready is None))
        self._task = spawn(self._watch(1, launch), f"watch {self.spec.id}")

    @property
    def log(self) -> Path | None:
        """Output of the newest attempt."""
        return None if self.attempt is None else self.around.control.log_file(self.spec.id, self.attempt)

    @property
    def pid(self) -> int | None:
        """Of the main process, while there is one."""
        main = self.record.main if self.record is not None else None
        return main.pid if main is not None and self.life.alive else None

    @property
    def root_pids(self) -> tuple[int, ...]:
        """What all its processes descend from: the shim, which inherits orphans, or the main process."""
        record = self.record
        if record is None or not self.life.alive:
            return ()
        return tuple(process.pid for process in (record.shim, record.main) if process is not None)

    def status(self, *, facts: tuple[str, ...], gpus: tuple[int, ...]) -> ComponentStatus:
        """The component as clients see it."""
        record, life = self.record, self.life
        started = record.started_at if record is not None else None
        ended = None if life.alive or record is None else record.ended_at
        uptime = None if started is None or not life.alive else max(0.0, time.time() - started)
        return ComponentStatus(
            id=self.spec.id,
            kind=self.spec.kind,
            prepares=bool(self.spec.creates),
            state=life.state,
            reason=life.reason,
            pid=self.pid,
            attempt=self.attempt,
            exit_code=life.exit.code if life.exit else None,
            signal=life.exit.signal if life.exit else None,
            started_at=started,
            uptime_s=uptime if ended is None else None,
            log=str(self.log) if self.log else None,
            port=self.port,
            gpus=gpus,
            facts=facts if life.alive else (),
        )

    # --- a start, step by step ----------------------------------------------------------------------------

    async def _start(self, epoch: int) -> None:
        try:
            if not await self._wait_for_dependencies(epoch):
                return
            self.attempt = self.around.control.new_attempt(self.spec.id)
            self.record = None
            launch = self.around.prepare(self.spec.id, self._attempt_dir)
            self.port = launch.port
            await self._wait_for_port(epoch, launch.port)
            self._write_spec(launch)
            await self.around.open_window(self.spec.id, self._attempt_dir)
            await self._wait_for_shim()
        except RltuiError as error:
            self._advance(StartFailed(epoch=epoch, reason=str(error).replace("\n", " ")))
            return
        except Exception as error:  # a bug: better told than waited for
            self._advance(StartFailed(epoch=epoch, reason=f"an error in rltui itself: {error!r}"))
            raise
        self._advance(Spawned(epoch=epoch, ready=launch.ready is None))
        await self._watch(epoch, launch)

    async def _wait_for_dependencies(self, epoch: int) -> bool:
        while held := self.around.why_held(self.spec.id):
            can_come, reason = held
            if not can_come:
                self._advance(StartFailed(epoch=epoch, reason=reason))
                return False
            self._advance(Held(epoch=epoch, reason=f"waits for {reason}"))
            await self.around.next_change()
        return True

    async def _wait_for_port(self, epoch: int, port: int | None) -> None:
        if port is None:
            return
        deadline = time.monotonic() + PORT_PATIENCE_S
        while (holder := processes.port_holder(port)) is not None:
            self._advance(Held(epoch=epoch, reason=f"waits for port {port}, held by {holder}"))
            if time.monotonic() > deadline:
                raise RltuiError(f"port {port} is held by {holder}")
            await asyncio.sleep(0.2)

    def _write_spec(self, launch: Launch) -> None:
        spec = {
            "experiment": self.around.record.tag,
            "component": self.spec.id,
            "attempt": self.attempt,
            "argv": launch.argv,
            "cwd": launch.cwd,
            "env": dict(launch.env),
            "log": str(self.log),
            "stop": {"signal": self.spec.stop.signal, "grace_s": self.spec.stop.grace_s},
            "created_at": time.time(),
            "ready": launch.ready.model_dump(exclude_none=True) if launch.ready else None,
            "port": launch.port,
        }
        write_atomically(self._attempt_dir / "spec.json", json.dumps(spec, indent=1).encode())

    async def _wait_for_shim(self) -> None:
        deadline = time.monotonic() + SPAWN_TIMEOUT_S
        while (record := processes.read_attempt(self._attempt_dir)) is None:
            if time.monotonic() > deadline:
                raise RltuiError(
                    f"the shim of {self.spec.id} did not start within {SPAWN_TIMEOUT_S:.0f} s",
                    hint=f"look at it: rltui attach {self.spec.id}",
                )
            await asyncio.sleep(SPAWN_POLL_S)
        self.record = record

    # --- while it lives -----------------------------------------------------------------------------------

    async def _watch(self, epoch: int, launch: Launch) -> None:
        """Probe until ready, and wait for the end."""
        probing = (
            spawn(self._probe(epoch, launch.ready), f"probe {self.spec.id}")
            if launch.ready is not None
            else None
        )
        try:
            await self._wait_for_end()
        finally:
            if probing is not None:
                probing.cancel()
        self.record = processes.read_attempt(self._attempt_dir) or self.record
        self._advance(Ended(epoch=epoch, exit=exit_info(self.record)))

    async def _wait_for_end(self) -> None:
        if (shim := self._shim_process()) is not None:
            await processes.wait_for_exit(shim)
        self.record = processes.read_attempt(self._attempt_dir) or self.record
        if (main := self._main_process()) is not None:  # the shim was killed, the component goes on
            logger.warning("the shim of %s is gone, watching pid %d itself", self.spec.id, main.pid)
            await processes.wait_for_exit(main)
            await self._end_leftovers()

    async def _probe(self, epoch: int, ready: Ready) -> None:
        probe = Probe(ready, self.log or Path())
        pause, longest = PROBE_INTERVALS_S
        try:
            async with asyncio.timeout(ready.timeout_s):
                while not await probe.succeeded():
                    await asyncio.sleep(pause)
                    pause = min(longest, pause * 1.3)
        except TimeoutError:
            await self.stop(reason=f"not ready after {ready.timeout_s:g} s ({probe})")
            return
        with contextlib.suppress(OSError):  # on a full disk the next supervisor probes again
            self._ready_file.touch()
        self._advance(ProbeSucceeded(epoch=epoch))

    async def _signal(self, number: signal.Signals) -> None:
        shim = self._shim_process()
        if shim is None:
            await self._end_leftovers()
        else:
            processes.send_signal(shim, number)

    async def _end_leftovers(self) -> None:
        records = [self.record] if self.record is not None else []
        found = processes.leftovers(self.around.record.tag, records)
        own = [leftover.id for leftover in found if leftover.component == self.spec.id]
        await processes.end_processes(own, grace_s=self.spec.stop.grace_s)

    async def _until_ended(self) -> None:
        while self.life.alive:
            await self.around.next_change()

    # --- small helpers ------------------------------------------------------------------------------------

    @property
    def _attempt_dir(self) -> Path:
        return self.around.control.attempt_dir(self.spec.id, self.attempt or 0)

    @property
    def _ready_file(self) -> Path:
        """Says to the next supervisor that the attempt has been ready."""
        return self._attempt_dir / "ready"

    def _shim_process(self) -> processes.ProcessId | None:
        return self.record.shim if self.record is not None and self.record.is_supervised else None

    def _main_process(self) -> processes.ProcessId | None:
        return self.record.living_main if self.record is not None else None

    def _launch_of_attempt(self) -> Launch:
        """What the running attempt was started with, from its own spec."""
        try:
            spec = json.loads((self._attempt_dir / "spec.json").read_bytes())
        except (OSError, ValueError):
            spec = {}
        ready = spec.get("ready")
        return Launch(
            argv=tuple(spec.get("argv", ())),
            cwd=spec.get("cwd", ""),
            env=spec.get("env", {}),
            ready=Ready(**ready) if ready else None,
            port=spec.get("port"),
        )

    def _advance(self, event: LifeEvent) -> None:
        before = self.life
        self.life = advance(before, event)
        if self.life is not before and self.life != before:
            self.around.life_changed(self, before)
