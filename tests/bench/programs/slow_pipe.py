"""A command with a slow line between it and whoever starts this.

`slow_pipe.py DELAY_S BYTES_PER_S COUNTS COMMAND…`: each way has the delay and the rate; reading stops while
the line is full, as of a socket with little buffer. COUNTS: a file that gets, ten times a second, how many
bytes have gone there and back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Queue

_PIECE_BYTES = 512
_MOST_UNDER_WAY = 64
"""Pieces, besides what the delay holds: 32 kB."""


class Way:
    """One direction."""

    def __init__(self, reading: int, writing: int, delay_s: float, bytes_per_s: float) -> None:
        self.count = 0
        self._reading, self._writing = reading, writing
        self._delay_s, self._bytes_per_s = delay_s, bytes_per_s
        pieces = int(delay_s * bytes_per_s / _PIECE_BYTES) + _MOST_UNDER_WAY
        self._under_way: Queue[tuple[float, bytes]] = Queue(pieces)
        self.arriving = threading.Thread(target=self._arrive)
        threading.Thread(target=self._read, daemon=True).start()
        self.arriving.start()

    def _read(self) -> None:
        free_at = 0.0
        while True:
            data = os.read(self._reading, _PIECE_BYTES)
            now = time.monotonic()
            free_at = max(now, free_at) + len(data) / self._bytes_per_s
            time.sleep(max(0.0, free_at - now - 0.02))
            self._under_way.put((free_at + self._delay_s, data))
            if not data:
                return

    def _arrive(self) -> None:
        try:
            while (piece := self._under_way.get())[1]:
                time.sleep(max(0.0, piece[0] - time.monotonic()))
                self.count += len(piece[1])
                os.write(self._writing, piece[1])
        except BrokenPipeError:  # nobody reads any more: what is under way is lost, as on a line
            pass
        os.close(self._writing)


def main(delay: str, rate: str, counts: str, *command: str) -> int:
    """The exit code of the command."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    there = Way(0, os.dup(process.stdin.fileno()), float(delay), float(rate))
    back = Way(process.stdout.fileno(), os.dup(1), float(delay), float(rate))
    process.stdin.close()
    os.close(1)
    while back.arriving.is_alive():
        back.arriving.join(0.1)
        Path(counts).write_text(f"{there.count} {back.count}\n")
    process.terminate()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
