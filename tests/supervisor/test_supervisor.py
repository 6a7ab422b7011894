"""The parts of a supervisor work together: no process runs here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.supervisor.conftest import CONFIG, alert_titles

from rltui.core.experiment.api import Request
from rltui.errors import ConflictError
from rltui.supervisor.guards import leave_when_idle
from rltui.supervisor.supervisor import Supervisor


async def test_the_config_says_where_the_run_ends(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.runtime.events.changed("knobs")
    assert supervisor.status().max_steps == 20
    (tmp_path / "rl.toml").write_text(CONFIG.replace("20", "30"))
    supervisor.runtime.events.changed("knobs")
    assert supervisor.status().max_steps == 30


async def test_a_broken_file_is_told_once_and_changes_nothing(supervisor: Supervisor, tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text("[orchestrator\n")
    supervisor.runtime.events.changed("knobs")
    supervisor.runtime.events.changed("knobs")
    assert len(alert_titles(supervisor)) == 1
    assert supervisor.status().max_steps is None
    (tmp_path / "rl.toml").write_text(CONFIG)
    supervisor.runtime.events.changed("knobs")
    assert alert_titles(supervisor) == []
    assert supervisor.status().max_steps == 20


async def test_a_subscriber_first_receives_the_whole_state(supervisor: Supervisor, tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text("[orchestrator\n")
    assert [kind for kind, _ in supervisor.current_state()] == ["status", "gpus", "alert"]
    (tmp_path / "rl.toml").write_text(CONFIG)
    assert [kind for kind, _ in supervisor.current_state()] == ["status", "gpus", "knobs"]


async def test_what_is_down_starts_nothing_and_says_so_in_the_intent(supervisor: Supervisor) -> None:
    async with asyncio.timeout(30):
        await supervisor.shut_down("ada")
    assert supervisor.commands.finished.is_set()
    down = supervisor.status().down
    assert down is not None
    assert (down.by, down.complete, down.left) == ("ada", True, ())
    assert '"by":"ada"' in supervisor.runtime.setup.control.intent_file.read_text()
    with pytest.raises(ConflictError, match="shut down by ada"):
        await supervisor.commands.execute(Request(action="start"))


class _Clients:
    """A server whose clients come and go."""

    has_clients = True


async def test_one_that_has_nothing_to_do_leaves_once_nobody_is_there(supervisor: Supervisor) -> None:
    clients: Any = _Clients()
    leaving = asyncio.create_task(leave_when_idle(supervisor, clients, after_s=0.05))
    try:
        await asyncio.sleep(0.3)
        assert not supervisor.commands.finished.is_set(), "somebody looks at it"
        clients.has_clients = False
        async with asyncio.timeout(30):
            await supervisor.commands.finished.wait()
    finally:
        leaving.cancel()
    down = supervisor.status().down
    assert down is not None
    assert down.by == "itself (idle)"
