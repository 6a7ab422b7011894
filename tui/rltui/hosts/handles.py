"""The choice of an attempt's handle by its host."""

from __future__ import annotations

from rltui.hosts.attempt import Attempt
from rltui.hosts.base import Handle, HandleOwner
from rltui.hosts.local import LocalHandle
from rltui.hosts.remote import RemoteHandle


def handle_of(attempt: Attempt, owner: HandleOwner) -> Handle:
    """Return the handle for the host on which `attempt` was started, or will be.

    The layout counts only before the start: it may have been edited since.
    """
    launch = attempt.launch
    is_remote = attempt.spec.is_remote if launch is None else launch.host is not None
    return RemoteHandle(attempt, owner) if is_remote else LocalHandle(attempt, owner)
