"""`watch`: look at a run that somebody else started."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rltui.cli.opening import need_terminal, show
from rltui.cli.status import as_text
from rltui.client import launch
from rltui.client.observation import Look, observe


def watch(arguments: argparse.Namespace) -> int:
    """Observe the run in a folder; from the TUI, or, without one, until `rltui down`."""
    if not arguments.no_tui:
        need_terminal()
    record = observe(
        Look(
            folder=Path(arguments.run_dir),
            name=arguments.name,
            layout=arguments.layout,
            framework=arguments.framework,
        )
    )
    if not arguments.no_tui:
        return show(record)
    with launch.reach(record) as wire:
        status = wire.call("status")
    sys.stdout.write(json.dumps(status, ensure_ascii=False) + "\n" if arguments.json else as_text(status))
    return 0
