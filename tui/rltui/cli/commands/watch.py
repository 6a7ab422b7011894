"""`watch`: a run that somebody else started is observed."""

from __future__ import annotations

from pathlib import Path

from rltui.cli.app import need_terminal, show
from rltui.cli.arguments import FRAMEWORK, JSON, KEYMAP, NO_TUI, layout_option, name_option
from rltui.cli.command import Arguments, argument, command
from rltui.cli.status_text import print_status
from rltui.client import launch
from rltui.paths import require_folder


@command(
    "watch",
    argument("run_dir", "FOLDER", "output folder of the run", completes="folders"),
    name_option("name of the run (default: that of the folder)"),
    layout_option("layout with [[log]] entries (default: watch)"),
    FRAMEWORK,
    NO_TUI,
    KEYMAP,
    JSON,
    examples=(
        "watch outputs/their-run",
        "watch outputs/their-run -n theirs",
        "watch outputs/their-run --no-tui --json",
    ),
)
def watch(arguments: Arguments) -> int:
    """Observe the run in a folder; from the TUI, or, without one, until `rltui down`."""
    from rltui.client.observation import ObservationRequest, observe

    require_folder(Path(arguments.run_dir), hint="name the output folder of a run")
    if not arguments.no_tui:
        need_terminal()
    record = observe(
        ObservationRequest(
            folder=Path(arguments.run_dir),
            name=arguments.name,
            layout=arguments.layout,
            framework=arguments.framework,
        )
    )
    if not arguments.no_tui:
        return show(record)
    with launch.connect_or_start(record) as wire:
        print_status(wire.call("status"), as_json=arguments.json)
    return 0
