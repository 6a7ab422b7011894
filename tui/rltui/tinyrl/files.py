"""Writes files and folders so that a reader sees each complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rltui.base.times import stamp_text
from rltui.tinyrl import log_lines

STABLE_NAME = "STABLE"
"""Empty file, written last: the folder it lies in is complete (as in prime-rl)."""
BASE_NAME = "base"
"""Folder inside a model's folder: the model before its first step."""


def _temporary_sibling(path: Path) -> Path:
    path = path.absolute()
    return path.with_name(f".{path.name}.partial-{os.getpid()}")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields a path to write to; it becomes `path` in one step if the block succeeds, else it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _temporary_sibling(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Like `new_file`, for a folder nobody else writes to; an older one of that name is replaced."""
    with _partial_folder(path) as partial:
        yield partial
        if path.exists():
            retired = path.with_name(f".{path.name}.retired-{os.getpid()}")
            path.replace(retired)
            partial.replace(path)
            shutil.rmtree(retired)
        else:
            partial.replace(path)


@contextmanager
def new_model_folder(path: Path) -> Iterator[Path]:
    """Like `new_folder` for a model folder, but other files of an existing folder stay.

    Others may have files there (an experiment's records, say), so files are moved in one by one,
    `config.json` last: without it a folder is no model.
    """
    with _partial_folder(path) as partial:
        yield partial
        if not path.exists():
            partial.replace(path)
            return
        (path / "config.json").unlink(missing_ok=True)
        for source in sorted(partial.iterdir(), key=lambda item: item.name == "config.json"):
            if source.is_dir():
                shutil.rmtree(path / source.name, ignore_errors=True)
            source.replace(path / source.name)


@contextmanager
def _partial_folder(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _temporary_sibling(path)
    try:
        partial.mkdir()
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_partials(folder: Path, *patterns: str) -> None:
    """Delete half-written files of killed writers; `patterns` select locations where nobody else
    writes now.
    """
    for pattern in patterns:
        for path in folder.glob(pattern):
            if ".partial-" in path.name or ".retired-" in path.name:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def append_json_line(path: Path, row: dict[str, Any]) -> None:
    """Append one line with a single write, so that rows of several processes never mix."""
    line = (json.dumps(row, allow_nan=False) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def step_folders(parent: Path) -> dict[int, Path]:
    """Folders named `step_N` by N, ascending."""
    by_step = {
        int(path.name.removeprefix("step_")): path
        for path in parent.glob("step_*")
        if path.name.removeprefix("step_").isdigit()
    }
    return dict(sorted(by_step.items()))


def set_aside_after(output_dir: Path, name: str, step: int, session_id: str) -> None:
    """Move the folders `step_N` with N > `step` out of `output_dir/name`, with a warning that says where to.

    Steps of an earlier attempt after the start of a new one belong to another history: they must not be taken
    for this one's, and they are not ours to delete.
    """
    later = {number: folder for number, folder in step_folders(output_dir / name).items() if number > step}
    if not later:
        return
    attic = output_dir / "superseded" / f"{stamp_text(time.time())}-{session_id[:6]}"
    (attic / name).mkdir(parents=True, exist_ok=True)
    for folder in later.values():
        folder.replace(attic / name / folder.name)
    log_lines.warning(f"Moved {name} of steps {min(later)}-{max(later)} of an earlier attempt to {attic}")
