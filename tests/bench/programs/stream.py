"""Writes RATE lines a second for ever, in a hundred batches. Usage: stream.py NAME RATE"""

import itertools
import os
import sys
import time

BATCHES_PER_S = 100
batch = int(sys.argv[2]) // BATCHES_PER_S
due = time.monotonic()
for first in itertools.count(0, batch):
    lines = (f"12:34:56 INFO logline {number} of {sys.argv[1]}\n" for number in range(first, first + batch))
    os.write(1, "".join(lines).encode())
    due += 1 / BATCHES_PER_S
    time.sleep(max(0.0, due - time.monotonic()))
