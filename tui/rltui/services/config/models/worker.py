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

from rltui.frameworks.base import ConfigModels
from rltui.services.config.models import script
from rltui.services.subprocesses import converse, failure_text

_QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "WANDB_MODE": "disabled",
}
"""Variables that keep what is imported from doing more than it is asked for."""
_ERRORS_BYTES = 4096
"""Of the end of its stderr, for the reason why it failed."""
_CHUNK_BYTES = 1 << 20
_SETTLE_S = 1.0
"""From the end of what it says to its own end."""
_END_S = 5.0
"""How long a killed process is waited for: one that hangs in the kernel may never go."""

Answer = Mapping[str, Any]
"""As `script` says it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the framework's code may take."""

    first_s: float = 180.0
    """For the first answer about a role, which imports its classes: prime-rl's took 17 s where nothing was
    compiled yet."""
    answer_s: float = 20.0
    idle_s: float = 60.0
    """A process that nobody asked for so long ends."""
    retry_s: float = 60.0
    """After classes did not even come up in time, nobody waits for them again for so long."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    reason: str
    late: bool = False
    """The time was up, and the process was ended."""


class Worker:
    """The process, which runs from the first moment on. One thread may ask at a time, any may end it."""

    def __init__(
        self, interpreter: Sequence[str], validation: ConfigModels, *, folder: Path, limits: Limits
    ) -> None:
        """`folder`: where relative paths in a config begin.

        Raises:
            OSError: if the interpreter cannot be run.
        """
        job = {
            "models": validation.models,
            "tables": validation.tables,
            "packages": validation.packages,
            "interpreter": interpreter[0],
            "idle_s": limits.idle_s,
        }
        self._limits = limits
        self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `_bury` closes it
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
        self._known: set[str] = set()
        self._ending = threading.Lock()
        """Held while it is signalled or buried: until then its number is still its own."""
        self._in_use = threading.Lock()
        """Held while its pipes are used or closed."""
        self._gone = threading.Event()
        threading.Thread(target=self._bury, name=f"framework models {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the process, which leads a process group of its own."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """It ended, and with it all that it had started."""
        return self._gone.is_set()

    def knows(self, role: str) -> bool:
        """Whether it has answered about this role, and so has imported its classes."""
        return role in self._known

    def ask(self, role: str, question: Mapping[str, Any]) -> Answer | NotAsked:
        """What it says; blocks as long as the limits allow. One that is late or talks nonsense is ended."""
        limit_s = self._limits.answer_s if self.knows(role) else self._limits.first_s
        number = next(self._numbers)
        line = json.dumps({"id": number, "role": role, **question}).encode() + b"\n"
        with self._in_use:
            if self.is_gone:
                return NotAsked("its process has ended")
            os.ftruncate(self._errors.fileno(), 0)
            said = self._exchanged(line, time.monotonic() + limit_s)
            if said is None:
                self.end()
                return NotAsked(f"no answer within {limit_s:g} s", late=True)
            if (answer := _understood(said, number)) is not None:
                self._known.add(role)
                return answer
            code = self._process.returncode if not said and self._gone.wait(_SETTLE_S) else 0
            self.end()
            return NotAsked(failure_text(code, self._last_errors()) or "it answered something else")

    def end(self) -> None:
        """End it with all that it started."""
        with self._ending:
            if self._process.returncode is None:
                self._kill_group()
        self._gone.wait(_END_S)

    def _exchanged(self, line: bytes, deadline: float) -> bytes | None:
        """What it says to a line; without its end, or empty, where it stopped talking; `None`: too late."""
        sending, receiving = self._process.stdin, self._process.stdout
        assert sending is not None
        assert receiving is not None
        said = b""
        with selectors.DefaultSelector() as ready, contextlib.suppress(BrokenPipeError):
            ready.register(sending, selectors.EVENT_WRITE)
            ready.register(receiving, selectors.EVENT_READ)
            while not said.endswith(b"\n"):
                events = ready.select(max(0.0, deadline - time.monotonic()))
                if not events:
                    return None
                for key, _ in events:
                    if key.fileobj is sending:
                        line = line[os.write(key.fd, line) :]
                        if not line:
                            ready.unregister(sending)
                    elif chunk := os.read(key.fd, _CHUNK_BYTES):
                        said += chunk
                    else:
                        return b""
        return said

    def _last_errors(self) -> bytes:
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), _ERRORS_BYTES, max(0, size - _ERRORS_BYTES))

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _bury(self) -> None:
        """Wait for its end, end what it started, and let go of its pipes."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._ending:
            self._kill_group()
            self._process.wait()
        self._gone.set()
        with self._in_use:
            for file in (self._process.stdin, self._process.stdout, self._errors):
                if file is not None:
                    file.close()


def _understood(said: bytes, number: int) -> Answer | None:
    try:
        answer = json.loads(said)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and answer.get("id") == number else None
