"""Whether a file that somebody else writes still grows. For people: a quiet file may be one that is done."""

from __future__ import annotations

QUIET_S = 60.0
"""Without a new byte for so long a log counts as quiet."""


def quiet_s(changed_at: float | None, now: float) -> float | None:
    """How long it has been quiet; `None` while it grows, or where there is no file."""
    if changed_at is None or now - changed_at < QUIET_S:
        return None
    return now - changed_at
