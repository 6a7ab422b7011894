"""Shows something of a run in its framework's own dashboard, instead of printing it."""

from __future__ import annotations

import os
import socket
import sys

from rltui.base.text import count_text
from rltui.cli.command import Arguments, flag
from rltui.cli.output import print_json
from rltui.core.experiment.dashboard import DashboardPlace
from rltui.core.experiment.servers import port_of
from rltui.services.experiment.files import ExperimentRecord

DASHBOARD = flag("--dashboard", "show it in the framework's web dashboard instead")


def show_place(arguments: Arguments, record: ExperimentRecord, place: DashboardPlace) -> int:
    """Show it in all open tabs of the dashboard; without one, open it, or print the address."""
    import asyncio  # as costly as the rest of a command that only prints its help

    from rltui.client.programs import open_url
    from rltui.services.runs.dashboard import show_in_dashboard  # knows the frameworks

    page = show_in_dashboard(record, place, may_add=True)
    if arguments.json:
        print_json(page.to_plain())
        return 0
    print(page.url)
    if page.tabs:
        print(f"shown in the dashboard ({count_text(page.tabs, 'tab')})", file=sys.stderr)
    elif not asyncio.run(open_url(page.url)):
        print("no tab of the dashboard shows it: open this address", file=sys.stderr)
        if "SSH_CONNECTION" in os.environ:
            port = port_of(page.url)
            line = f"ssh -N -L {port}:localhost:{port} {socket.gethostname()}"
            print(f"on your own machine, leave this running meanwhile: {line}", file=sys.stderr)
    return 0
