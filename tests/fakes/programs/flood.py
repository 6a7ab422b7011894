"""Writes numbered lines as fast as it can. Usage: flood.py LINES"""

import sys

for first in range(0, int(sys.argv[1]), 1000):
    last = min(first + 1000, int(sys.argv[1]))
    sys.stdout.write("".join(f"line {number}\n" for number in range(first, last)))
