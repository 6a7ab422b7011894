"""Each time that a file `go-N` appears in FOLDER, writes LINES lines as fast as it can, one `write` per line,
and leaves in `took-N-NAME` when that ended (monotonic clock) and the seconds it took.

Usage: flooder.py NAME FOLDER LINES CPUS, where CPUS is as in `0,1`.
"""

import itertools
import os
import sys
import time
from pathlib import Path

name, folder, lines = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
os.sched_setaffinity(0, {int(cpu) for cpu in sys.argv[4].split(",")})
for turn in itertools.count():
    while not (folder / f"go-{turn}").exists():
        time.sleep(0.01)
    started = time.monotonic()
    for number in range(lines):
        os.write(1, b"12:34:56 INFO flood line %d\n" % number)
    ended = time.monotonic()
    os.write(1, b"flood %d of %s is over\n" % (turn, name.encode()))
    unfinished = folder / f"unfinished-{name}"
    unfinished.write_text(f"{ended} {ended - started}")
    unfinished.rename(folder / f"took-{turn}-{name}")
