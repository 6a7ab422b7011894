"""What a command says while it waits."""

from __future__ import annotations

import re
import subprocess
import sys
import threading

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.cli import progress

SCRIPT = """
import sys, threading
from rltui.cli.progress import working
with working("asks the validators"):
    threading.Event().wait({seconds})
print("done")
"""


def test_without_a_terminal_long_work_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_QUIET_S", 0.01)
    told = ""

    def is_told() -> bool:
        nonlocal told
        told += capsys.readouterr().err
        return bool(told)

    with progress.working("reads all folders"):
        retry_until(is_told, timeout_s=20)
    assert told == "reads all folders …\n"
    with progress.Waiting() as waiting:
        waiting.show("a", "a starting", since=0.0)
        waiting.show("a", "a ready")
    assert capsys.readouterr().err == "a starting\na ready\n"
    monkeypatch.setattr(progress, "_QUIET_S", 60.0)
    with progress.working("reads all folders"):
        pass
    assert capsys.readouterr() == ("", ""), "short work says nothing"
    assert all(not thread.is_alive() or thread.daemon for thread in threading.enumerate()[1:])


def test_on_a_terminal_it_is_drawn_in_place_and_goes(box: Box) -> None:
    script = SCRIPT.format(seconds=0.8)
    wrapped = f"import pty, sys; sys.exit(pty.spawn([{sys.executable!r}, '-c', {script!r}]))"
    done = subprocess.run([sys.executable, "-c", wrapped], env=box.env, capture_output=True, check=True)
    told = done.stdout.decode()
    assert re.search(r"asks the validators \d+s", told)
    assert told.rstrip().endswith("done")
    assert "\x1b[J" in told
