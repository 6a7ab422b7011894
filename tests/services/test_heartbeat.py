"""Supervisors that hang are told by all lists, without being asked."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.fakes.runs import running_row

from rltui import paths
from rltui.services import heartbeat
from rltui.services.runs.index import current_rows


def test_a_run_whose_supervisor_hangs_is_stalled_in_every_list(own_user: Path) -> None:
    row = running_row("a", supervisor=(os.getpid(), 1.0), host=os.uname().nodename)
    socket = paths.socket_path(row.name, row.folder)
    socket.touch()
    old = time.time() - 2 * heartbeat.SILENCE_S
    os.utime(socket, (old, old))
    assert current_rows([row])[0].state == "running", "one of an older version does not beat"
    heartbeat.beat(socket)
    assert current_rows([row])[0].state == "running"
    os.utime(socket, (0, old))
    (stalled,) = current_rows([row])
    assert (stalled.state, stalled.reason.code) == ("stalled", "no_answer")
    assert stalled.reason.text == f"the supervisor, pid {os.getpid()}, does not respond"
