"""`spec.json`: what a shim is to run, and what the next supervisor learns of a running attempt."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rltui.core.gpu.devices import GpuChoice
from rltui.core.layout import ComponentSpec, Ready
from rltui.services.launch import Launch
from rltui.services.own_files import read_own, write_atomically

_FILE = "spec.json"


def write_spec(
    folder: Path,
    launch: Launch,
    *,
    spec: ComponentSpec,
    tag: str,
    attempt: int,
    log: Path,
    shell: dict[str, Any],
) -> None:
    """Write the spec of an attempt into its folder. `shell`: as `read_shell` has it.

    Raises:
        RltuiError: if it cannot be written.
    """
    values = {
        "experiment": tag,
        "component": spec.id,
        "attempt": attempt,
        "argv": launch.argv,
        "cwd": launch.cwd,
        "env": dict(launch.env),
        "shell": shell,
        "log": str(log),
        "stop": {
            "signal": spec.stop.signal,
            "grace_s": spec.stop.grace_s,
            "leftovers": spec.stop.leftovers,
        },
        "created_at": time.time(),
        "ready": launch.ready.model_dump(exclude_none=True) if launch.ready else None,
        "port": launch.port,
        "metrics": launch.metrics,
        "gpus": {"text": launch.gpus.text, "by_bus": launch.gpus.by_bus},
        "gpu_memory": launch.gpu_memory,
    }
    write_atomically(folder / _FILE, json.dumps(values, indent=1).encode())


def read_launch(folder: Path) -> Launch | None:
    """What the attempt was started with; `None` where that was never written or is damaged."""
    try:
        values = json.loads(read_own(folder / _FILE))
        ready = values["ready"]
        return Launch(
            argv=tuple(values["argv"]),
            cwd=values["cwd"],
            env=values["env"],
            ready=Ready(**ready) if ready else None,
            port=values["port"],
            metrics=values.get("metrics"),
            gpus=GpuChoice(**values.get("gpus", {})),  # one from before an upgrade has none
            gpu_memory=values.get("gpu_memory"),
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError, AttributeError):
        return None


def spec_age_s(folder: Path) -> float | None:
    """Seconds since the spec was written, at least 0; `None` where there is none."""
    try:
        return max(0.0, time.time() - (folder / _FILE).stat().st_mtime)
    except OSError:
        return None
