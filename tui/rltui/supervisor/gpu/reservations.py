"""The reservations of GPU memory: made before components start, released when they have it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping

from rltui.base.tasks import Signal
from rltui.base.text import GIB
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.report import GpuReservation
from rltui.core.gpu.reservations import contention, held_bytes, with_claims
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.config.document import ConfigDocument
from rltui.services.gpu.forecast import Forecaster
from rltui.services.gpu.reservations import ReservationFiles
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.processes import ProcessId
from rltui.supervisor.component import ComponentRunner, UnmetDependency
from rltui.views.gpu.reservations import contention_text

logger = logging.getLogger(__name__)

_POLL_S = 1.0
"""Pause between two polls for reservations that are over, while there are any."""
_REACHED_FRAC = 0.95
"""A component that holds this share of its reservation has grown to its size."""
_UNKNOWN_SIZE_BYTES = GIB // 2
"""More than a CUDA context: a component of unknown size that holds this has begun to load."""
_PEAK_STEPS = 2
"""A trainer has had its peak after so many steps."""
_MAX_AGE_S = 900.0
"""A component that was ready for so long does not grow any more, or takes less than it did before."""


class ReservationManager:
    """Reserves memory for all components that wait to be started, at once: a component with a part of its
    memory that waits for the rest would keep others waiting for nothing.
    """

    def __init__(
        self,
        experiment: str,
        runners: Mapping[str, ComponentRunner],
        document: ConfigDocument,
        forecaster: Forecaster,
        readings: GpuReadings,
        completed_steps: Callable[[], int],
    ) -> None:
        """`completed_steps` returns the number of steps that the run has completed."""
        self._experiment = experiment
        self._runners = runners
        self._document = document
        self._forecaster = forecaster
        self._readings = readings
        self._completed_steps = completed_steps
        self._files = ReservationFiles(experiment)
        self._decision_lock = asyncio.Lock()
        self._reservations: dict[str, tuple[GpuReservation, ...]] = {}
        """Component → its reservations; empty where it needs no memory."""
        self._ready_at: dict[str, tuple[float, int]] = {}
        """Component with a reservation → when it was first seen ready (monotonic), and the run's
        steps then.
        """
        self._saved_users: tuple[ProcessId, ...] = ()
        self._changed = Signal()
        self._waiting_epochs: dict[str, int] = {}
        """Component that waited for another experiment to start → epoch of its lifecycle then."""

    def adopt(self) -> None:
        """Keep an earlier supervisor's reservations for components that are still starting."""
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

    async def reserve(self, component: str, earlier: Collection[GpuReservation]) -> UnmetDependency | None:
        """Reserve what the waiting components need; `None` once that is done, else what of others is in the
        way.

        `earlier`: reservations of others from before the newest reading. Where one has ended since, its
        memory may be missing from that reading.
        """
        async with self._decision_lock:
            if component in self._reservations:
                return None
            try:
                return await self._reserve(earlier)
            except ConflictError as error:
                return UnmetDependency(error.title, code="gpu_memory")
            except ConfigError:  # reported by others
                return None
            except RltuiError as error:
                logger.warning("it starts without a claim on GPU memory: %s", error)
                return None

    async def _reserve(self, earlier: Collection[GpuReservation]) -> UnmetDependency | None:
        devices = [device for device in self._readings.newest.devices if not device.host]
        waiting = [
            name
            for name, runner in self._runners.items()
            if runner.lifecycle.state is ComponentState.WAITING and name not in self._reservations
        ]
        needs = [
            reservation.replace(experiment=self._experiment)
            for reservation in (
                self._forecaster.needs(devices, self._document.files, starts=waiting) if devices else ()
            )
        ]
        if not needs:
            return None
        own, conflict = self._all(), None
        epochs = {name: self._runners[name].lifecycle.epoch for name in waiting}
        has_waited = any(self._waiting_epochs.get(name) == epoch for name, epoch in epochs.items())

        def decide(others: tuple[GpuReservation, ...]) -> Collection[GpuReservation] | None:
            nonlocal conflict
            all_others = {
                (reservation.experiment, reservation.component, reservation.device): reservation
                for reservation in (*earlier, *others)
            }
            claimed = with_claims(devices, (*own, *all_others.values()))
            conflict = contention(claimed, needs, has_waited=has_waited)
            return (*own, *needs) if conflict is None else None

        await asyncio.to_thread(self._files.change, decide)
        if conflict is not None:
            self._waiting_epochs = epochs
            passes = bool(conflict.reserved)
            return UnmetDependency(contention_text(conflict), code="gpu_memory", passes=passes)
        self._saved_users = ()
        for name in waiting:
            self._reservations[name] = tuple(
                reservation for reservation in needs if reservation.component == name
            )
        self._changed.notify()
        return None

    def _all(self) -> tuple[GpuReservation, ...]:
        return tuple(
            reservation for reservations in self._reservations.values() for reservation in reservations
        )

    async def watch(self) -> None:
        """Release reservations for ever: of components that have their memory, or are gone."""
        while True:
            if not self._reservations:
                await self._changed.wait()
            self.release_finished()
            await asyncio.sleep(_POLL_S)

    def release_finished(self) -> None:
        finished = [name for name in self._reservations if self._is_over(name)]
        for name in finished:
            del self._reservations[name]
            self._ready_at.pop(name, None)
        if finished or self._users() != self._saved_users:
            self._saved_users = self._users()
            try:
                self._files.keep(self._all(), self._saved_users)
            except RltuiError as error:  # a full disk: they end with this process at the latest
                logger.warning("%s", error)

    def _users(self) -> tuple[ProcessId, ...]:
        """The shims of the components with reservations that have started."""
        records = (
            runner.record for name in self._reservations if (runner := self._runners[name]).lifecycle.alive
        )
        return tuple(record.shim for record in records if record is not None and record.shim is not None)

    def _is_over(self, name: str) -> bool:
        lifecycle = self._runners[name].lifecycle
        if lifecycle.state is not ComponentState.READY:
            return not lifecycle.busy
        now = time.monotonic()
        since, steps = self._ready_at.setdefault(name, (now, self._completed_steps()))
        if now - since > _MAX_AGE_S or self._completed_steps() >= steps + _PEAK_STEPS:
            return True
        try:
            return self._forecaster.is_engine(name, self._document.files) or self._has_reached_size(name)
        except ConfigError:
            return False

    def _has_reached_size(self, name: str) -> bool:
        """True if it has grown to its size on all of its devices."""
        by_key = {device.key: device for device in self._readings.newest.devices}
        return all(
            reservation.device in by_key
            and held_bytes(by_key[reservation.device], reservation)
            >= (_REACHED_FRAC * reservation.size_bytes or _UNKNOWN_SIZE_BYTES)
            for reservation in self._reservations[name]
        )
