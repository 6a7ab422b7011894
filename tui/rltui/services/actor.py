"""Who acts here: whoever made the request in hand, else the person or agent that this process works for."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rltui.base.interpreter import ACTOR
from rltui.core.experiment.actor_names import assigned_name, clean_name, marked_name

if TYPE_CHECKING:
    # msgspec takes 20 ms, which `rltui status` need not pay
    from rltui.core.experiment.actor import Actor, ActorKind

_LONGEST_REASON = 1000
_requester: ContextVar[Actor | None] = ContextVar("requester", default=None)


@dataclass
class _Introduction:
    kind: ActorKind = "cli"
    name: str = ""
    reason: str = ""


_introduction = _Introduction()


def introduce(kind: ActorKind, name: str = "") -> None:
    """Say what this process is, where its environment alone does not tell: a TUI, or another machine's."""
    _introduction.kind, _introduction.name = kind, clean_name(name)


def give_reason(reason: str) -> None:
    """Say why this process acts from now on."""
    _introduction.reason = " ".join(reason.split())[:_LONGEST_REASON]


@contextmanager
def acting_as(requester: Actor | None) -> Iterator[None]:
    """Whatever is done within is done for `requester`, also by tasks and threads of asyncio that begin here.
    `None`: by rltui itself.
    """
    token = _requester.set(requester)
    try:
        yield
    finally:
        _requester.reset(token)


def requester() -> Actor | None:
    """Who made the request in hand; `None`: nobody, as for what a supervisor does by itself."""
    return _requester.get()


def actor() -> Actor:
    """Who made the request in hand, else the one that this process works for."""
    from rltui.core.experiment.actor import Actor

    return _requester.get() or witnessed(Actor.from_plain(claim()))


def claim() -> dict[str, Any]:
    """The fields of the `Actor` that `actor` returns, as far as this process's own environment tells."""
    if (known := _requester.get()) is not None:
        return known.to_plain()
    kind, name = _introduction.kind, _introduction.name
    agent = assigned_name([os.environ]) or marked_name([os.environ])
    if agent:
        kind, name = "agent", assigned_name([os.environ]) or clean_name(os.environ.get(ACTOR, "")) or agent
    terminal = next((os.ttyname(number) for number in (0, 1, 2) if os.isatty(number)), "")
    return {
        "kind": kind,
        "user": user_name(),
        "name": name or clean_name(os.environ.get(ACTOR, "")),
        "pid": os.getpid(),
        "terminal": terminal.removeprefix("/dev/"),
        "reason": _introduction.reason,
        "ssh": os.environ.get("SSH_CONNECTION", "").partition(" ")[0],
    }


def user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def witnessed(claimed: Actor) -> Actor:
    """The actor as the process shows it: an agent where it or an ancestor of it has an agent's mark."""
    from rltui.services.processes.identity import ancestors, variables_at_start

    environments = [variables_at_start(pid) for pid in ancestors(claimed.pid)]
    assigned, marked = assigned_name(environments), marked_name(environments)
    if not (assigned or marked or claimed.is_agent):
        return claimed
    return claimed.replace(kind="agent", name=assigned or claimed.name or marked or "unnamed")
