"""The rights of agents on this machine, as they are on disk: settings, pause, a run's own level, what each
agent uses. What cannot be read never gives an agent more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import field
from pydantic import ValidationError

from rltui import paths
from rltui.base.times import clock_text
from rltui.base.values import InvalidValueError, Value
from rltui.core import hints
from rltui.core.experiment.rights import (
    LEVELS,
    Act,
    Counts,
    Granted,
    Judgement,
    Level,
    Permission,
    Rights,
    decide,
)
from rltui.core.runs.queue import QueueEntry, RunQueue
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.actor import actor
from rltui.services.config.config_file import read_file
from rltui.services.experiment.intent import IntentFile
from rltui.services.own_files import FileLock, make_folder, read_own, write_atomically
from rltui.services.runs.metadata import read_metadata
from rltui.services.runs.queue_file import read_queue

if TYPE_CHECKING:
    from rltui.core.experiment.actor import Actor

_HOUR_S = 3600.0
_LOCK_TIMEOUT_S = 10.0


class AgentUses(Value):
    """What agents have done that limits count: `agents.json` of the state folder."""

    runs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of an agent → output folders of the runs that it has created or started."""
    restarts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Name of an agent → times of its restarts within an hour."""


# --- the rights ---------------------------------------------------------------------------------------------


def granted(control: Path | None = None, *, accepted_by: str = "") -> Granted:
    """The rights of agents on the run of a control folder, or on new ones. `accepted_by`: a person accepted
    this one act, which is no proposal any more.
    """
    rights, fault = _rights_of_settings()
    if paused := pause_text():
        return Granted(rights, "look", paused, is_paused=True)
    if fault:
        return Granted(rights, "look", fault)
    level: Level = rights.rights
    source = "[agents] rights"
    try:
        metadata = None if control is None else read_metadata(control)
    except ConfigError as error:
        return Granted(rights, "look", error.title)
    if metadata is not None and metadata.rights:
        level = next((level for level in LEVELS if level == metadata.rights), "look")
        source = "rights of this run"
    if accepted_by and level == "propose":
        return Granted(rights, "act", f"accepted by {accepted_by}")
    return Granted(rights, level, source)


def _rights_of_settings() -> tuple[Rights, str]:
    """The table `[agents]`, and what is wrong with the file, in words."""
    path = paths.settings_file()
    if not path.exists():
        return Rights(), ""
    try:
        data = read_file(path).data
        known = read_file(paths.shipped_dir("examples") / "settings.toml").data
        if unknown := sorted(data.keys() - known.keys()):
            return Rights(), f"{path}: unknown key {unknown[0]}"
        return Rights.model_validate(data.get("agents", {})), ""
    except ConfigError as error:
        return Rights(), error.title
    except ValidationError as error:
        fault = error.errors()[0]
        return Rights(), f"{path}: agents.{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


# --- the pause ----------------------------------------------------------------------------------------------


def pause_file() -> Path:
    return paths.state_dir() / "agents.paused"


def pause_text() -> str:
    """Says who has paused agents, and when; empty: nobody has. Whatever the file holds, it is a pause."""
    try:
        data = json.loads(read_own(pause_file()))
        return f"agents were paused by {data['by']} at {clock_text(data['at'])}"
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        return f"agents are paused by {pause_file()}"


def set_pause(*, is_paused: bool) -> None:
    """Have all agents on this machine only look, or as before.

    Raises:
        UsageError: if an agent asks.
        RltuiError: if the file cannot be written or removed.
    """
    require(Act("agents"))
    make_folder(paths.state_dir())
    if is_paused:
        content = {"by": actor().short, "at": time.time()}
        write_atomically(pause_file(), json.dumps(content).encode())
        return
    try:
        pause_file().unlink(missing_ok=True)
    except OSError as error:
        raise RltuiError(f"cannot remove {pause_file()}: {error.strerror}") from error


# --- an act -------------------------------------------------------------------------------------------------


def require(
    act: Act,
    *,
    control: Path | None = None,
    accepted_by: str = "",
    trials: int = 0,
    can_wait: bool = False,
    instead: str = "a person must do it",
) -> None:
    """Return where whoever acts here may do it at once.

    `trials`: runs of the agent in the queue. `can_wait`: it may also propose it, as what comes of it waits
    for a person. `instead`: what to do instead, where a person is needed.

    Raises:
        UsageError: if it is an agent that may not, or that needs a person for it: names the rule, and what
            would be allowed.
    """
    who = actor()
    if not who.is_agent:
        return
    rights = granted(control, accepted_by=accepted_by)
    judgement = judge(rights, who, act, folder=control.parent if control else None, trials=trials)
    is_enough = judgement.permission is Permission.ALLOW or can_wait
    if judgement.permission is Permission.REFUSE or not is_enough:
        raise refusal(judgement, instead)


def refusal(judgement: Judgement, instead: str = "") -> UsageError:
    """The refusal in words. `instead`: what to do instead, where a person is needed."""
    if judgement.permission is Permission.REFUSE:
        instead = f"allowed: {judgement.allowed}"
    return UsageError(judgement.text, hint=f"nothing was done; {instead}", code=judgement.code)


def judge(
    rights: Granted,
    who: Actor,
    act: Act,
    *,
    folder: Path | None = None,
    trials: int = 0,
    is_done: bool = True,
) -> Judgement:
    """Decide on an act of an agent, by what it uses now. Blocking.

    `folder`: output folder of the run. `is_done`: if it is allowed, it is done now, and counts from now on.

    Raises:
        RltuiError: if what it uses cannot be read or written.
    """
    with _uses() as uses:
        runs = tuple(run for run in uses.runs.get(who.name, ()) if Path(run).is_dir())
        restarts = _recent(uses.restarts.get(who.name, ()))
        judgement = decide(rights, who, act, _counts(rights.rights, who.name, runs, restarts, folder, trials))
        if judgement.permission is Permission.ALLOW and is_done:
            if act.creates and folder is not None and str(folder) not in runs:
                runs = (*runs, str(folder))
            uses.runs[who.name] = runs
            uses.restarts[who.name] = (*restarts, time.time()) if act.restarts else restarts
    return judgement


def _recent(moments: tuple[float, ...]) -> tuple[float, ...]:
    """Those of the last hour."""
    now = time.time()
    return tuple(at for at in moments if 0 <= now - at < _HOUR_S)


@contextmanager
def _uses() -> Iterator[AgentUses]:
    """What agents use, to be changed inside, under a lock: of two at once, one sees what the other has."""
    path = paths.state_dir() / "agents.json"
    make_folder(paths.state_dir())
    with FileLock(path.with_suffix(".lock")).hold(wait_s=_LOCK_TIMEOUT_S):
        try:
            uses = AgentUses.from_json(read_own(path))
        except FileNotFoundError:
            uses = AgentUses()
        except (OSError, InvalidValueError) as error:
            hint = "remove the file; agents are refused until then"
            raise RltuiError(f"cannot read {path}: {error}", hint=hint) from error
        before = uses.to_json()
        yield uses
        if uses.to_json() != before:
            write_atomically(path, uses.to_json())


def _counts(
    rights: Rights,
    name: str,
    runs: tuple[str, ...],
    restarts: tuple[float, ...],
    folder: Path | None,
    trials: int,
) -> Counts:
    """What is not limited is not counted: it may take a while."""
    from rltui.services.experiment.gpu_use import GpuUseReader
    from rltui.services.runs.disk import size_of

    others = [run for run in runs if rights.max_runs is not None and run != str(folder)]
    return Counts(
        runs=sum(map(_is_living, others)),
        trials=trials,
        restarts=len(restarts),
        gpu_hours=GpuUseReader().hours_of(name) if rights.gpu_hours is not None else 0.0,
        disk_bytes=sum(size_of(Path(run)) for run in runs) if rights.disk_gb is not None else 0,
    )


def _is_living(folder: str) -> bool:
    """Something of the run in a folder runs, here or elsewhere, or is about to."""
    intent = IntentFile(Path(folder) / paths.STATE_FOLDER / "intent.json").read()
    return bool(intent.alive) or intent.is_unfinished


def accepted_entry(id_: str) -> str:
    """Name of the person who has accepted the queue entry that is being started; empty: nobody."""
    entry = read_queue().entry(id_) if id_ else None
    if entry is None or entry.accepted is None or entry.state != "starting":
        return ""
    return entry.accepted.short


def uses_now(rights: Rights, queue: RunQueue) -> dict[str, Counts]:
    """Name of each agent that has done something here → what it has now."""
    with _uses() as uses:
        runs, restarts = uses.runs, uses.restarts
    names = {entry.by.name for entry in queue.entries if entry.is_open and entry.by and entry.by.is_agent}
    counted = rights.model_copy(update={"max_runs": 0, "disk_gb": None, "gpu_hours": None})
    return {
        name: _counts(
            counted, name, runs.get(name, ()), _recent(restarts.get(name, ())), None, trials_of(queue, name)
        )
        for name in {*runs, *restarts, *names}
    }


def waiting_text(entry: QueueEntry) -> str:
    """Why an entry of an agent may not start now, by the rights as they are now; empty: it may."""
    if entry.by is None or not entry.by.is_agent:
        return ""
    folder = Path(entry.folder)
    rights = granted(
        folder / paths.STATE_FOLDER, accepted_by=entry.accepted.short if entry.accepted is not None else ""
    )
    act = Act("queue", entry.name, creates=True)
    judgement = judge(rights, entry.by, act, folder=folder, is_done=False)
    match judgement.permission:
        case Permission.ALLOW:
            return ""
        case Permission.PROPOSE:
            return f"waits for a person: {hints.ACCEPT_ENTRY(entry=entry.name)}"
        case Permission.REFUSE:
            return judgement.text


def trials_of(queue: RunQueue, name: str) -> int:
    """Number of an agent's runs in the queue that wait or run."""
    return sum(
        entry.by is not None and entry.by.is_agent and entry.by.name == name
        for entry in queue.entries
        if entry.is_open
    )
