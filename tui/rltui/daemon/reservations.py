"""The claims of this experiment on GPU memory: made before its components start, ended when they have it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping

from rltui.core.gpu.report import GpuReservation
from rltui.core.gpu.reservations import contention, held_bytes
from rltui.core.states import ComponentState
from rltui.core.text import GIB
from rltui.daemon.component import ComponentRunner, UnmetDependency
from rltui.daemon.tasks import Signal
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.config.store import ConfigStore
from rltui.services.gpu.memory_plan import MemoryPlan
from rltui.services.gpu.reservations import ReservationFiles
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.processes import ProcessId

logger = logging.getLogger(__name__)

_POLL_S = 1.0
"""Between two looks at which claims are over, while there are any."""
_REACHED_FRAC = 0.95
"""Of what it claimed: it has grown to its size."""
_UNKNOWN_SIZE_BYTES = GIB // 2
"""More than a CUDA context: a component of unknown size has begun to load."""
_PEAK_STEPS = 2
"""After so many a trainer has had its peak."""
_MAX_AGE_S = 900.0
"""After that a component that was ready does not grow any more, or will take less than it did before."""


class ReservationManager:
    """Claims for all components that wait to be started, at once: who has a part of what it needs and waits
    for the rest would keep others waiting for nothing. Lives on the supervisor's loop.
    """

    def __init__(
        self,
        experiment: str,
        runners: Mapping[str, ComponentRunner],
        store: ConfigStore,
        memory: MemoryPlan,
        readings: GpuReadings,
        completed: Callable[[], int],
    ) -> None:
        """`completed`: steps of the run."""
        self._experiment = experiment
        self._runners = runners
        self._store = store
        self._memory = memory
        self._readings = readings
        self._completed = completed
        self._files = ReservationFiles(experiment)
        self._decision_lock = asyncio.Lock()
        self._reservations: dict[str, tuple[GpuReservation, ...]] = {}
        """By component; empty: it needs none."""
        self._ready_at: dict[str, tuple[float, int]] = {}
        """By component that claims and is ready: since when, with how many steps."""
        self._saved_users: tuple[ProcessId, ...] = ()
        self._changed = Signal()
        self._waiting_epochs: dict[str, int] = {}
        """By component that waited for another experiment to start: in which epoch."""

    def adopt(self) -> None:
        """Go on with what an earlier supervisor claimed for components that are still starting."""
        if not any(reservation.component for reservation in self._files.own()):
            return

        def decide(others: tuple[GpuReservation, ...]) -> Collection[GpuReservation]:
            del others  # it had it before them
            for reservation in self._files.own():  # as it is now: what is void, others may have removed
                runner = self._runners.get(reservation.component)
                if runner is not None and runner.lifecycle.busy:
                    self._reservations[reservation.component] = (
                        *self._reservations.get(reservation.component, ()),
                        reservation,
                    )
            return self._all()

        try:
            self._files.change(decide)
        except RltuiError as error:
            logger.warning("claims on GPU memory are made anew: %s", error)

    def others(self) -> tuple[GpuReservation, ...]:
        return self._files.others()

    async def reserve(self, component: str, seen: Collection[GpuReservation]) -> UnmetDependency | None:
        """What of others is in the way of its start; `None` once what it needs is claimed.

        `seen`: what others claimed before the newest reading was made. A reservation that ended since is memory
        that the reading may not have.
        """
        async with self._decision_lock:
            if component in self._reservations:
                return None
            try:
                return await self._reserve(seen)
            except ConflictError as error:
                return UnmetDependency(error.title)
            except ConfigError:  # told by others
                return None
            except RltuiError as error:
                logger.warning("it starts without a claim on GPU memory: %s", error)
                return None

    async def _reserve(self, seen: Collection[GpuReservation]) -> UnmetDependency | None:
        devices = [device for device in self._readings.newest.devices if not device.host]
        waiting = [
            name
            for name, runner in self._runners.items()
            if runner.lifecycle.state is ComponentState.WAITING and name not in self._reservations
        ]
        wanted = [
            reservation.model_copy(update={"experiment": self._experiment})
            for reservation in (
                self._memory.needs(devices, self._store.files, starts=waiting) if devices else ()
            )
        ]
        if not wanted:
            return None
        own, found = self._all(), None
        epochs = {name: self._runners[name].lifecycle.epoch for name in waiting}
        has_waited = any(self._waiting_epochs.get(name) == epoch for name, epoch in epochs.items())

        def decide(others: tuple[GpuReservation, ...]) -> Collection[GpuReservation] | None:
            nonlocal found
            known = {
                (reservation.experiment, reservation.component, reservation.device): reservation
                for reservation in (*seen, *others)
            }
            found = contention(devices, wanted, own=own, others=known.values(), has_waited=has_waited)
            return (*own, *wanted) if found is None else None

        await asyncio.to_thread(self._files.change, decide)
        if found is not None:
            self._waiting_epochs = epochs
            return UnmetDependency(found.text, passes=found.is_starting)
        self._saved_users = ()
        for name in waiting:
            self._reservations[name] = tuple(
                reservation for reservation in wanted if reservation.component == name
            )
        self._changed.notify()
        return None

    def _all(self) -> tuple[GpuReservation, ...]:
        return tuple(
            reservation for reservations in self._reservations.values() for reservation in reservations
        )

    async def watch(self) -> None:
        """For ever: end the claims of components that have what they need, or are gone."""
        while True:
            if not self._reservations:
                await self._changed.wait()
            self.release_finished()
            await asyncio.sleep(_POLL_S)

    def release_finished(self) -> None:
        """End those that are over now."""
        over = [name for name in self._reservations if self._is_over(name)]
        for name in over:
            del self._reservations[name]
            self._ready_at.pop(name, None)
        if over or self._users() != self._saved_users:
            self._saved_users = self._users()
            try:
                self._files.keep(self._all(), self._saved_users)
            except RltuiError as error:  # a full disk: they end with this process at the latest
                logger.warning("%s", error)

    def _users(self) -> tuple[ProcessId, ...]:
        """The shims of those that have begun."""
        records = (
            runner.record for name in self._reservations if (runner := self._runners[name]).lifecycle.alive
        )
        return tuple(record.shim for record in records if record is not None and record.shim is not None)

    def _is_over(self, name: str) -> bool:
        lifecycle = self._runners[name].lifecycle
        if lifecycle.state is not ComponentState.READY:
            return not lifecycle.busy
        now = time.monotonic()
        since, steps = self._ready_at.setdefault(name, (now, self._completed()))
        if now - since > _MAX_AGE_S or self._completed() >= steps + _PEAK_STEPS:
            return True
        try:
            return self._memory.is_engine(name, self._store.files) or self._has_reached_size(name)
        except ConfigError:
            return False

    def _has_reached_size(self, name: str) -> bool:
        """On all of its devices."""
        by_key = {device.key: device for device in self._readings.newest.devices}
        return all(
            reservation.device in by_key
            and held_bytes(by_key[reservation.device], reservation)
            >= (_REACHED_FRAC * reservation.size_bytes or _UNKNOWN_SIZE_BYTES)
            for reservation in self._reservations[name]
        )
