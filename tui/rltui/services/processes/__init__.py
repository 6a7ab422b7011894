"""What the operating system knows of processes: identity, trees, leftovers, ends, and who holds a port.

A process is named by pid and start time, and signalled through a pidfd, so a reused pid is never hit.
"""

from __future__ import annotations

from rltui.services.processes.attempts import AttemptRecord, Leftover, leftovers, read_attempt
from rltui.services.processes.ending import end_processes, wait_for_exit
from rltui.services.processes.identity import (
    ProcessId,
    ancestors,
    boot_identity,
    descendants,
    is_alive,
    read_process_id,
    send_signal,
)
from rltui.services.processes.ports import PortHolder, port_holder

__all__ = [
    "AttemptRecord",
    "Leftover",
    "PortHolder",
    "ProcessId",
    "ancestors",
    "boot_identity",
    "descendants",
    "end_processes",
    "is_alive",
    "leftovers",
    "port_holder",
    "read_attempt",
    "read_process_id",
    "send_signal",
    "wait_for_exit",
]
