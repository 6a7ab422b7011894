"""`step_<N>` folders: which there are, waiting for one, removing stale ones."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

POLL_S = 0.01


def steps(folder: Path) -> list[int]:
    """Numbers of the step folders, ascending."""
    names = (entry.name.removeprefix("step_") for entry in folder.glob("step_*"))
    return sorted(int(name) for name in names if name.isdigit())


def complete_steps(folder: Path, mark: str = "STABLE") -> list[int]:
    """Steps whose folder has the file that marks it as complete."""
    return [step for step in steps(folder) if (folder / f"step_{step}" / mark).exists()]


def wait_for(path: Path) -> None:
    """Wait until the path exists: for ever, like the original."""
    while not path.exists():
        time.sleep(POLL_S)


def remove_beyond(folder: Path, step: int) -> list[int]:
    """Delete the step folders beyond `step`; -1 deletes all. Returns their numbers."""
    removed_steps = [number for number in steps(folder) if number > step]
    for number in removed_steps:
        shutil.rmtree(folder / f"step_{number}")
    return removed_steps


def complete(folder: Path, content: str = "", *, mark: str = "STABLE") -> None:
    """Write a step folder, its mark last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.bin").write_text(content)
    (folder / mark).touch()
