"""`uv run`: finds the checkout, puts its programs on the path, stays as the parent of what it runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from tests.fakes.prime_rl.dashboard import EXTRA

_WITH_VALUE = ("--project", "--directory", "--extra", "--group", "--package", "--python", "--with")


def uv(arguments: list[str]) -> int:
    """The program `uv`; only `uv run [options] PROGRAM …`, and `uv sync --extra dashboard`."""
    if arguments == ["sync", "--extra", "dashboard"]:
        synced = _environment(Path.cwd())
        assert synced is not None
        (synced / EXTRA).touch()
        return 0
    if arguments[:1] != ["run"]:
        print(f"error: unrecognized subcommand '{' '.join(arguments[:1])}'", file=sys.stderr)
        return 2
    project: Path | None = None
    rest = arguments[1:]
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in _WITH_VALUE and not equals:
            value = rest.pop(0)
        if name == "--directory":
            os.chdir(value)
        if name == "--project":
            project = Path(value)
    environment = _environment(project or Path.cwd())
    if environment is not None:
        os.environ["VIRTUAL_ENV"] = str(environment)
        os.environ["PATH"] = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which(rest[0])
    if program is None:
        print(f"error: Failed to spawn: `{rest[0]}`\n  Caused by: No such file or directory", file=sys.stderr)
        return 2
    child = subprocess.Popen([program, *rest[1:]])

    def hand_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    signal.signal(signal.SIGTERM, hand_on)
    signal.signal(signal.SIGINT, hand_on)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _environment(folder: Path) -> Path | None:
    """The `.venv` of the project that `folder` belongs to."""
    for place in (folder.absolute(), *folder.absolute().parents):
        if (place / "pyproject.toml").is_file():
            return place / ".venv"
    return None
