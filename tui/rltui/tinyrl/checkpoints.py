"""Checkpoints: `checkpoints/step_N` with a half by each program, and `STABLE` once both are there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltui.tinyrl import log_lines
from rltui.tinyrl.errors import TinyrlError
from rltui.tinyrl.files import STABLE_NAME, new_folder, step_folders

HALVES = ("trainer", "orchestrator")


def checkpoint_folder(output_dir: Path, step: int) -> Path:
    return output_dir / "checkpoints" / f"step_{step}"


def is_complete(folder: Path) -> bool:
    return (folder / STABLE_NAME).exists() and all((folder / half).is_dir() for half in HALVES)


def complete_steps(output_dir: Path) -> list[int]:
    """Steps with a complete checkpoint, ascending."""
    return [step for step, folder in step_folders(output_dir / "checkpoints").items() if is_complete(folder)]


def resolve_resume_step(output_dir: Path, resume_step: int) -> int:
    """The step to start after: `resume_step` itself, or the latest for -1 (0 where there is none).

    Raises:
        TinyrlError: there is no such checkpoint.
    """
    steps = complete_steps(output_dir)
    if resume_step == -1:
        if not steps:
            log_lines.warning(f"No checkpoint to resume from in {output_dir / 'checkpoints'}")
        return steps[-1] if steps else 0
    if resume_step > 0 and resume_step not in steps:
        there = ", ".join(map(str, steps)) or "none"
        raise TinyrlError(
            f"ckpt.resume_step = {resume_step}: no complete checkpoint in"
            f" {checkpoint_folder(output_dir, resume_step)}; complete steps: {there}."
            " Use one of them, -1 for the latest, or 0 for the beginning"
        )
    return resume_step


@contextmanager
def new_half(output_dir: Path, step: int, half: str) -> Iterator[Path]:
    """A folder to fill; whoever finishes second marks the checkpoint complete."""
    folder = checkpoint_folder(output_dir, step)
    (folder / STABLE_NAME).unlink(missing_ok=True)
    with new_folder(folder / half) as partial:
        yield partial
    if all((folder / name).is_dir() for name in HALVES):
        (folder / STABLE_NAME).touch()


def keep_newest(output_dir: Path, count: int) -> None:
    """Delete complete checkpoints but the newest `count`."""
    for step in complete_steps(output_dir)[:-count]:
        folder = checkpoint_folder(output_dir, step)
        (folder / STABLE_NAME).unlink()
        shutil.rmtree(folder)
