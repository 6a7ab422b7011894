"""`demo`: a real small run on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from rltui.cli.app import need_terminal, show
from rltui.cli.arguments import KEYMAP, output_dir_option
from rltui.cli.command import Arguments, command, flag
from rltui.cli.new_run import start_headless
from rltui.cli.status_text import print_status
from rltui.client import launch
from rltui.client.statuses import read_status
from rltui.services.experiment.registry import find_experiment

_KEYS = "{edit} edits a knob, {screen_metrics} charts, {help} all keys, {detach} leaves"
"""Keys for a newcomer, as text for `RltuiApp.greeting`."""


@command(
    "demo",
    output_dir_option("folder of the demo (default: outputs/demo)"),
    flag("--quick", "an easier task: 80 seconds instead of 5 minutes"),
    flag("--no-tui", "start the run without the TUI"),
    KEYMAP,
    examples=(
        "demo",
        "demo --quick",
        "demo --no-tui",
    ),
)
def demo(arguments: Arguments) -> int:
    """Run the shipped example in a folder of its own, so that editing it leaves the original alone."""
    from rltui.client.demo import FOLDER, demo_request, evaluations, refuse_without_torch
    from rltui.client.draft import ConfiguredRequest

    refuse_without_torch()
    if not arguments.no_tui:
        need_terminal()
    folder = Path(arguments.output_dir or FOLDER).absolute()
    experiment = find_experiment(folder.name)
    if experiment is not None and launch.is_running(experiment):
        print(f"the demo is already running in {experiment.output_dir}", file=sys.stderr)
        if arguments.no_tui:
            print_status(read_status(experiment), as_json=False)
            return 0
        return show(experiment)
    request = demo_request(folder, is_quick=arguments.quick)
    if request.name != folder.name:
        print(
            f"there is a run {folder.name} already; this one is {request.name}, in {request.output_dir}",
            file=sys.stderr,
        )
    code = start_headless(
        ConfiguredRequest.plain(request),
        wait=arguments.no_tui,
        timeout_s=None,
        as_json=False,
        evals=evaluations(),
    )
    if arguments.no_tui or code:
        return code
    duration = "80 seconds" if arguments.quick else "5 minutes"
    return show(launch.choose(request.name or ""), greeting=f"This CPU trains for about {duration}. {_KEYS}")
