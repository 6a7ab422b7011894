"""`attach`."""

from __future__ import annotations

import argparse

from rltui.cli.by_hand import show
from rltui.client import launch


def attach(arguments: argparse.Namespace) -> int:
    """Become tmux, showing the component's pane."""
    record = launch.choose(arguments.name)
    return show(record, arguments.component, readonly=arguments.readonly)
