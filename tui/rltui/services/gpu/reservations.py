"""Claims on GPU memory: what each experiment that is starting will take, so that no two count on the same.

Each has a file in `<state>/gpu_claims/`, named like it. Who wants memory reads those of the others, decides
and writes its own under one lock. Who wrote a claim ends it when the component has what it needs or is
stopped; it is void once that process and what it was made for are gone.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

import rltui.core.gpu.reservations as core
from rltui import paths
from rltui.core.gpu.devices import chosen_devices
from rltui.core.gpu.report import GpuReport, GpuReservation
from rltui.core.values import Value
from rltui.errors import ConflictError
from rltui.services.gpu.cuda import VISIBLE_DEVICES
from rltui.services.gpu.sampling import read_once
from rltui.services.own_files import FileLock, make_folder, read_own, write_atomically
from rltui.services.processes import ProcessId, boot_identity, is_alive, read_process_id

logger = logging.getLogger(__name__)

_LOCK_TIMEOUT_S = 5.0
_LOCK_POLL_S = 0.01
_UNSEEN_S = 900.0
"""So long the claim of a process counts that cannot be seen from here, in another container of this boot."""


class _Kept(Value):
    pid: int
    start: int
    boot: str = ""
    at: float = 0.0
    users: tuple[tuple[int, int], ...] = ()
    """Pid and start of processes that it is for, as far as they run: they may outlive who claims for them."""
    claims: tuple[GpuReservation, ...] = ()


class FreeDevices(NamedTuple):
    devices: tuple[str, ...]
    """As `--devices` takes them; empty where there are not enough."""
    why: str
    """Why there are not, in words; else empty."""


class ReservationFiles:
    """The claims of one experiment, and those of all others."""

    def __init__(self, experiment: str, folder: Path | None = None) -> None:
        self._experiment = experiment
        self._folder = folder or _folder()
        self._file = self._folder / experiment
        self._boot = boot_identity()

    def own(self) -> tuple[GpuReservation, ...]:
        """As they were written, also by a process that is gone."""
        kept = _read(self._file)
        return kept.claims if kept is not None else ()

    def others(self) -> tuple[GpuReservation, ...]:
        """Those of the other experiments whose processes live."""
        return tuple(
            claim
            for file in _files(self._folder)
            if file.name != self._experiment and (kept := _read(file)) is not None
            if _counts(kept, self._boot)
            for claim in kept.claims
        )

    def change(
        self, decide: Callable[[tuple[GpuReservation, ...]], Collection[GpuReservation] | None]
    ) -> Collection[GpuReservation] | None:
        """Replace the own ones by what `decide` makes of those of the others; `None` leaves them.

        Nobody else changes any meanwhile. Blocking; returns what `decide` did.

        Raises:
            ConflictError: if another holds the lock for long.
            RltuiError: if they cannot be written.
        """
        make_folder(self._folder, mode=0o700)
        with _locked(self._folder):
            # what others claimed and nobody has any more: whoever comes back to it must ask again
            for file in _files(self._folder):
                kept = _read(file)
                if file.name != self._experiment and kept is not None and not _counts(kept, self._boot):
                    file.unlink(missing_ok=True)
            decided = decide(self.others())
            if decided is not None:
                self.keep(decided)
        return decided

    def keep(self, claims: Collection[GpuReservation], users: Iterable[ProcessId] = ()) -> None:
        """Replace the own ones by some of them, which takes nothing from anybody. `users`: whom they are for.

        Raises:
            RltuiError: if they cannot be written.
        """
        if not claims:
            with suppress(OSError):  # there is none, or no folder
                self._file.unlink()
            return
        me = read_process_id(os.getpid()) or ProcessId(os.getpid(), 0)
        kept = _Kept(
            pid=me.pid,
            start=me.start,
            boot=self._boot,
            at=time.time(),
            users=tuple((user.pid, user.start) for user in users),
            claims=tuple(claims),
        )
        write_atomically(self._file, kept.model_dump_json().encode())


def report_once(experiment: str | None = None) -> GpuReport:
    """The devices with owners, and with what experiments besides `experiment` that are starting will take."""
    return core.with_reservations(read_once(experiment), other_reservations(experiment))


def other_reservations(experiment: str | None = None) -> tuple[GpuReservation, ...]:
    return ReservationFiles(experiment or "").others()


def free_devices(count: int, bytes_each: int) -> FreeDevices:
    """`count` devices of those visible here that no experiment uses or claims, each with so much free.

    Blocking, for a second where the driver must be loaded.
    """
    report = report_once()
    if not report.available:
        return FreeDevices((), f"no GPU of this machine can be read: {report.reason}")
    visible = chosen_devices(os.environ.get(VISIBLE_DEVICES), report.devices)
    found, why = core.free_devices(visible, count, bytes_each)
    return FreeDevices(tuple(device.as_choice for device in found), why)


def reserve_devices(
    experiment: str, count: int, bytes_each: int, without: Collection[str] = ()
) -> FreeDevices:
    """As `free_devices`, and claimed for `experiment`, which this process will start: until that claims by
    itself, `release_devices`, or the end of this process. `without`: devices that are somebody else's.

    Raises:
        RltuiError: as `ReservationFiles.change`.
    """
    report = read_once()
    if not report.available:
        return FreeDevices((), f"no GPU of this machine can be read: {report.reason}")
    visible = chosen_devices(os.environ.get(VISIBLE_DEVICES), report.devices)
    visible = tuple(device for device in visible if device.as_choice not in without)
    taken = FreeDevices((), "")

    def decide(others: tuple[GpuReservation, ...]) -> Collection[GpuReservation] | None:
        nonlocal taken
        claimed = [device.model_copy(update={"claims": core.pressing(device, others)}) for device in visible]
        found, why = core.free_devices(claimed, count, bytes_each)
        taken = FreeDevices(tuple(device.as_choice for device in found), why)
        claims = [
            GpuReservation(experiment=experiment, device=device.key, size_bytes=bytes_each)
            for device in found
        ]
        return claims or None

    ReservationFiles(experiment).change(decide)
    return taken


def release_devices(experiment: str) -> None:
    """Take back what this process reserved. What the experiment itself claims by now stays."""
    files = ReservationFiles(experiment)
    if all(not claim.component for claim in files.own()):
        files.keep(())


def _folder() -> Path:
    return paths.state_dir() / "gpu_claims"


def _files(folder: Path) -> list[Path]:
    """Without those that are being written, and the lock."""
    try:
        return [Path(entry) for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except OSError:  # nobody has claimed anything yet
        return []


def _read(file: Path) -> _Kept | None:
    """`None` for one that is gone, or cannot be understood: it claims nothing."""
    try:
        return _Kept.model_validate_json(read_own(file))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        logger.warning("%s claims nothing: %s", file, error)
        return None


def _counts(kept: _Kept, boot: str) -> bool:
    """Who wrote it lives, or somebody whom it is for, as far as can be told."""
    if kept.boot == boot:
        return any(is_alive(ProcessId(*each)) for each in ((kept.pid, kept.start), *kept.users))
    is_this_boot = kept.boot.partition(" ")[0] == boot.partition(" ")[0]
    return is_this_boot and time.time() - kept.at < _UNSEEN_S


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / ".lock")
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while not lock.take():
        if time.monotonic() > deadline:
            raise ConflictError(f"another rltui holds {lock.path}", hint="try again")
        time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        lock.release()
