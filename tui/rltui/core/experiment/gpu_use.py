"""GPU seconds by who used them, from the journal of a run: attempts of components × their devices. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from rltui.core.experiment.actor_names import actor_name
from rltui.core.experiment.events import entry_data

ALIVE_KINDS = ("start", "ready")
"""Kinds of the entries of a component that has a process; one without a readiness check has no `start`."""


class GpuUser(NamedTuple):
    """An agent by its name, or a person."""

    name: str
    is_agent: bool


class OpenAttempt(NamedTuple):
    """An attempt whose end the journal does not have."""

    component: str
    attempt: int
    started_at: float


def gpu_seconds(
    entries: Iterable[Mapping[str, Any]], end_of: Callable[[OpenAttempt, float], float]
) -> dict[GpuUser, float]:
    """User → GPU seconds. Left out: attempts without devices, or by nobody known.

    `end_of`: the end so far of an attempt that the journal shows running, at the latest entry's time.
    """
    used: defaultdict[GpuUser, float] = defaultdict(float)
    running: dict[str, tuple[OpenAttempt, GpuUser, int]] = {}
    latest = 0.0

    def close(component: str, at: float) -> None:
        if component in running:
            attempt, user, devices = running.pop(component)
            used[user] += devices * max(0.0, at - attempt.started_at)

    for entry in entries:
        latest, component = max(latest, entry["at"]), entry.get("component")
        if not isinstance(component, str) or entry["kind"] not in (*ALIVE_KINDS, "exit"):
            continue
        close(component, entry["at"])
        devices, by, number = entry_data(entry).get("gpus"), entry.get("by"), entry.get("attempt")
        if entry["kind"] != "exit" and isinstance(devices, int) and devices > 0 and isinstance(by, dict):
            user = GpuUser(
                str(by.get("name")) if by.get("kind") == "agent" else actor_name(by),
                by.get("kind") == "agent",
            )
            number = number if isinstance(number, int) else 0
            running[component] = OpenAttempt(component, number, entry["at"]), user, devices
    for component, (attempt, _, _) in [*running.items()]:
        close(component, end_of(attempt, latest))
    return dict(used)
