"""What a long run's metrics cost: `metrics_memory.py WHAT FOLDER` prints kB before, kB at most, seconds."""

import re
import sys
import time
from pathlib import Path

import orjson

from rltui.frameworks.generic import GENERIC
from rltui.services.experiment.files import ControlFolder
from rltui.services.metrics.recorder import RunRecorder
from rltui.services.metrics.rows import MetricSources
from rltui.services.metrics.store import SeriesReader
from rltui.supervisor.observation import ProgressTracker

what, folder = sys.argv[1], Path(sys.argv[2])
file, control = folder / "metrics.jsonl", ControlFolder(folder)


def kilobytes(what: str) -> int:
    """`VmRSS` now, `VmHWM` at most so far; unlike `ru_maxrss`, of this program alone."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


before = kilobytes("VmRSS")
began = time.monotonic()
if what == "parse":  # the peer: whoever reads the file does this
    with file.open("rb") as rows:
        for line in rows:
            orjson.loads(line)
elif what == "record":
    RunRecorder(control, MetricSources((file,), GENERIC)).catch_up()
elif what == "supervise":
    tracker = ProgressTracker(MetricSources((file,), GENERIC))
    tracker.poll()
    recorder = RunRecorder(control, MetricSources((file,), GENERIC))
    recorder.catch_up()
elif what == "read":
    reader = SeriesReader(control.series)
    for key in [*reader.keys()]:
        reader.read(key)
elif what == "one":
    reader = SeriesReader(control.series)
    reader.read(reader.keys()[0])
seconds = time.monotonic() - began
print(before, kilobytes("VmHWM"), seconds)
