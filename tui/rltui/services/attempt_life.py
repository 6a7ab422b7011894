"""What became of an attempt whose processes are gone, by what its shim wrote and its output says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rltui.core.api import ComponentState
from rltui.core.failure_cause import FailurePattern
from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import Ended, ExitInfo, Life, Spawned, advance
from rltui.services.failure_log import cause_of_end
from rltui.services.processes import AttemptRecord


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
    """`exit_info` with what the end of the output says of the cause. An end that was wanted needs none.

    `host_oom`: the kernel has killed a process for want of memory while the attempt ran.
    """
    if exit_info.on_request or (exit_info.code == 0 and spec.kind == "job"):
        return exit_info
    cause = cause_of_end(
        log, exit_code=exit_info.code, signal=exit_info.signal, patterns=patterns, host_oom=host_oom
    )
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
