"""The framework's own validators, asked in its interpreter. Nothing here depends on an answer.

Only its config classes are imported and called, in a process group of its own that sees no GPU and no
network of model hubs; its programs are never run, not even dry.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.frameworks.base import OwnValidation
from rltui.services import own_validation_script
from rltui.services.outside_command import failure_text, outside_environment

CPU_S = 60
"""Seconds of processor time that they get, whatever else the box does: prime-rl's took 17 where nothing was
compiled yet."""
TIMEOUT_S = 180.0
"""The longest that anybody waits for them, such as for one who sleeps."""
QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "WANDB_MODE": "disabled",
}
"""Variables that keep what is imported from doing more than it is asked for."""
ERRORS_BYTES = 4096
"""Of the end of its stderr, for the reason why it failed."""

Answers = Mapping[str, Mapping[str, Any]]
"""Role → what `own_validation_script` says of its file."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Nobody answered."""

    reason: str


def ask(
    interpreter: Sequence[str],
    validation: OwnValidation,
    texts: Mapping[str, str],
    *,
    folder: Path,
    timeout_s: float = TIMEOUT_S,
    cpu_s: int = CPU_S,
) -> Answers | NotAsked:
    """What the classes of `validation` say of TOML texts by role; blocks for `timeout_s` at most.

    One that takes more than `cpu_s` of processor time is ended.

    `interpreter` is what runs python with the framework's packages, `folder` where relative paths in the
    config begin.
    """
    jobs = {
        role: {"text": text, "models": validation.models[role]}
        for role, text in texts.items()
        if role in validation.models
    }
    if not jobs:
        return {}
    command = [*interpreter, "-P", own_validation_script.__file__, str(cpu_s)]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={**outside_environment(), **QUIET},
                start_new_session=True,
            )
        except OSError as error:
            return NotAsked(f"{command[0]} cannot be run: {error.strerror}")
        try:
            out, _ = process.communicate(json.dumps(jobs).encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return NotAsked(f"no answer within {timeout_s:g} s")
        finally:
            _end(process)
        if process.returncode == -signal.SIGXCPU:
            return NotAsked(f"no answer within {cpu_s} s of processor time")
        return _understood(out, process.returncode, _end_of(errors.fileno()))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _end_of(file: int) -> bytes:
    size = os.fstat(file).st_size
    return os.pread(file, ERRORS_BYTES, max(0, size - ERRORS_BYTES))


def _understood(out: bytes, code: int, errors: bytes) -> Answers | NotAsked:
    try:
        answers = json.loads(out)
    except (ValueError, RecursionError):
        answers = None
    if isinstance(answers, dict) and all(isinstance(answer, dict) for answer in answers.values()):
        return answers
    return NotAsked(failure_text(code, errors) or "it answered something else")
