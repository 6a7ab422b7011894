"""What became of an attempt whose processes are gone, by what its shim wrote and its output says."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rltui.core.api import ComponentState
from rltui.core.failure_cause import FailurePattern, find_cause
from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import Ended, ExitInfo, Life, Spawned, advance
from rltui.services import processes
from rltui.services.failure_log import cause_of_end, last_lines
from rltui.services.processes import AttemptRecord
from rltui.services.runs.experiment_files import ControlFolder

logger = logging.getLogger(__name__)

NEWEST_KEPT = 50
"""Attempts of a component that are kept whatever became of them."""
LASTED_S = 60.0
"""An older one is kept if it ran for so long."""


def exit_info(record: AttemptRecord | None) -> ExitInfo:
    """How it ended; unknown where nobody was there to write it down."""
    if record is None or (record.ended_at is None and record.state != "exited"):
        return ExitInfo()
    return ExitInfo(
        code=record.exit_code, signal=record.signal, error=record.error, on_request=record.stop_requested
    )


def explained(
    exit_info: ExitInfo,
    spec: ComponentSpec,
    log: Path,
    patterns: Sequence[FailurePattern],
    *,
    host_oom: bool = False,
) -> ExitInfo:
    """`exit_info` with what the end of the output says of the cause.

    An end that was wanted needs none; of a job that ended well, it may say to whom it left the work.

    `host_oom`: the kernel has killed a process for want of memory while the attempt ran.
    """
    if exit_info.on_request:
        return exit_info
    if exit_info.code == 0 and spec.kind == "job":
        left = find_cause(last_lines(log), patterns, ends_well=True)
        return exit_info if left is None else replace(exit_info, cause=left.text)
    try:
        cause = cause_of_end(
            log, exit_code=exit_info.code, signal=exit_info.signal, patterns=patterns, host_oom=host_oom
        )
    except (ValueError, OverflowError):  # its line has a number that no computer holds
        cause = None
    if cause is None:
        return exit_info
    memory = cause.memory and cause.memory.model_copy(update={"component": spec.id})
    return replace(exit_info, cause=cause.text, hopeless=cause.hopeless, memory=memory)


def ended_life(
    spec: ComponentSpec, record: AttemptRecord | None, log: Path, patterns: Sequence[FailurePattern]
) -> Life:
    """The state to show of an attempt whose output is `log`."""
    waiting = Life(kind=spec.kind, state=ComponentState.WAITING)
    ended = explained(exit_info(record), spec, log, patterns)
    return advance(advance(waiting, Spawned(epoch=0, ready=True)), Ended(epoch=0, exit=ended))


def prune_attempts(control: ControlFolder, component: str) -> None:
    """Remove old attempts that came to nothing: what a crash loop leaves would fill the disk.

    One that lasted has a log that a person may want, and stays, as do the newest.
    """
    for number in control.attempts(component)[:-NEWEST_KEPT]:
        folder = control.attempt_dir(component, number)
        record = processes.read_attempt(folder)
        if record is None or record.ended_at is None:
            continue  # unreadable, or not ended as far as is known
        if record.ended_at - record.started_at >= LASTED_S or record.is_supervised:
            continue
        try:
            shutil.rmtree(folder)
        except OSError as error:
            logger.warning("cannot remove %s: %s", folder, error.strerror)
