"""A framework's own dashboard: a web page that lists the runs in registered folders, and can be told what to
show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rltui.core.experiment.dashboard import DashboardPlace
from rltui.frameworks.inputs import ConfigFiles

HAVE_ONE = frozenset({"prime-rl"})
"""Ids of the frameworks that have one, for who need not know more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """Where it is found, and how it is asked."""

    title: str
    folder: str
    """Its state, below the home of the user."""
    folders_file: str
    """In there: a JSON list of folders; it shows the runs in each of them."""
    lock_file: str
    """In there: locked by whoever writes that list."""
    daemon_file: str
    """In there: `pid` and `url` of the living one, as JSON."""
    run_signs: tuple[str, ...]
    """A folder with any of these entries is a run."""
    runs_path: str
    """Path of its list of runs."""
    view_path: str
    """Path that takes what all its tabs are to show."""
    trait: str
    """The one of `Checkout.traits` that tells whether a checkout has it."""
    install: str
    """Command that installs it, in the checkout."""
    start: str
    """Command that starts it there."""
    is_wanted: Callable[[ConfigFiles], bool]
    """Whether the config lets its run be listed."""
    command: Callable[[str, DashboardPlace], dict[str, Any]]
    """What `view_path` takes to show a place of a run."""
    fragment: Callable[[str, DashboardPlace], str]
    """End of the address of a run's page, as far as an address can say it."""
