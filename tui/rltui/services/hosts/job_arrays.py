"""Jobs of a sweep as one array of SLURM: their runners combine their scripts, and one of them submits.

The remote runner of a job imports it, so it needs no third-party package.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rltui import paths
from rltui.services.hosts.slurm import directive
from rltui.services.own_files import FileLock, make_folder, read_regular, write_atomically

_FILE = "array.json"
_JOIN_TIMEOUT_S = 60.0
"""Missing tasks are not waited for any more this long after the newest one came."""
_EXPIRY_S = 30 * 86400.0
"""Arrays that nobody changed for so long are deleted."""
_SINGLE_JOB_OPTION = re.compile(
    r"#SBATCH\s+(--(?:job-name|output|error|open-mode|array|parsable)\b|-[Joea]\b)"
)


@dataclass(frozen=True, slots=True)
class Task:
    script: str
    """Path of its script, which no other attempt has."""
    log: str
    """Path of the file for its output."""
    env: Mapping[str, str]
    """Variables that layout and framework add to the environment."""
    since: float
    """Time at which it joined, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class JobArray:
    name: str
    component: str
    size: int
    """Number of expected tasks."""
    limit: int | None = None
    """Number of tasks that run at once."""
    tasks: Mapping[int, Task] = field(default_factory=dict)
    """Number in the array → task that has joined."""
    is_closed: bool = False
    """True once it is being submitted: nobody can join it any more."""
    job: str = ""
    """The array's number in SLURM, once known."""
    fault: str = ""
    """SLURM's reason for refusing it."""

    def with_task(self, number: int, task: Task) -> JobArray:
        """Add a task; unchanged if it has joined already, or it is too late."""
        if self.is_closed or self.has(number, task.script):
            return self
        return replace(self, tasks={**self.tasks, number: task})

    def without(self, number: int) -> JobArray:
        """Remove a task whose run gives up, so that nobody waits for it."""
        remaining = {other: task for other, task in self.tasks.items() if other != number}
        return replace(self, tasks=remaining, size=self.size - 1)

    def has(self, number: int, script: str) -> bool:
        return number in self.tasks and self.tasks[number].script == script

    def closed(self, number: int) -> JobArray:
        """Close it for submission by that task, with only the tasks with the same directives: an array has
        one set.

        Raises:
            OSError: if a script cannot be read.
        """
        directives = _directives(self.tasks[number].script)
        compatible = {
            other: task for other, task in self.tasks.items() if _directives(task.script) == directives
        }
        return replace(self, tasks=compatible, is_closed=True)

    def awaited_count(self, now: float) -> int:
        """Number of missing tasks that may still join."""
        newest = max((task.since for task in self.tasks.values()), default=now)
        return 0 if now - newest > _JOIN_TIMEOUT_S else max(0, self.size - len(self.tasks))


class ArrayMember:
    """The location of an array, and the number of our task in it. Written `FOLDER:NUMBER`."""

    def __init__(self, text: str) -> None:
        """Raises ValueError if the text is invalid."""
        folder, _, number = text.rpartition(":")
        if not Path(folder).is_absolute():
            raise ValueError(f"{text!r} is not a task of a job array")
        self.folder = Path(folder)
        self.number = int(number)
        self.script = self.folder / "array.sh"
        """The script that is submitted."""
        self.lock = FileLock(self.folder / "array.lock")
        """The lock is held while the array is read or changed, also during the submission."""

    def read(self) -> JobArray | None:
        """`None` if it is gone, or cannot be parsed."""
        try:
            values = json.loads(read_regular(self.folder / _FILE))
            tasks = {int(number): Task(**task) for number, task in values.pop("tasks").items()}
            return JobArray(**values, tasks=tasks)
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return None

    def write(self, array: JobArray) -> None:
        """Replace it. Raises RltuiError if that fails."""
        write_atomically(self.folder / _FILE, json.dumps(asdict(array)).encode())


def make_array(name: str, component: str, *, size: int, limit: int | None) -> Path:
    """Create a folder for an array, to which `:NUMBER` is added for each of its tasks. Old ones are deleted.

    Raises:
        RltuiError: if it cannot be written.
    """
    parent = paths.state_dir() / "arrays"
    make_folder(parent, mode=0o700)
    for expired in parent.iterdir():
        if time.time() - expired.stat().st_mtime > _EXPIRY_S:
            shutil.rmtree(expired, ignore_errors=True)
    folder = parent / f"{name}-{secrets.token_hex(4)}"
    make_folder(folder, mode=0o700)
    ArrayMember(f"{folder}:0").write(JobArray(name, component, size, limit))
    return folder


def array_script(array: JobArray, number: int, *, name: str = "") -> str:
    """The script that this task submits: it has the directives of the task's own script, and runs each task's
    script. `name`: to use instead of the array's.

    Raises:
        OSError: if a script cannot be read.
    """
    numbers = ",".join(map(str, sorted(array.tasks)))
    at_once = f"%{array.limit}" if array.limit else ""
    first = array.tasks[number]
    cases = [_case(other, task, first.env) for other, task in sorted(array.tasks.items())]
    return "\n".join(
        [
            "#!/bin/bash",
            directive(f"--job-name={name or array.name}"),
            f"#SBATCH --array={numbers}{at_once}",
            "#SBATCH --output=/dev/null",
            *_directives(first.script),
            "",
            'case "$SLURM_ARRAY_TASK_ID" in',
            *cases,
            "esac",
            "",
        ]
    )


def _directives(script: str) -> tuple[str, ...]:
    """The directives of a script that do not belong to one job alone."""
    lines = []
    for line in read_regular(Path(script)).decode().splitlines():
        if line.startswith("#SBATCH"):
            lines.append(line)
        elif line.strip() and not line.startswith("#"):
            break  # the first command: sbatch reads no further
    return tuple(line for line in lines if not _SINGLE_JOB_OPTION.match(line))


def _case(number: int, task: Task, submitted: Mapping[str, str]) -> str:
    """Case of one task, which gets the submitting run's environment, adjusted to its own."""
    own = sorted(task.env.items() - submitted.items())
    lines = [
        *(f"export {name}={shlex.quote(value)}" for name, value in own),
        *(f"unset {name}" for name in sorted(submitted.keys() - task.env.keys())),
        f"exec bash {shlex.quote(task.script)} >> {shlex.quote(task.log)} 2>&1 ;;",
    ]
    return "\n".join([f"{number})", *(f"    {line}" for line in lines)])
