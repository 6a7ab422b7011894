"""Writes a log of BYTES at once, then goes on with 20 lines a second. Usage: filler.py NAME BYTES"""

import itertools
import os
import sys
import time

BLOCK_LINES = 10_000
size = int(sys.argv[2])
line = "12:34:56 INFO logline {:>10} of {:<14} loss 0.0213 entropy 0.871 grad norm 0.114 tok/s 8214\n"
written = 0
for first in itertools.count(0, BLOCK_LINES):
    block = "".join(line.format(number, sys.argv[1]) for number in range(first, first + BLOCK_LINES))
    written += os.write(1, block.encode())
    if written >= size:
        break
os.write(1, b"12:34:56 INFO needle\n")
for number in itertools.count(first + BLOCK_LINES):
    os.write(1, line.format(number, sys.argv[1]).encode())
    time.sleep(0.05)
