"""What limits count, and what waits in the queue for a person."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rltui import paths
from rltui.client.queue import commands
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.rights import Act, Granted, Permission, Rights
from rltui.core.runs.queue import QueueEntry
from rltui.errors import RltuiError, UsageError
from rltui.services.actor import acting_as
from rltui.services.experiment.intent import Intent
from rltui.services.experiment.rights import judge, set_pause, waiting_text
from rltui.services.processes import boot_identity
from rltui.services.runs.queue_file import change_queue, read_queue

AGENT = Actor(kind="agent", user="ada", name="night-1", pid=1)
OTHER = AGENT.replace(name="night-2")
PERSON = Actor(kind="cli", user="ada", pid=2)


def acts(who: Actor, act: Act, folder: Path | None = None, **limits: int) -> Permission:
    rights = Granted(Rights.model_validate({"rights": "act", **limits}), "act")
    return judge(rights, who, act, folder=folder).permission


def test_restarts_are_counted_for_each_agent_also_when_many_come_at_once(own_user: Path) -> None:
    restart = Act("restart", restarts=True)
    with ThreadPoolExecutor(8) as threads:
        answers = [*threads.map(lambda _: acts(AGENT, restart, restarts_per_hour=3), range(8))]
    assert answers.count(Permission.ALLOW) == 3
    assert acts(OTHER, restart, restarts_per_hour=3) is Permission.ALLOW
    (paths.state_dir() / "agents.json").write_text("{")
    with pytest.raises(RltuiError, match="cannot read"):
        acts(OTHER, restart)


def test_living_runs_are_those_that_an_agent_has_started(own_user: Path, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        control = folder / paths.STATE_FOLDER
        control.mkdir(parents=True)
        (control / "intent.json").write_bytes(Intent(boot=boot_identity(), alive=("trainer",)).to_json())
    create = Act("up", creates=True)
    assert [acts(AGENT, create, folder, max_runs=2) for folder in folders] == [
        Permission.ALLOW, Permission.ALLOW, Permission.REFUSE,
    ]  # fmt: skip
    assert acts(AGENT, create, folders[0], max_runs=2) is Permission.ALLOW, "it is one of them"
    (folders[0] / paths.STATE_FOLDER / "intent.json").unlink()
    assert acts(AGENT, create, folders[2], max_runs=2) is Permission.ALLOW
    folders[1].joinpath("big").write_bytes(b"x" * 10**6)
    assert acts(AGENT, create, folders[2], disk_gb=0) is Permission.REFUSE


def test_an_entry_of_an_agent_waits_for_a_person(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "ensure_scheduler", lambda: None)
    names = {"mine": AGENT, "theirs": PERSON, "second": AGENT}
    entries = [
        QueueEntry(id=name, name=name, folder=str(tmp_path / name), added_at=1.0, by=who)
        for name, who in names.items()
    ]
    change_queue(lambda queue: queue.with_entries(entries))
    assert waiting_text(entries[0]) == "waits for a person: rltui agents accept mine"
    assert waiting_text(entries[1]) == ""
    with acting_as(AGENT):
        for refused in (commands.pause, lambda: commands.remove(["theirs"]), lambda: commands.limit(9)):
            with pytest.raises(UsageError, match="queue needs a person"):
                refused()
        with pytest.raises(UsageError, match="for persons"):
            commands.answer("mine", accepted=True)
        commands.move("mine", "last")
    with acting_as(PERSON):
        commands.answer("mine", accepted=True)
        commands.answer("second", accepted=False, word="no GPU")
        with pytest.raises(UsageError, match="no entry of theirs waits"):
            commands.answer("theirs", accepted=True)
    mine, second = read_queue().entry("mine"), read_queue().entry("second")
    assert mine is not None
    assert (mine.accepted, waiting_text(mine)) == (PERSON, "")
    assert second is not None
    assert (second.state, second.why) == ("stopped", "declined by ada: no GPU")
    with acting_as(PERSON):
        set_pause(is_paused=True)
    assert waiting_text(mine).startswith("agents may only look (agents were paused by ada at")
    with acting_as(AGENT), pytest.raises(UsageError, match="paused"):
        commands.move("mine", "first")
