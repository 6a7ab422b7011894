"""The terminal: whatever a command prints goes through here, and so does what it asks. Imports little.

Nothing that comes from outside reaches the terminal as it is, be it printed, put into an error of argparse or
shown in a traceback. Signs that the encoding lacks are told in those it has. The only ways around are
`binary_output`, the marks of `colour.py`, and what `InPlace` moves the cursor with.
"""

from __future__ import annotations

import locale
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TextIO, cast

from rltui.base.interpreter import OWN_PYTHON
from rltui.base.text import escape_json, json_to_encoding, to_encoding, visible
from rltui.cli.colour import MARK, MARKED, When, is_wanted, switch
from rltui.errors import UsageError


class UnwritableError(Exception):
    """Output cannot be written, as on a full disk."""


class CleanStream:
    """A stream that cleans what is written to it: as text, or where `is_json` as JSON documents."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream
        self.is_json = False
        self.has_colours = False
        self.is_silent = False
        """Drop what is written."""
        self.encoding = _encoding(stream)
        self.errors = getattr(stream, "errors", None)
        self.isatty: Callable[[], bool] = stream.isatty
        self.fileno: Callable[[], int] = stream.fileno

    def write(self, text: str) -> int:
        """Write `text`, cleaned.

        Raises:
            BrokenPipeError: if nobody reads it any more.
            UnwritableError: if it cannot be written.
        """
        if self.is_silent:
            return len(text)
        try:
            self.raw.write(self.clean(text))
        except OSError as error:
            raise _output_error(error) from error
        return len(text)

    def clean(self, text: str) -> str:
        if MARK in text:
            segments = [*map(self.clean, MARKED.split(text))]
            if self.has_colours:
                segments[1::2] = [f"\x1b[{code}m" for code in segments[1::2]]
            else:
                del segments[1::2]
            return "".join(segments)
        if self.is_json:
            return json_to_encoding(escape_json(text), self.encoding)
        return to_encoding(visible(text), self.encoding)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self.raw.flush()
        except OSError as error:
            raise _output_error(error) from error


def _output_error(error: OSError) -> Exception:
    return error if isinstance(error, BrokenPipeError) else UnwritableError(error.strerror)


def require_utf8() -> None:
    """Begin anew where Python would take another encoding for files and their names, as without a locale."""
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(OWN_PYTHON, [OWN_PYTHON, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def _encoding(stream: TextIO) -> str:
    """Encoding that the terminal can be taken to show; in UTF-8 mode the stream's own does not say it."""
    is_configured = "PYTHONIOENCODING" in os.environ or os.environ.get("PYTHONUTF8") == "1"
    if sys.flags.utf8_mode and not is_configured and locale.getencoding().lower() != "utf-8":
        return "ascii"
    return getattr(stream, "encoding", None) or "utf-8"


def guard(colours: When = "auto", *, is_ascii: bool = False, is_quiet: bool = False) -> CleanStream:
    """Clean all output from here on, and drop it where its stream is closed. Returns stdout.

    `is_ascii`: whatever the terminal could show. `is_quiet`: on stderr only what is `spoken`.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else a socket or file of ours would get this number, and children take it for their output.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = _open_stream(sys.stdin, "r")
    err, out = _guarded(sys.stderr), _guarded(sys.stdout)
    for stream in (err, out):
        stream.has_colours = is_wanted(colours, is_terminal=stream.isatty())
        stream.encoding = "ascii" if is_ascii else _encoding(stream.raw)
    err.is_silent = is_quiet
    switch(is_on=err.has_colours or out.has_colours)
    sys.stderr, sys.stdout = cast(TextIO, err), cast(TextIO, out)
    return out


def is_quiet() -> bool:
    """Whether `--quiet` was given: what was done is then told in one line."""
    return isinstance(sys.stderr, CleanStream) and sys.stderr.is_silent


@contextmanager
def spoken() -> Iterator[None]:
    """Show what is written to stderr inside, in spite of `--quiet`: errors and questions."""
    stream = sys.stderr
    is_silent = isinstance(stream, CleanStream) and stream.is_silent
    if isinstance(stream, CleanStream):
        stream.is_silent = False
    try:
        yield
    finally:
        if isinstance(stream, CleanStream):
            stream.is_silent = is_silent


def _guarded(stream: TextIO) -> CleanStream:
    return stream if isinstance(stream, CleanStream) else CleanStream(_open_stream(stream, "w"))


def _open_stream(stream: TextIO | None, mode: str) -> TextIO:
    """The stream, or one that leads nowhere: Python has none where it was started with a closed one."""
    return stream or cast(TextIO, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123  (until the end)


def abandon_output() -> None:
    """Nobody wants it, or it cannot be kept: what is still to be written must not be an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, UnwritableError):
            os.dup2(nowhere, stream.fileno())


