"""What a whole GPU and a MIG slice have in common: memory, and processes that hold it."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.gpu.report import GpuProcess
from rltui.services.nvml_handle import Handle
from rltui.services.nvml_identity import Identity
from rltui.services.nvml_memory import Memory, read_memory
from rltui.services.nvml_processes import held_bytes, read_processes, within

MAX_AGE_S = 3.0
"""Of the process lists."""
CHANGE_BYTES = 32 << 20
"""When used memory has changed by this much, somebody came or went or took more: the lists are read again."""
TRIES = 2
"""How often lists are read for one sample until they agree with the memory read right after them."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The process lists, and beside what they were read."""

    processes: tuple[GpuProcess, ...]
    read_at: float
    used_bytes: int | None
    agrees: bool
    """The processes hold no more than was used."""
    newly_unknown: bool
    """A process's memory is unknown, and was not unknown in the lists before these."""


class Partition:
    """One handle, and what is remembered of it."""

    def __init__(self, handle: Handle, identity: Identity) -> None:
        self.handle = handle
        self.identity = identity
        self._listing: _Listing | None = None

    def read(self, now: float) -> tuple[Memory, tuple[GpuProcess, ...]]:
        """Memory, and processes that together hold no more than its `used`.

        Args:
            now: seconds on a monotonic clock.

        Raises:
            NVMLError: The device is gone, or its memory cannot be read.
        """
        memory = self._memory()
        if self._is_due(memory, now):
            memory = self._list_anew(memory, now)
        return memory, within(self._listing.processes, memory.used) if self._listing else ()

    def _memory(self) -> Memory:
        return read_memory(self.handle, is_slice=self.identity.mig is not None)

    def _is_due(self, memory: Memory, now: float) -> bool:
        last = self._listing
        if last is None or now - last.read_at >= MAX_AGE_S or last.newly_unknown:
            return True
        if memory.used is None or last.used_bytes is None:
            return memory.used is not last.used_bytes
        outgrown = last.agrees and held_bytes(last.processes) > memory.used
        return outgrown or abs(memory.used - last.used_bytes) >= CHANGE_BYTES

    def _list_anew(self, memory: Memory, now: float) -> Memory:
        """Read the lists, then the memory: a process that grows meanwhile is seen to by that order.

        One that shrinks meanwhile is not, hence the second try. Where a list fails the earlier ones stay.
        """
        for _ in range(TRIES):
            processes = read_processes(self.handle, memory.total)
            memory = self._memory()
            if processes is None:
                break
            agrees = memory.used is None or held_bytes(processes) <= memory.used
            newly_unknown = not _unknown(processes) <= _unknown(
                self._listing.processes if self._listing else ()
            )
            self._listing = _Listing(processes, now, memory.used, agrees, newly_unknown)
            if agrees:
                break
        return memory


def _unknown(processes: tuple[GpuProcess, ...]) -> set[int]:
    return {process.pid for process in processes if process.used_bytes is None}
