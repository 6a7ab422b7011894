"""Supervisors that hang are told by all lists, without being asked."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from tests.fakes.runs import running_row

from rltui import paths
from rltui.base.protocol import PROTOCOL_VERSION
from rltui.client.transports.supervisor import SupervisorClient
from rltui.core.experiment.api import Status
from rltui.services.experiment import heartbeat
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.runs.index import current_rows


def test_a_run_whose_supervisor_hangs_is_stalled_in_every_list(own_user: Path) -> None:
    row = running_row("a", supervisor=(os.getpid(), 1.0), host=os.uname().nodename)
    socket = paths.socket_path(row.name, row.folder)
    socket.touch()
    before = time.time() - 2 * heartbeat.SILENCE_S
    os.utime(socket, (before, before))
    assert current_rows([row])[0].state == "running", "one of an older version does not beat"
    heartbeat.beat(socket)
    assert current_rows([row])[0].state == "running"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: before)
        heartbeat.beat(socket)
    (stalled,) = current_rows([row])
    assert (stalled.state, stalled.reason.code) == ("stalled", "no_answer")
    assert stalled.reason.text == f"the supervisor, pid {os.getpid()}, does not respond"


@pytest.mark.timeout(30)
async def test_a_client_that_follows_a_supervisor_is_told_that_it_hangs_and_goes_on(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "SILENCE_S", 1.5)
    record = ExperimentRecord(
        name="a", output_dir=str(tmp_path / "a"), workspace=str(tmp_path), config_files=(),
        layout_file="/l.toml", framework="generic", created_at=1.0,
    )  # fmt: skip
    status = Status(experiment="a", state="running", framework="generic", output_dir=record.output_dir)
    message = {"event": "status", "data": status.to_plain()}

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in ({"protocol": PROTOCOL_VERSION, "outdated": False}, message):
            writer.write(json.dumps(line).encode() + b"\n")

    socket = paths.socket_path(record.name, record.output_dir)
    async with await asyncio.start_unix_server(serve, socket):
        heartbeat.beat(socket)
        events = SupervisorClient(record, may_start=True).events()
        first, hanging = await anext(events), await anext(events)
        beating = asyncio.create_task(_beat(socket))
        again = await anext(events)
        beating.cancel()
        await events.aclose()
    assert isinstance(first, Status)
    assert isinstance(hanging, Status)
    assert (first, again) == (status, status)
    assert hanging.state == "stalled"
    assert hanging.reason.text == f"the supervisor, pid {os.getpid()}, does not respond"


async def _beat(socket: Path) -> None:
    while True:
        heartbeat.beat(socket)
        await asyncio.sleep(0.05)
