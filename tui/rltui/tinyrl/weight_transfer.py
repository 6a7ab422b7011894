"""Exchange through the output folder: batches to the trainer, weights back, and checkpoints.

A checkpoint is `checkpoints/step_N` with a half by each program, and `STABLE` once both are there.
Without torch, which takes 2 s of CPU to import: the orchestrator has no other use for it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from rltui.tinyrl import TinyrlError, log_lines
from rltui.tinyrl.files import STABLE_NAME, new_file, new_folder, step_folders

_BATCH_NAME = "train_batch.safetensors"
_PRODUCER_NAME = "producer.json"


@dataclass(slots=True)
class TrainingSequence:
    """Prompt and completion of one rollout; the lists are of one length."""

    token_ids: list[int]
    completion_mask: list[bool]
    logprobs: list[float]
    """Per token, under the policy that sampled it; 0 for tokens of the prompt."""
    advantage: float
    temperature: float


def _batch_path(output_dir: Path, step: int) -> Path:
    return output_dir / "rollouts" / f"step_{step}" / _BATCH_NAME


def write_batch(output_dir: Path, step: int, session_id: str, sequences: list[TrainingSequence]) -> None:
    """Write sequences laid end to end, stamped with the session that sampled them."""
    arrays = {
        "token_ids": np.array([token for item in sequences for token in item.token_ids], np.int64),
        "completion_mask": np.array([flag for item in sequences for flag in item.completion_mask], np.bool_),
        "logprobs": np.array([value for item in sequences for value in item.logprobs], np.float32),
        "lengths": np.array([len(item.token_ids) for item in sequences], np.int64),
        "advantages": np.array([item.advantage for item in sequences], np.float32),
        "temperatures": np.array([item.temperature for item in sequences], np.float32),
    }
    with new_file(_batch_path(output_dir, step)) as partial:
        save_file(arrays, str(partial), metadata={"session": session_id})


def read_batch(output_dir: Path, step: int, session_id: str) -> list[TrainingSequence] | None:
    """The step's batch, or `None` if there is none by that session yet."""
    try:
        with safe_open(str(_batch_path(output_dir, step)), framework="numpy") as file:
            if file.metadata().get("session") != session_id:
                return None
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError:
        return None
    ends = np.cumsum(arrays["lengths"])[:-1]
    per_token = zip(
        *(np.split(arrays[name], ends) for name in ("token_ids", "completion_mask", "logprobs")), strict=True
    )
    per_sequence = zip(arrays["advantages"].tolist(), arrays["temperatures"].tolist(), strict=True)
    return [
        TrainingSequence(ids.tolist(), mask.tolist(), logprobs.tolist(), advantage, temperature)
        for (ids, mask, logprobs), (advantage, temperature) in zip(per_token, per_sequence, strict=True)
    ]


def remove_batches_through(output_dir: Path, step: int) -> None:
    """Delete batches of steps up to `step`; the readable rollouts next to them stay."""
    for number, folder in step_folders(output_dir / "rollouts").items():
        if number <= step:
            (folder / _BATCH_NAME).unlink(missing_ok=True)


def broadcast_folder(output_dir: Path, version: int) -> Path:
    return output_dir / "broadcasts" / f"step_{version}"


@contextmanager
def new_broadcast(output_dir: Path, version: int, session_id: str) -> Iterator[Path]:
    """A folder to fill with the model after `version` steps."""
    with new_folder(broadcast_folder(output_dir, version)) as folder:
        yield folder
        (folder / _PRODUCER_NAME).write_text(json.dumps({"session": session_id}), encoding="utf-8")
        (folder / STABLE_NAME).touch()


def latest_broadcast(output_dir: Path, session_id: str) -> int | None:
    """Newest complete version by that session; `None` if there is none."""
    for version, folder in reversed(step_folders(output_dir / "broadcasts").items()):
        if _producer(folder) == session_id:
            return version
    return None


def _producer(folder: Path) -> str | None:
    try:
        if not (folder / STABLE_NAME).exists():
            return None
        return str(json.loads((folder / _PRODUCER_NAME).read_text(encoding="utf-8"))["session"])
    except FileNotFoundError:
        return None  # deleted while we looked: an old one


def remove_broadcasts_through(output_dir: Path, version: int) -> None:
    for number, folder in step_folders(output_dir / "broadcasts").items():
        if number <= version:
            (folder / STABLE_NAME).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


HALVES = ("trainer", "orchestrator")


def checkpoint_folder(output_dir: Path, step: int) -> Path:
    return output_dir / "checkpoints" / f"step_{step}"


def _is_complete(folder: Path) -> bool:
    return (folder / STABLE_NAME).exists() and all((folder / half).is_dir() for half in HALVES)


def complete_steps(output_dir: Path) -> list[int]:
    """Steps with a complete checkpoint, ascending."""
    return [step for step, folder in step_folders(output_dir / "checkpoints").items() if _is_complete(folder)]


def resolve_resume_step(output_dir: Path, resume_step: int) -> int:
    """The step to start after: `resume_step` itself, or the latest for -1 (0 if there is none).

    Raises:
        TinyrlError: there is no such checkpoint.
    """
    steps = complete_steps(output_dir)
    if resume_step == -1:
        if not steps:
            log_lines.warning(f"No checkpoint to resume from in {output_dir / 'checkpoints'}")
        return steps[-1] if steps else 0
    if resume_step > 0 and resume_step not in steps:
        existing = ", ".join(map(str, steps)) or "none"
        raise TinyrlError(
            f"ckpt.resume_step = {resume_step}: no complete checkpoint in"
            f" {checkpoint_folder(output_dir, resume_step)}; complete steps: {existing}."
            " Use one of them, -1 for the latest, or 0 for the beginning"
        )
    return resume_step


@contextmanager
def new_half(output_dir: Path, step: int, half: str) -> Iterator[Path]:
    """A folder to fill; the second program to finish marks the checkpoint complete."""
    folder = checkpoint_folder(output_dir, step)
    (folder / STABLE_NAME).unlink(missing_ok=True)
    with new_folder(folder / half) as partial:
        yield partial
    if all((folder / name).is_dir() for name in HALVES):
        (folder / STABLE_NAME).touch()


def keep_newest(output_dir: Path, count: int) -> None:
    """Delete all complete checkpoints but the newest `count`."""
    for step in complete_steps(output_dir)[:-count]:
        folder = checkpoint_folder(output_dir, step)
        (folder / STABLE_NAME).unlink()
        shutil.rmtree(folder)
