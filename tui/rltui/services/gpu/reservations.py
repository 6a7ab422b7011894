"""Reservations of GPU memory: what each starting experiment will take, so that no two count on the same
bytes.

Each experiment has a file in `<state>/gpu_claims/` with its name. A reservation is made under one lock:
read the files of the others, decide, write the own file. It is deleted when the component holds its memory or
is stopped, and is void once the process that wrote it and those that it was made for have ended.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rltui import paths
from rltui.base.values import InvalidValueError, Value
from rltui.core.gpu.report import GpuReport, GpuReservation
from rltui.core.gpu.reservations import FreeDevices, free_devices, with_claims
from rltui.errors import ConflictError
from rltui.services.gpu.cuda import visible_devices
from rltui.services.own_files import FileLock, make_folder, read_own, write_atomically
from rltui.services.processes import ProcessId, boot_identity, is_alive, read_process_id

logger = logging.getLogger(__name__)

_LOCK_TIMEOUT_S = 5.0
_INVISIBLE_TTL_S = 900.0
"""Validity of a reservation whose process is invisible, in another container of this boot."""


class _ReservationFile(Value):
    pid: int
    start: int
    boot: str = ""
    at: float = 0.0
    users: tuple[tuple[int, int], ...] = ()
    """Pid and start time of the processes that it is for, once they run: they may outlive the writer."""
    claims: tuple[GpuReservation, ...] = ()


class ReservationFiles:
    """The reservations of one experiment, and those of all others."""

    def __init__(self, experiment: str, folder: Path | None = None) -> None:
        self._experiment = experiment
        self._folder = folder or _folder()
        self._file = self._folder / experiment
        self._boot = boot_identity()

    def own(self) -> tuple[GpuReservation, ...]:
        """The last ones written, even if by a process that has ended."""
        file = _read(self._file)
        return file.claims if file is not None else ()

    def others(self) -> tuple[GpuReservation, ...]:
        """The valid reservations of the other experiments."""
        return tuple(
            reservation
            for file in _files(self._folder)
            if file.name != self._experiment and (reserved := _read(file)) is not None
            if _is_valid(reserved, self._boot)
            for reservation in reserved.claims
        )

    def change(
        self, decide: Callable[[tuple[GpuReservation, ...]], Collection[GpuReservation] | None]
    ) -> Collection[GpuReservation] | None:
        """Replace the own ones by what `decide` makes of those of the others; `None` leaves them.

        Nobody else changes any meanwhile. Blocking; returns the result of `decide`.

        Raises:
            ConflictError: if another holds the lock for long.
            RltuiError: if they cannot be written.
        """
        make_folder(self._folder, mode=0o700)
        with _locked(self._folder):
            # reservations of others that are void: whoever still needs one must reserve again
            for file in _files(self._folder):
                reserved = _read(file)
                if (
                    file.name != self._experiment
                    and reserved is not None
                    and not _is_valid(reserved, self._boot)
                ):
                    file.unlink(missing_ok=True)
            decided = decide(self.others())
            if decided is not None:
                self.keep(decided)
        return decided

    def keep(self, reservations: Collection[GpuReservation], users: Iterable[ProcessId] = ()) -> None:
        """Replace the own ones by a subset, which needs no lock. `users`: the processes that they are for.

        Raises:
            RltuiError: if they cannot be written.
        """
        if not reservations:
            with suppress(OSError):  # there is none, or no folder
                self._file.unlink()
            return
        me = read_process_id(os.getpid()) or ProcessId(os.getpid(), 0)
        content = _ReservationFile(
            pid=me.pid,
            start=me.start,
            boot=self._boot,
            at=time.time(),
            users=tuple((user.pid, user.start) for user in users),
            claims=tuple(reservations),
        )
        write_atomically(self._file, content.to_json())


def reserve_devices(
    experiment: str, report: GpuReport, count: int, bytes_each: int, without: Collection[str] = ()
) -> FreeDevices:
    """Reserve the first `count` visible devices of a fresh report that no experiment uses or has reserved,
    each with `bytes_each` bytes free, for `experiment`, which this process will start: until that reserves
    itself, `release_devices`, or the end of this process. `without`: devices that must not be used. Returns
    all that are free; nothing was reserved if they are too few.

    Raises:
        RltuiError: as `ReservationFiles.change`.
    """
    visible = [device for device in visible_devices(report) if device.as_choice not in without]
    free = FreeDevices((), ())

    def decide(others: tuple[GpuReservation, ...]) -> Collection[GpuReservation] | None:
        nonlocal free
        free = free_devices(with_claims(visible, others), bytes_each)
        if not count or len(free.devices) < count:
            return None
        return [
            GpuReservation(experiment=experiment, device=device.key, size_bytes=bytes_each)
            for device in free.devices[:count]
        ]

    ReservationFiles(experiment).change(decide)
    return free


def release_devices(experiment: str) -> None:
    """Delete what this process reserved. The experiment's own reservations stay."""
    files = ReservationFiles(experiment)
    if all(not reservation.component for reservation in files.own()):
        files.keep(())


def _folder() -> Path:
    return paths.state_dir() / "gpu_claims"


def _files(folder: Path) -> list[Path]:
    """The files without those that are being written, and without the lock."""
    try:
        return [Path(entry) for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except OSError:  # nobody has reserved anything yet
        return []


def _read(file: Path) -> _ReservationFile | None:
    """`None` for a file that is gone or cannot be parsed: it reserves nothing."""
    try:
        return _ReservationFile.from_json(read_own(file))
    except FileNotFoundError:
        return None
    except (OSError, InvalidValueError) as error:
        logger.warning("%s claims nothing: %s", file, error)
        return None


def _is_valid(file: _ReservationFile, boot: str) -> bool:
    """True if the writer lives, or a process that it is for, as far as can be seen."""
    if file.boot == boot:
        return any(is_alive(ProcessId(*process)) for process in ((file.pid, file.start), *file.users))
    is_this_boot = file.boot.partition(" ")[0] == boot.partition(" ")[0]
    return is_this_boot and time.time() - file.at < _INVISIBLE_TTL_S


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / ".lock")
    busy = ConflictError(f"locked by another rltui: {lock.path}", hint="try again")
    with lock.hold(busy, wait_s=_LOCK_TIMEOUT_S):
        yield
