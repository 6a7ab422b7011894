"""Ignores SIGTERM and SIGINT. Usage: stubborn.py READY_FILE"""

import signal
import sys
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
Path(sys.argv[1]).touch()
while True:
    signal.pause()
