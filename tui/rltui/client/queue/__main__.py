"""The shell of a queue that an older rltui started runs this again where its daemon was killed."""

from __future__ import annotations

import os
import sys

from rltui.core.interpreter import module_command

if __name__ == "__main__":
    command = module_command("rltui.scheduler", *sys.argv[1:])
    os.execv(command[0], command)  # noqa: S606 - our own interpreter
