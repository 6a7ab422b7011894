"""Processes as the operating system sees them: identity, trees, leftovers, and port holders.

Termination is in `termination.py`, whose asyncio not every caller can afford to import.

A process is identified by pid and start time, and signalled through a pidfd, so a reused pid is never hit.
"""

from __future__ import annotations

from rltui.services.processes.attempts import (
    AttemptRecord,
    Leftover,
    ProcessOwners,
    attempt_tags,
    has_record,
    kept_leftovers,
    leftovers,
    living_output_dirs,
    read_attempt,
    shim_folder,
)
from rltui.services.processes.details import (
    age_s,
    command_name,
    in_initial_pid_namespace,
    is_stopped,
    owner_name,
    survival_reason,
    uid,
)
from rltui.services.processes.identity import (
    ProcessId,
    ancestors,
    boot_identity,
    command_line,
    descendants,
    is_alive,
    read_process_id,
    send_signal,
)
from rltui.services.processes.ports import PortHolder, listening_ports, port_holder, port_holders

__all__ = [
    "AttemptRecord",
    "Leftover",
    "PortHolder",
    "ProcessId",
    "ProcessOwners",
    "age_s",
    "ancestors",
    "attempt_tags",
    "boot_identity",
    "command_line",
    "command_name",
    "descendants",
    "has_record",
    "in_initial_pid_namespace",
    "is_alive",
    "is_stopped",
    "kept_leftovers",
    "leftovers",
    "listening_ports",
    "living_output_dirs",
    "owner_name",
    "port_holder",
    "port_holders",
    "read_attempt",
    "read_process_id",
    "send_signal",
    "shim_folder",
    "survival_reason",
    "uid",
]
