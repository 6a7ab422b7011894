"""A component that runs elsewhere, as its follower last knew it: `remote.json` in the attempt's folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from rltui.services.own_files import read_regular

_FILE = "remote.json"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What is known of it. Times are those of the wall clock here, in seconds."""

    id: str = ""
    """What its host knows it by: a job's number, a pod's uid, a folder. Empty until it was started there."""
    where: str = ""
    """For people: `job 1234 on node-[1-2]`, `node-2`, `pod my-exp-trainer-0`."""
    nodes: str = ""
    """The nodes that it runs on, where its host says them: `node-[1-2]`. Empty while it does not run."""
    phase: Literal["pending", "running", "ended"] = "pending"
    """`pending`: its host has not begun to run it."""
    reason: str = ""
    """Why it is pending, or what is to be said of it while it runs, in words."""
    since: float = 0.0
    """When the phase began."""
    starts: int = 0
    """How often its host has started it: more than once where it was requeued, or its pod made anew."""
    ends_at: float | None = None
    """When its host will end it: the time limit of a job."""
    lost_at: float | None = None
    """Since when nobody answers there; what else is said here is as old."""
    problem: str = ""
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    """Why it ended beside code and signal, in words: the host's own reason."""
    cursor: str = ""
    """The host's own: up to where it has brought the output over, where its length here does not tell."""

    @property
    def may_live(self) -> bool:
        """It was started there, and nobody has seen its end."""
        return bool(self.id) and self.phase != "ended"


def read_job_status(attempt: Path) -> JobStatus | None:
    """`None` where nothing was written yet, or nothing that can be understood."""
    try:
        values = json.loads(read_regular(attempt / _FILE))
        known = {field.name for field in fields(JobStatus)}
        return JobStatus(**{name: value for name, value in values.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def write_job_status(attempt: Path, remote: JobStatus) -> None:
    """Replace it as a whole. Raises OSError where that cannot be done."""
    temporary = attempt / f".{_FILE}.{os.getpid()}"
    temporary.write_text(json.dumps(asdict(remote)), encoding="utf-8")
    temporary.replace(attempt / _FILE)
