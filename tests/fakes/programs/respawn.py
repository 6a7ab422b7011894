"""A program that exits 0 on SIGTERM while a child takes over, which does the same. Usage: respawn.py
READY_FILE
"""

import os
import signal
import sys
from pathlib import Path


def hand_over(*_: object) -> None:
    if os.fork():
        os._exit(0)


signal.signal(signal.SIGTERM, hand_over)
Path(sys.argv[1]).touch()
while True:
    signal.pause()
