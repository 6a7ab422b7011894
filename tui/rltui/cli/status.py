"""`rltui status`. Imports little: it is measured beside the start of Python itself."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from rltui.client import launch
from rltui.core.command_text import short_command
from rltui.core.durations import duration
from rltui.core.growth import quiet_s
from rltui.core.units import gib
from rltui.services.experiment_files import ExperimentRecord

SYMBOLS = {
    "ready": "●",
    "starting": "◐",
    "waiting": "◌",
    "stopping": "◑",
    "stopped": "○",
    "exited": "✓",
    "backoff": "↻",
    "failed": "✗",
}
LINE_WIDTH = 100
"""A reason that would make its component's line longer has one of its own."""


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


def as_text(status: dict[str, Any], now: float | None = None) -> str:
    """The status for people: a line per component, one below it for a long reason, one per leftover."""
    lines = [
        f"{status['experiment']} · {status['framework']} · {_progress(status)}",
        f"  {status.get('run_dir') if status.get('observed') else status['output_dir']}",
    ]
    if under_way := status.get("transaction"):
        lines.append(f"  under way: {under_way}")
    for component in status["components"]:
        lines.extend(_component_lines(component, time.time() if now is None else now))
    lines.extend(_log_line(log, time.time() if now is None else now) for log in status.get("logs", ()))
    if orphans := status.get("orphans"):
        lines.extend(f"  ⚠ leftover: {orphan_text(orphan)}" for orphan in orphans)
        lines.append("    end what is left over: rltui orphans --free")
    return "\n".join(lines) + "\n"


def _progress(status: dict[str, Any]) -> str:
    parts = ["done ✓" if status.get("done") else status["state"]]
    if status.get("observed"):
        parts = ["observed", "its logs grow" if status["state"] == "running" else "quiet"]
    if status["step"]:
        of = f"/{status['max_steps']}" if status["max_steps"] is not None else ""
        parts.append(f"step {status['step']}{of}")
    if status["reward"] is not None:
        parts.append(f"reward {status['reward']:.3f}")
    return " · ".join(parts)


def _component_lines(component: dict[str, Any], now: float) -> list[str]:
    parts = [f"{SYMBOLS.get(component['state'], '?')} {component['id']:<13} {component['state']:<9}"]
    if component["state"] == "backoff":
        parts.append(retry_text(component, now))
    if component["pid"] is not None:
        parts.append(f"pid {component['pid']}")
    if component["attempt"] is not None:
        parts.append(f"attempt {component['attempt']}")
    if component["uptime_s"] is not None:
        parts.append(f"up {duration(component['uptime_s'])}")
    if component["port"] is not None and component["pid"] is not None:
        parts.append(f":{component['port']}")
    if component["stalled"]:
        parts.append("⚠ stalled")
    parts.extend(component["facts"])
    line, below = "  " + " · ".join(parts), _memory_lines(component)
    if (reason := component["reason"]) and not below:
        if len(line) + len(reason) + 3 <= LINE_WIDTH:
            line += f" · {reason}"
        else:
            below.append(f"      {reason}")
    if component["stalled"] and component.get("evidence"):
        below.append(f"      ⚠ {component['evidence']}")
    return [line.rstrip(), *below]


def _log_line(log: dict[str, Any], now: float) -> str:
    """`≡ trainer  growing · logs/latest/trainer.log`: a log file that no component here prints."""
    quiet = quiet_s(log["changed_at"], now)
    state = (
        "no file yet" if log["path"] is None else "growing" if quiet is None else f"quiet {duration(quiet)}"
    )
    return f"  ≡ {log['id']:<13} {state:<9} · {log['name'] or log['wanted'][0]}"


def _memory_lines(component: dict[str, Any]) -> list[str]:
    """What ran out of memory, with the figures, and the commands that would help first.

    In place of the reason, which has the same figures and general advice.
    """
    if not component.get("out_of_memory"):
        return []
    from rltui.cli.memory_text import memory_lines  # pydantic takes 60 ms

    return [f"      {line}" for line in memory_lines(component)]


def retry_text(component: dict[str, Any], now: float) -> str:
    """When a component in back-off starts again: `again in 12s`."""
    retry_at = component.get("retry_at")
    return "starts again" if retry_at is None else f"again in {duration(retry_at - now)}"


def orphan_text(orphan: dict[str, Any]) -> str:
    """`pid 4711 VLLM::EngineCore · of inference attempt 1 · 4m12s · 58.0 GiB · :8000`, as far as known."""
    parts = [f"pid {orphan['pid']} {short_command(orphan['command'])}".rstrip()]
    if orphan["component"] is not None:
        attempt = "" if orphan["attempt"] is None else f" attempt {orphan['attempt']}"
        experiment = f"{orphan['experiment']}/" if orphan.get("experiment") else ""
        parts.append(f"of {experiment}{orphan['component']}{attempt}")
    if orphan["age_s"] is not None:
        parts.append(duration(orphan["age_s"]))
    if orphan["gpu_bytes"]:
        parts.append(f"{gib(orphan['gpu_bytes'])} GiB")
    parts.extend(f":{port}" for port in orphan["ports"])
    return " · ".join(parts)
