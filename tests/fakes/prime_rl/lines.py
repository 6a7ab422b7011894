"""How the programs print: loguru's line in colour, and messages of a config that is refused."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NoReturn

from tests.fakes.prime_rl.generation import Name

_COLOURS = {"INFO": "1", "SUCCESS": "1;32", "WARNING": "1;33", "ERROR": "1;31", "DEBUG": "1;34"}


class Printer:
    """A process's logger: stdout, and a file besides where the generation has one."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = None
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = file.open("w", buffering=1)

    def info(self, message: str) -> None:
        self._write("INFO", message)

    def success(self, message: str) -> None:
        self._write("SUCCESS", message)

    def warning(self, message: str) -> None:
        self._write("WARNING", message)

    def error(self, message: str) -> None:
        self._write("ERROR", message)

    def raw(self, text: str) -> None:
        """Print without loguru's prefix: progress bars, tracebacks."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def _write(self, level: str, message: str) -> None:
        style = "".join(f"\x1b[{code}m" for code in _COLOURS[level].split(";")[1:]) + "\x1b[1m"
        clock = time.strftime("%H:%M:%S")
        line = (
            f"\x1b[2m{clock}\x1b[0m {style}{level:>7}\x1b[0m {style}\x1b[1m\x1b[22m{message}\x1b[0m\x1b[0m\n"
        )
        self.raw(line)
        if self._file is not None:
            self._file.write(line)


def refuse(name: Name, model: str, faults: list[tuple[str, str]]) -> NoReturn:
    """End like a config that does not validate: (dotted key or empty, message) each."""
    count = f"{len(faults)} validation error{'s' if len(faults) > 1 else ''} for {model}"
    if name in ("A1", "B0"):
        body = "\n".join(f"{key or model}\n  {message}" for key, message in faults)
        raise_uncaught(f"pydantic_core._pydantic_core.ValidationError: {count}\n{body}")
    title = "Config file error" if name in ("C", "D") or all(key for key, _ in faults) else "Value error"
    rows = ["Failed to validate config:", "", count] if name in ("C", "D") else [count]
    for key, message in faults:
        rows += ["--" + key.replace("_", "-") if key else "<root>", f"  {message}"]
    _end(_box(title, rows))


def refuse_usage(name: Name, code: int, program: str, arguments: list[str]) -> NoReturn:
    """End like a command line with unknown options."""
    text = " ".join(arguments)
    if name in ("A1", "B0"):
        print(
            f"usage: {program} [-h] [options]\n{program}: error: unrecognized arguments: {text}",
            file=sys.stderr,
        )
    else:
        print(_box("Unrecognized options", [text]), file=sys.stderr)
    sys.exit(code)


def raise_uncaught(error: str) -> NoReturn:
    """End with a traceback: an error that no program of prime-rl catches."""
    _end(f"Traceback (most recent call last):\n{error}")


def _end(text: str) -> NoReturn:
    print(text, file=sys.stderr, flush=True)
    sys.exit(1)


def _box(title: str, rows: list[str]) -> str:
    width = 78
    top = f"╭─ {title} {'─' * (width - len(title) - 5)}╮"
    body = [f"│ {line:<{width - 4}} │" for row in rows for line in _wrapped(row, width - 4)]
    return "\n".join([top, *body, f"╰{'─' * (width - 2)}╯"])


def _wrapped(text: str, width: int) -> list[str]:
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]
