"""Durations in words. Imports nothing: `rltui status` uses it."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Two figures at most: `41s`, `1m40s`, `41m`, `2h05m`, `3d04h`."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days}d{hours_left:02d}h"
    if hours:
        return f"{hours}h{minutes_left:02d}m"
    if minutes >= 10:
        return f"{minutes}m"
    if minutes:
        return f"{minutes}m{rest:02d}s"
    return f"{rest}s"
