"""Whether a component that failed is started again, and when. Pure; times are monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.layout import Restart
from rltui.core.text import duration

MOST_DOUBLINGS = 30
"""More would leave the range of a float, and of patience."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Start it again."""

    at: float
    failures: tuple[float, ...]
    """Those that count, this one included, oldest first."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Leave it failed."""

    reason: str
    """Why, beyond the failure itself; empty where no restart was ever meant."""
    failures: tuple[float, ...]


def decide(policy: Restart, failures: tuple[float, ...], at: float, *, hopeless: bool) -> Retry | GiveUp:
    """The answer to a failure at `at`, after those in `failures`. A `hopeless` one would come again."""
    recent = (*(moment for moment in failures if at - moment <= policy.window_s), at)
    counted = recent[-policy.max_failures :]  # a partner's restart may have started one that had given up
    if policy.policy == "never":
        return GiveUp("", counted)
    if hopeless:
        return GiveUp("another start would end the same way", counted)
    if len(counted) >= policy.max_failures:
        return GiveUp(f"not started again after {_times(len(counted), policy.window_s)}", counted)
    first, longest = policy.backoff_s
    doublings = min(len(counted) - 1, MOST_DOUBLINGS)
    return Retry(at + min(longest, first * 2**doublings), counted)


def _times(count: int, window_s: float) -> str:
    return "1 failure" if count == 1 else f"{count} failures within {duration(window_s)}"
