"""`rltui status`. Imports little: it is measured beside the start of Python itself."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rltui.client import launch
from rltui.core.durations import duration
from rltui.services.experiment_files import ExperimentRecord

SYMBOLS = {
    "ready": "●",
    "starting": "◐",
    "waiting": "◌",
    "stopping": "◑",
    "stopped": "○",
    "exited": "✓",
    "failed": "✗",
}


def show_status(arguments: argparse.Namespace) -> int:
    """Print the status of one experiment."""
    record = launch.choose(arguments.experiment or arguments.name)
    status = read_status(record)
    if arguments.json:
        print(json.dumps(status, ensure_ascii=False))
    else:
        sys.stdout.write(as_text(status))
    return 0


def read_status(record: ExperimentRecord) -> dict[str, Any]:
    """From the supervisor; from the files where nothing of the experiment is alive."""
    wire = launch.connect(record)
    if wire is None:
        from rltui.client.offline import offline_status  # pydantic takes 60 ms

        stopped: dict[str, Any] = offline_status(record).model_dump(mode="json")
        return stopped
    with wire:
        return wire.call("status", timeout_s=10.0)


def as_text(status: dict[str, Any]) -> str:
    """The status for people, a line per component."""
    lines = [
        f"{status['experiment']} · {status['framework']} · {_progress(status)}",
        f"  {status['output_dir']}",
    ]
    lines.extend(_component_line(component) for component in status["components"])
    return "\n".join(lines) + "\n"


def _progress(status: dict[str, Any]) -> str:
    parts = ["done ✓" if status.get("done") else status["state"]]
    if status["step"]:
        of = f"/{status['max_steps']}" if status["max_steps"] is not None else ""
        parts.append(f"step {status['step']}{of}")
    if status["reward"] is not None:
        parts.append(f"reward {status['reward']:.3f}")
    return " · ".join(parts)


def _component_line(component: dict[str, Any]) -> str:
    parts = [f"{SYMBOLS.get(component['state'], '?')} {component['id']:<14}{component['state']:<9}"]
    if component["pid"] is not None:
        parts.append(f"pid {component['pid']}")
    if component["attempt"] is not None:
        parts.append(f"attempt {component['attempt']}")
    if component["uptime_s"] is not None:
        parts.append(f"up {duration(component['uptime_s'])}")
    if component["port"] is not None and component["pid"] is not None:
        parts.append(f":{component['port']}")
    parts.extend(component["facts"])
    if component["reason"]:
        parts.append(component["reason"])
    return "  " + " · ".join(parts)
