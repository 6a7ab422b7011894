"""Who holds a device's memory, in words. Pure."""

from __future__ import annotations

from collections.abc import Collection

from rltui.core.gpu.report import GpuDevice, GpuShare
from rltui.core.text import GIB, gib

NAMED_HOLDERS = 2
"""Most holders named in one line."""
_SMALLEST_NAMED_BYTES = GIB // 10


def holders_text(device: GpuDevice, gone: Collection[str] = ()) -> str:
    """`18.2 held by trainer, 3.1 by user ann`, the largest first; empty where nobody holds much.

    `gone`: components that will not hold anything.
    """
    shares = [share for share in device.shares if share.owner != "component" or share.component not in gone]
    large = [share for share in shares if share.used_bytes >= _SMALLEST_NAMED_BYTES]
    largest = sorted(large, key=lambda share: -share.used_bytes)[:NAMED_HOLDERS]
    parts = [f"{gib(share.used_bytes)} by {_name(share)}" for share in largest]
    return ", ".join(parts).replace(" by ", " held by ", 1)


def _name(share: GpuShare) -> str:
    match share.owner:
        case "component":
            return share.component or "a component"
        case "orphan":
            return f"leftovers of {share.component}" if share.component else "leftovers"
        case "experiment":
            return f"experiment {share.experiment}" if share.experiment else "another experiment"
        case "mine":
            return "other processes of yours"
        case "other":
            return f"user {share.user}" if share.user else "another user"
        case "unknown":
            return "unknown processes"
        case "hidden":
            return "driver and hidden processes"
