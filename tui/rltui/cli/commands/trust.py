"""`trust`: rltui may run what a folder holds."""

from __future__ import annotations

import sys
from pathlib import Path

from rltui.cli.command import Arguments, argument, command, flag
from rltui.paths import require_folder


@command(
    "trust",
    argument("folder", "FOLDER", "folder (default: this one)", nargs="?", default=".", completes="folders"),
    flag("--revoke", "stop trusting the folder"),
    examples=(
        "trust",
        "trust ~/prime-rl",
        "trust --revoke",
    ),
)
def trust_folder(arguments: Arguments) -> int:
    from rltui.services.experiment import trust

    folder = Path(arguments.folder).absolute()
    require_folder(folder)
    if arguments.revoke:
        trust.distrust(folder)
    else:
        trust.trust(folder)
    print(f"{'not ' if arguments.revoke else ''}trusted: {folder.resolve()}", file=sys.stderr)
    return 0
