"""`rltui` in a terminal, at a time that stands still: `python still_clock.py SECONDS ARGUMENT…`."""

import sys
import time

from rltui.cli import main

if __name__ == "__main__":
    now = float(sys.argv.pop(1))
    time.time = lambda: now
    main()
