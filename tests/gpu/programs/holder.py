"""Holds memory of the first CUDA device until it is ended. Usage: holder.py BYTES FILE

When it has the memory, its pid is in FILE.
"""

import os
import signal
import sys
from pathlib import Path

import torch

held = torch.empty(int(sys.argv[1]), dtype=torch.uint8, device="cuda:0")
file = Path(sys.argv[2])
unfinished = file.with_suffix(".new")
unfinished.write_text(str(os.getpid()))
unfinished.replace(file)
signal.pause()