def can_be_drawn_on(stream: TextIO) -> bool:
    """True if the stream is a terminal that knows where its cursor is."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class InPlace:
    """The last lines of a terminal, drawn anew where they have changed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._size: os.terminal_size | None = None

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the lines drawn before. None may be wider than the terminal; those that it is too low for
        are counted.
        """
        size = os.get_terminal_size(self._stream.fileno())
        most = max(2, size.lines - 1) if size.lines else len(lines)
        if len(lines) > most:
            lines = [*lines[: most - 1], f"… {len(lines) - most + 1} more lines"]
        before = self._lines if size == self._size else []
        reset = "\x1b[H\x1b[J" if self._lines else "\r\x1b[J"  # after a resize nobody knows where they lie
        output = [f"\x1b[{len(before)}A" if before else reset]
        for index, line in enumerate(lines):
            output.append("\n" if line in before[index : index + 1] else f"\r{self._clean(line)}\x1b[K\n")
        if len(before) > len(lines):
            output.append("\x1b[J")
        _raw(self._stream).write("".join(output))
        self._stream.flush()
        self._lines, self._size = list(lines), size

    def _clean(self, line: str) -> str:
        stream = self._stream
        return stream.clean(line) if isinstance(stream, CleanStream) else visible(line)


def binary_output() -> BinaryIO:
    """Stdout for bytes that are passed on as they are.

    Raises:
        UsageError: if it is a terminal.
    """
    if sys.stdout.isatty():
        raise UsageError(
            "--raw does not print to a terminal", hint="use a pipe or a file, or leave --raw out"
        )
    return _raw(sys.stdout).buffer


def _raw(stream: TextIO) -> TextIO:
    return stream.raw if isinstance(stream, CleanStream) else stream


class BrokenStdout(BaseException):
    """Not an `Exception`: it may be raised in the middle of an attempt to connect, where those are caught."""


@contextmanager
def while_read() -> Iterator[None]:
    """Within, `BrokenStdout` is raised once nobody reads stdout any more, also while nothing is printed.

    Such is a pipe whose reader has ended: `ssh BOX rltui logs -c trainer -f`, and the connection is lost.
    """
    main = threading.get_ident()

    def watch() -> None:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always told
        poll.poll()
        signal.pthread_kill(main, signal.SIGPIPE)

    before = signal.signal(signal.SIGPIPE, _raise_nobody_reads)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _raise_nobody_reads(_: int, __: object) -> None:
    raise BrokenStdout


def displayable(text: str) -> str:
    """The text in the characters in which stdout will show it, so that it can be measured."""
    clean = sys.stdout.clean if isinstance(sys.stdout, CleanStream) else visible
    if MARK not in text:
        return clean(text)
    segments = MARKED.split(text)
    segments[::2] = map(clean, segments[::2])
    segments[1::2] = [f"{MARK}{code}m" for code in segments[1::2]]
    return "".join(segments)


def prompt(question: str) -> str:
    """Ask a person; returns the answer without spaces around it. Called only where stdin is a terminal."""
    with spoken():
        print(question, end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def confirm(question: str) -> bool:
    """Whether a person says yes. To be called where stdin is a terminal; who is asked: `consent.py`."""
    return prompt(f"{question} [y/N]").lower() in ("y", "yes")
