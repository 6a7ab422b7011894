"""Lists are asked for in loops: they import little, and one that does not answer holds up no other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fakes.past_run import write_finished_run

from rltui.cli import main
from rltui.services.experiment.registry import new_socket_path

_HEAVY = {"pydantic", "asyncio", "tempfile", "logging", "tomlkit", "textual", "numpy", "pynvml", "libtmux"}
_PROGRAM = """\
import sys
from rltui.cli import main
code = main(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def imported(*arguments: str) -> set[str]:
    """By a process that runs this command."""
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True, timeout=120)
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_lists_import_little(own_user: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_finished_run(tmp_path / "out" / name)
    assert main(["status"]) == 0  # what is found out now is kept
    assert main(["runs"]) == 0
    assert not imported("status", "--json") & (_HEAVY | {"sqlite3"})
    assert not imported("status", "a", "--brief", "--json") & (_HEAVY - {"logging"} | {"sqlite3", "msgspec"})
    assert not imported("runs", "--json") & (_HEAVY - {"logging"})


def test_those_that_do_not_answer_are_waited_for_at_once(
    own_user: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners = []
    for name in ("a", "b", "c", "d", "e"):
        record = write_finished_run(tmp_path / name)
        listeners.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listeners[-1].bind(str(new_socket_path(record)))
        listeners[-1].listen()
    monkeypatch.setattr("rltui.client.statuses._LIST_TIMEOUT_S", 0.5)
    begun = time.monotonic()
    assert main(["status", "--json"]) == 0
    took = time.monotonic() - begun
    for listener in listeners:
        listener.close()
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert {(row["state"], row["reason"]["code"]) for row in rows} == {("stalled", "no_answer")}
    assert took < 2, "one after the other takes half a second each"
