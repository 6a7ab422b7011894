"""Enters a run that starts in the list of its framework's dashboard, as the framework's own launchers do."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rltui.errors import RltuiError
from rltui.services.runs.dashboard_folders import DashboardFolders
from rltui.supervisor.config import Config, Setup
from rltui.supervisor.events import EventBus


async def enter_run(setup: Setup, config: Config, events: EventBus) -> None:
    """Unless the config is against it, or the checkout has no dashboard. A failure is only told."""
    if (dashboard := setup.framework.dashboard) is None:
        return
    folder = Path(setup.record.run_dir).parent
    try:
        files = config.document.files
        traits = config.launcher.context(files).run_context.traits
        if dashboard.trait not in (traits or ()) or not dashboard.is_wanted(files):
            return
        if await asyncio.to_thread(lambda: DashboardFolders(dashboard).add(folder)):
            events.journal.add("notice", f"{dashboard.title} shows the runs in {folder}")
    except RltuiError as error:
        events.journal.add("notice", f"{dashboard.title} does not show this run: {error.title}")
