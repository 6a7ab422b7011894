"""The last known state of a component that runs remotely: `remote.json` in the attempt's folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rltui.core.experiment.states import HostPhase
from rltui.services.own_files import read_regular

_FILE = "remote.json"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """State of a remote component. Times are those of the local wall clock, in seconds."""

    id: str = ""
    """The host's id for it: a job's number, a pod's uid, a folder. Empty until it was started there."""
    where: str = ""
    """Display text: `job 1234 on node-[1-2]`, `node-2`, `pod my-exp-trainer-0`."""
    nodes: str = ""
    """The nodes that it runs on, if its host names them: `node-[1-2]`. Empty while it does not run."""
    script: str = ""
    """Path of the job script, on this machine; empty where its host takes none."""
    phase: HostPhase = "pending"
    """`pending`: its host has not started it."""
    reason: str = ""
    """The reason why it is pending, or a note while it runs."""
    since: float = 0.0
    """Time at which the phase began."""
    starts: int = 0
    """Number of starts by its host: several if it was requeued, or its pod created again."""
    ends_at: float | None = None
    """End of a job's time limit."""
    lost_at: float | None = None
    """Time since which the host does not answer; the other values are as old."""
    problem: str = ""
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    """Host's reason for the end, in addition to code and signal."""
    cursor: str = ""
    """Used by the host: position up to which the output was copied, if the local length does not tell."""

    @property
    def has_begun(self) -> bool:
        """True once its host has started it, and is not about to start it again."""
        return self.phase == "running" or (self.phase == "ended" and self.starts > 0)

    @property
    def may_live(self) -> bool:
        """True if it was started there, and its end was not observed."""
        return bool(self.id) and self.phase != "ended"


def read_job_status(attempt: Path) -> JobStatus | None:
    """`None` if nothing was written yet, or it cannot be parsed."""
    try:
        values = json.loads(read_regular(attempt / _FILE))
        names = {field.name for field in fields(JobStatus)}
        return JobStatus(**{name: value for name, value in values.items() if name in names})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def write_job_status(attempt: Path, status: JobStatus) -> None:
    """Replace it atomically. Raises OSError if that fails."""
    temporary = attempt / f".{_FILE}.{os.getpid()}"
    temporary.write_text(json.dumps(asdict(status)), encoding="utf-8")
    temporary.replace(attempt / _FILE)
