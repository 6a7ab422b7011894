"""Jobs of a sweep as one array of SLURM: their followers lay their scripts together, one of them submits.

The follower of a job imports it: standard library only.
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
from rltui.services.own_files import FileLock, make_folder, read_regular, write_atomically
from rltui.services.slurm import directive

_FILE = "array.json"
_PATIENCE_S = 60.0
"""So long after the newest came, those that are missing are not waited for any more."""
_KEPT_S = 30 * 86400.0
"""Arrays that nobody changed for so long are forgotten."""
_OF_ONE_JOB = re.compile(r"#SBATCH\s+(--(?:job-name|output|error|open-mode|array|parsable)\b|-[Joea]\b)")


@dataclass(frozen=True, slots=True)
class Task:
    script: str
    """Path of its script; no other attempt has the same."""
    log: str
    """Path of the file for its output."""
    env: Mapping[str, str]
    """What layout and framework add to the environment."""
    since: float
    """When it came, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class JobArray:
    name: str
    component: str
    size: int
    """So many tasks are expected."""
    limit: int | None = None
    """So many run at once."""
    tasks: Mapping[int, Task] = field(default_factory=dict)
    """Those that are there, by their number in the array."""
    is_closed: bool = False
    """It is being submitted, or was: nobody can join it any more."""
    job: str = ""
    """Its number, once it is known."""
    fault: str = ""
    """That SLURM refused it, and why."""

    def with_task(self, number: int, task: Task) -> JobArray:
        """With one more; as it is where that is there already, or it is too late."""
        if self.is_closed or self.has(number, task.script):
            return self
        return replace(self, tasks={**self.tasks, number: task})

    def without(self, number: int) -> JobArray:
        """That run gives up, and nobody waits for it."""
        left = {each: task for each, task in self.tasks.items() if each != number}
        return replace(self, tasks=left, size=self.size - 1)

    def has(self, number: int, script: str) -> bool:
        return number in self.tasks and self.tasks[number].script == script

    def closed(self, number: int) -> JobArray:
        """To be submitted by that task, with those alone that ask SLURM for the same: an array asks once.

        Raises:
            OSError: if a script cannot be read.
        """
        asked = _asked(self.tasks[number].script)
        alike = {each: task for each, task in self.tasks.items() if _asked(task.script) == asked}
        return replace(self, tasks=alike, is_closed=True)

    def awaits(self, now: float) -> int:
        """So many tasks are missing and may still come."""
        newest = max((task.since for task in self.tasks.values()), default=now)
        return 0 if now - newest > _PATIENCE_S else max(0, self.size - len(self.tasks))


class ArrayPlace:
    """Where an array lies, and which task of it is ours. Written `FOLDER:NUMBER`."""

    def __init__(self, place: str) -> None:
        """Raises ValueError where it is none."""
        folder, _, number = place.rpartition(":")
        if not Path(folder).is_absolute():
            raise ValueError(f"{place!r} names no task of a job array")
        self.folder = Path(folder)
        self.number = int(number)
        self.script = self.folder / "array.sh"
        """What is submitted."""
        self.lock = FileLock(self.folder / "array.lock")
        """Held by whoever reads or changes it, also while they submit it."""

    def read(self) -> JobArray | None:
        """`None` where it is gone, or nothing that can be understood."""
        try:
            values = json.loads(read_regular(self.folder / _FILE))
            tasks = {int(number): Task(**task) for number, task in values.pop("tasks").items()}
            return JobArray(**values, tasks=tasks)
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return None

    def write(self, array: JobArray) -> None:
        """Replace it. Raises RltuiError where that cannot be done."""
        write_atomically(self.folder / _FILE, json.dumps(asdict(array)).encode())


def make_array(name: str, component: str, *, size: int, limit: int | None) -> Path:
    """A folder for one, to which `:NUMBER` is added for each of its tasks. Old ones are removed.

    Raises:
        RltuiError: if it cannot be written.
    """
    around = paths.state_dir() / "arrays"
    make_folder(around, mode=0o700)
    for old in around.iterdir():
        if time.time() - old.stat().st_mtime > _KEPT_S:
            shutil.rmtree(old, ignore_errors=True)
    folder = around / f"{name}-{secrets.token_hex(4)}"
    make_folder(folder, mode=0o700)
    ArrayPlace(f"{folder}:0").write(JobArray(name, component, size, limit))
    return folder


def array_script(array: JobArray, number: int, *, name: str = "") -> str:
    """What that task submits: it asks for what the task's own script asks for, and runs each one's own.
    `name`: another one than the array's.

    Raises:
        OSError: if a script cannot be read.
    """
    numbers = ",".join(map(str, sorted(array.tasks)))
    at_once = f"%{array.limit}" if array.limit else ""
    first = array.tasks[number]
    arms = [_arm(each, task, first.env) for each, task in sorted(array.tasks.items())]
    return "\n".join(
        [
            "#!/bin/bash",
            directive(f"--job-name={name or array.name}"),
            f"#SBATCH --array={numbers}{at_once}",
            "#SBATCH --output=/dev/null",
            *_asked(first.script),
            "",
            'case "$SLURM_ARRAY_TASK_ID" in',
            *arms,
            "esac",
            "",
        ]
    )


def _asked(script: str) -> tuple[str, ...]:
    """The lines of a script that ask SLURM for something, without those that are of one job alone."""
    found = []
    for line in read_regular(Path(script)).decode().splitlines():
        if line.startswith("#SBATCH"):
            found.append(line)
        elif line.strip() and not line.startswith("#"):
            break  # the first command: sbatch reads no further
    return tuple(line for line in found if not _OF_ONE_JOB.match(line))


def _arm(number: int, task: Task, submitted: Mapping[str, str]) -> str:
    """Each task begins with the environment of the run that submitted all of them."""
    own = sorted(task.env.items() - submitted.items())
    lines = [
        *(f"export {name}={shlex.quote(value)}" for name, value in own),
        *(f"unset {name}" for name in sorted(submitted.keys() - task.env.keys())),
        f"exec bash {shlex.quote(task.script)} >> {shlex.quote(task.log)} 2>&1 ;;",
    ]
    return "\n".join([f"{number})", *(f"    {line}" for line in lines)])
