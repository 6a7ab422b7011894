"""Says that it is there, and sleeps. Usage: sleeper.py NAME"""

import signal
import sys

print(f"logline of {sys.argv[1]}", flush=True)
signal.pause()
