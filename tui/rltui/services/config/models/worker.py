"""A process in the checkout's interpreter that answers questions about its config classes, one at a time."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltui.frameworks.config import ConfigModels
from rltui.services.config.models import script
from rltui.services.processes.subprocesses import converse, failure_text

_QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "WANDB_MODE": "disabled",
}
"""Variables that stop imported code from using GPUs, the network or the disk."""
_ERRORS_BYTES = 4096
"""Size of the end of its stderr that is read for the reason of a failure."""
_CHUNK_BYTES = 1 << 20
_EXIT_GRACE_S = 1.0
"""Time between the end of its output and its exit."""
_EXIT_TIMEOUT_S = 5.0
"""Longest wait for a killed process: one that hangs in the kernel may never exit."""

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    first_s: float = 180.0
    """Limit for the first answer about a role, which imports its classes: prime-rl's took 17 s with nothing
    compiled yet.
    """
    answer_s: float = 20.0
    idle_s: float = 60.0
    """A process without questions for so long exits."""
    retry_s: float = 60.0
    """Pause before a checkout is asked again whose classes could not be imported in time."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    reason: str
    late: bool = False
    """True if the time was up, and the process was killed."""


class Worker:
    """The process, running from the start. One thread may ask at a time, any thread may end it."""

    def __init__(
        self, interpreter: Sequence[str], validation: ConfigModels, *, folder: Path, limits: Limits
    ) -> None:
        """`folder`: base of relative paths in a config.

        Raises:
            OSError: if the interpreter cannot be run.
        """
        job = {
            "models": validation.models,
            "tables": validation.tables,
            "packages": validation.packages,
            "stand_ins": validation.stand_ins,
            "interpreter": interpreter[0],
            "idle_s": limits.idle_s,
        }
        self._limits = limits
        self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `_reap` closes it
        fcntl.fcntl(self._errors, fcntl.F_SETFL, os.O_APPEND)  # it is emptied now and then
        try:
            self._process = converse(
                [*interpreter, script.__file__, json.dumps(job)],
                cwd=folder,
                variables=_QUIET,
                errors=self._errors,
            )
        except OSError:
            self._errors.close()
            raise
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._numbers = itertools.count(1)
        self._answered_roles: set[str] = set()
        self._signal_lock = threading.Lock()
        """The lock is held while the process is signalled or reaped: until then its pid is still its own."""
        self._pipe_lock = threading.Lock()
        """The lock is held while its pipes are used or closed."""
        self._exited = threading.Event()
        threading.Thread(target=self._reap, name=f"framework models {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """It is the id of its process group too."""
        return self._process.pid

    @property
    def has_exited(self) -> bool:
        """True once all that it started has ended too."""
        return self._exited.is_set()

    def knows(self, role: str) -> bool:
        """True if it has imported the classes of this role."""
        return role in self._answered_roles

    def ask(self, role: str, question: Mapping[str, Any]) -> Answer | NotAsked:
        """Ask and wait for the answer, at most as long as the limits allow. A late or invalid answer ends
        the process.
        """
        limit_s = self._limits.answer_s if self.knows(role) else self._limits.first_s
        number = next(self._numbers)
        line = json.dumps({"id": number, "role": role, **question}).encode() + b"\n"
        with self._pipe_lock:
            if self.has_exited:
                return NotAsked("the validator exited")
            os.ftruncate(self._errors.fileno(), 0)
            output = self._exchange(line, time.monotonic() + limit_s)
            if output is None:
                self.end()
                return NotAsked(f"no answer within {limit_s:g} s", late=True)
            with contextlib.suppress(ValueError, RecursionError):
                answer = json.loads(output)
                if isinstance(answer, dict) and answer.get("id") == number:
                    self._answered_roles.add(role)
                    return answer
            code = self._process.returncode if not output and self._exited.wait(_EXIT_GRACE_S) else 0
            self.end()
            size = os.fstat(self._errors.fileno()).st_size
            errors = os.pread(self._errors.fileno(), _ERRORS_BYTES, max(0, size - _ERRORS_BYTES))
            return NotAsked(failure_text(code, errors) or "unexpected answer of the validator")

    def end(self) -> None:
        """Kill it with all that it started."""
        with self._signal_lock:
            if self._process.returncode is None:
                self._kill_group()
        self._exited.wait(_EXIT_TIMEOUT_S)

    def _exchange(self, line: bytes, deadline: float) -> bytes | None:
        """Send a line and return the reply; without newline or empty if the output ended; `None` if too
        late.
        """
        sending, receiving = self._process.stdin, self._process.stdout
        assert sending is not None
        assert receiving is not None
        output = b""
        with selectors.DefaultSelector() as ready, contextlib.suppress(BrokenPipeError):
            ready.register(sending, selectors.EVENT_WRITE)
            ready.register(receiving, selectors.EVENT_READ)
            while not output.endswith(b"\n"):
                events = ready.select(max(0.0, deadline - time.monotonic()))
                if not events:
                    return None
                for key, _ in events:
                    if key.fileobj is sending:
                        line = line[os.write(key.fd, line) :]
                        if not line:
                            ready.unregister(sending)
                    elif chunk := os.read(key.fd, _CHUNK_BYTES):
                        output += chunk
                    else:
                        return b""
        return output

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Wait for its exit, kill what it started, and close its pipes."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._signal_lock:
            self._kill_group()
            self._process.wait()
        self._exited.set()
        with self._pipe_lock:
            for file in (self._process.stdin, self._process.stdout, self._errors):
                if file is not None:
                    file.close()
