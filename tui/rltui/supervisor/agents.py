"""Agents that are at work on the run: connected to its supervisor, or so a short time ago with an act."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from rltui.core.experiment.actor import Actor
from rltui.core.experiment.journal import JournalEntry

AT_WORK_S = 15 * 60.0
"""Time after its last act in which an agent counts as being at work."""


class AgentsAtWork:
    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._acted_at: dict[str, float] = {}
        self._connected: dict[object, str] = {}
        """Client → name of the agent."""

    def connect(self, client: object, actor: Actor) -> None:
        if actor.is_agent:
            self._connected[client] = actor.name

    def disconnect(self, client: object) -> None:
        self._connected.pop(client, None)

    def act(self, actor: Actor, *, age_s: float = 0.0) -> None:
        """It has acted, `age_s` ago."""
        if actor.is_agent:
            self._acted_at[actor.name] = self._monotonic() - age_s

    def adopt(self, journal: Iterable[JournalEntry], now: float) -> None:
        """Know the acts before this supervisor."""
        for entry in journal:
            if entry.by is not None and 0 <= now - entry.at < AT_WORK_S:
                self.act(entry.by, age_s=now - entry.at)

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted names of the agents."""
        since = self._monotonic() - AT_WORK_S
        acting = (name for name, at in self._acted_at.items() if at >= since)
        return tuple(sorted({*acting, *self._connected.values()}))
