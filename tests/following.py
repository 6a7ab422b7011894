"""Following a printed command to the letter."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.conftest import Box

from rltui.core.hints import Hint


def follow(
    box: Box,
    printed: subprocess.CompletedProcess[str] | str,
    hint: Hint,
    *more: str,
    code: int | None = None,
    fill: Mapping[str, str] | None = None,
    **values: Any,
) -> subprocess.CompletedProcess[str]:
    """Run the command of `hint`, which must stand in what was printed, as it stands there.

    `fill`: for its words in capitals; `more`: words behind it; `code`: the exit code it must have.
    """
    text = printed if isinstance(printed, str) else printed.stdout + printed.stderr
    command = hint(**values)
    assert command in text, f"{command!r} is not in:\n{text}"
    arguments = [(fill or {}).get(argument, argument) for argument in shlex.split(command)[1:]]
    result = box.run(*arguments, *more)
    assert "Traceback" not in result.stderr
    assert code is None or result.returncode == code, (arguments, result.stdout, result.stderr)
    return result
