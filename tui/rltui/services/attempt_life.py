"""What became of an attempt whose processes are gone, by what its shim wrote."""

from __future__ import annotations

from typing import Literal

from rltui.core.api import ComponentState
from rltui.core.lifecycle import Ended, ExitInfo, Life, Spawned, advance
from rltui.services.processes import AttemptRecord


def exit_info(record: AttemptRecord | None) -> ExitInfo:
    """How it ended; unknown where nobody was there to write it down."""
    if record is None or (record.ended_at is None and record.state != "exited"):
        return ExitInfo()
    return ExitInfo(
        code=record.exit_code, signal=record.signal, error=record.error, on_request=record.stop_requested
    )


def ended_life(kind: Literal["service", "job"], record: AttemptRecord | None) -> Life:
    """The state to show."""
    waiting = Life(kind=kind, state=ComponentState.WAITING)
    return advance(advance(waiting, Spawned(epoch=0, ready=True)), Ended(epoch=0, exit=exit_info(record)))
