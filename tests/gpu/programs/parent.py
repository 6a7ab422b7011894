"""Starts a holder as its child, and waits. Usage: parent.py BYTES FILE"""

import signal
import subprocess
import sys
from pathlib import Path

subprocess.Popen([sys.executable, Path(__file__).with_name("holder.py"), *sys.argv[1:]])
signal.pause()
