"""Search in logs of any size. `grep` selects candidate lines; only these are decoded.

The displayed text of a line is matched: without colours, progress bars folded to their last state. Without
GNU grep the candidates are selected here, several times slower.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from rltui.core.logs.lines import Level, decode_line, detect_level, names_exception, plain_text
from rltui.core.logs.query import Candidates, Query
from rltui.core.logs.source import LogHit
from rltui.errors import RltuiError

_READ_BYTES = 256 * 1024
_VERSION_TIMEOUT_S = 5.0
_CONTEXT_BYTES = 64 * 1024
"""Size of the part of a log that is read to detect JSON logging, or around a line to find its level."""

_GLOG = rb"[%s][0-9]{4} [0-9]{2}:"
_ERRORS = rb"ERROR|EXCEPTION|CRITICAL|FATAL|Traceback|Error|Exception|Interrupt|ExitGroup|\"level\""
_SEVERE = {
    Level.WARNING: rb"WARN|Warning: |" + _ERRORS + b"|" + _GLOG % b"WEF",
    Level.ERROR: _ERRORS + b"|" + _GLOG % b"EF",
}
"""Level → regular expression that every line of this level or a more severe one contains."""


class FileScan:
    """One search through one file, for lines that match `query` and are of `level` or more severe.

    To be iterated by one thread, once; any other may read `progress` or call `cancel`.
    """

    def __init__(
        self, path: Path, query: Query | None, *, level: Level | None = None, start: int = 0
    ) -> None:
        """`level`: warning or error. `start`: offset in bytes of the first line to search."""
        self._path = path
        self._query, self._level = query, level
        self._start = start
        self._fd: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.size = start
        """Size of the file when the search began; later content is not searched."""
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        if (process := self._process) is not None:
            process.kill()

    @property
    def progress(self) -> float:
        """Searched fraction, from 0 to 1."""
        fd, span = self._fd, self.size - self._start
        if fd is None or span <= 0:
            return 0.0
        try:
            return min(1.0, (os.lseek(fd, 0, os.SEEK_CUR) - self._start) / span)  # grep shares the position
        except OSError:  # closed meanwhile
            return 1.0

    def batches(self) -> Iterator[list[LogHit]]:
        """The hits from the start to the end of the file, some at a time.

        Raises:
            RltuiError: The file does not exist or cannot be read.
        """
        with self._open() as fd:
            candidates = self._candidate_lines(fd)
            hit_filter = _HitFilter(fd, self._query, self._level, self.size)
            for lines in candidates:
                if self.is_cancelled:
                    return
                if hits := list(hit_filter.hits(lines)):
                    yield hits

    @contextmanager
    def _open(self) -> Iterator[int]:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise RltuiError(f"cannot read {self._path}", details=[_reason(error)]) from None
        try:
            self.size = os.fstat(fd).st_size
            os.lseek(fd, self._start, os.SEEK_SET)
            self._fd = fd
            yield fd
        except OSError as error:
            raise RltuiError(f"cannot read {self._path}", details=[_reason(error)]) from None
        finally:
            self._fd = None
            if (process := self._process) is not None:
                process.kill()
                process.communicate()
                self._process = None
            os.close(fd)

    def _candidate_lines(self, fd: int) -> Iterator[list[tuple[int, bytes]]]:
        """Lines that may match, with their offsets."""
        if self._query is None:
            candidates = Candidates(_SEVERE.get(self._level or Level.INFO, b""), ignores_case=False, words=())
        else:
            candidates = self._query.candidates
            # whether its lines are records, at its beginning or its end
            samples = (self._start, max(self._start, self.size - _CONTEXT_BYTES))
            if any(b'"level"' in os.pread(fd, _CONTEXT_BYTES, sample) for sample in samples):
                candidates = replace(candidates, posix=b"|".join(candidates.words))
        program = _grep()
        if program is None or not candidates.posix:
            return self._scan(fd, candidates)
        return self._grep_lines(program, fd, candidates)

    def _grep_lines(self, program: str, fd: int, candidates: Candidates) -> Iterator[list[tuple[int, bytes]]]:
        """Select lines with a grep that reads our descriptor from its position."""
        argv = [program, "-abiE" if candidates.ignores_case else "-abE", "-e", candidates.posix]
        environment = {**os.environ, "LC_ALL": "C"}
        grep = subprocess.Popen(
            argv, stdin=fd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._process = grep
        if self.is_cancelled:
            grep.kill()
        assert grep.stdout is not None
        unfinished = b""
        while data := os.read(grep.stdout.fileno(), _READ_BYTES):
            complete, newline, unfinished = (unfinished + data).rpartition(b"\n")
            if newline:
                pairs = (line.partition(b":") for line in complete.split(b"\n"))
                yield [(self._start + int(offset), line) for offset, _, line in pairs]
        if grep.wait() > 1 and not self.is_cancelled:
            raise RltuiError(f"cannot search {self._path}: {program} ended with code {grep.returncode}")

    def _scan(self, fd: int, candidates: Candidates) -> Iterator[list[tuple[int, bytes]]]:
        """Select lines without grep."""
        offset, unfinished = self._start, b""
        while data := os.read(fd, _READ_BYTES):
            complete, newline, unfinished = (unfinished + data).rpartition(b"\n")
            if not newline:
                continue
            yield list(_lines_with(candidates, complete, offset))
            offset += len(complete) + 1
        if unfinished:
            yield list(_lines_with(candidates, unfinished, offset))


class _HitFilter:
    """Decides which candidate lines are hits, in their order."""

    def __init__(self, fd: int, query: Query | None, level: Level | None, size: int) -> None:
        self._fd, self._query, self._level, self._size = fd, query, level, size
        self._decided_until = -1
        """Offset up to which all lines are decided."""

    def hits(self, lines: list[tuple[int, bytes]]) -> Iterator[LogHit]:
        for offset, line in lines:
            if not self._decided_until <= offset < self._size:
                continue
            text = display_text(line)
            if self._query is not None and not self._query.matches(text):
                continue
            if self._level is None:
                yield LogHit(offset, text)
            elif (detect_level(text) or self._level_before(offset)).severity >= self._level.severity:
                yield LogHit(offset, text, offset == self._decided_until and names_exception(text))
                if self._query is None:
                    yield from self._continuation(offset + len(line) + 1)

    def _level_before(self, offset: int) -> Level:
        """Level of the nearest line before that has one, within `_CONTEXT_BYTES`."""
        start = max(0, offset - _CONTEXT_BYTES)
        before = os.pread(self._fd, offset - start, start).split(b"\n")[:-1]
        levels = (detect_level(display_text(line)) for line in reversed(before))
        return next((level for level in levels if level is not None), Level.INFO)

    def _continuation(self, offset: int) -> Iterator[LogHit]:
        """The lines from `offset` without a level of their own, within `_CONTEXT_BYTES`."""
        for line in os.pread(self._fd, _CONTEXT_BYTES, offset).split(b"\n")[:-1]:
            text = display_text(line)
            if offset >= self._size or detect_level(text) is not None:
                break
            yield LogHit(offset, text, continues=True)
            offset += len(line) + 1
        self._decided_until = offset


def display_text(line: bytes) -> str:
    """The text of a line as it is displayed."""
    return plain_text(decode_line(line))


def _lines_with(candidates: Candidates, data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    if not candidates.may_be_in(data):
        return
    for line in data.split(b"\n"):
        if candidates.may_be_in(line):
            yield offset, line
        offset += len(line) + 1


@cache
def _grep() -> str | None:
    """Path of a GNU grep, whose options and extensions are needed; `None` if there is none."""
    program = shutil.which("grep")
    if program is None:
        return None
    try:
        output = subprocess.run(
            [program, "--version"], capture_output=True, check=False, timeout=_VERSION_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return program if b"GNU grep" in output.partition(b"\n")[0] else None


def _reason(error: OSError) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
