# ruff: noqa: PTH116, PTH123
"""Runs on a node, as text that is sent there: its GPUs by nvidia-smi, again and again, a line of JSON each.

The lines are `GpuReport`s, as `rltui gpus --json --watch` prints them. Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import subprocess
import time
from typing import Any

INTERVAL_S = 5.0
_NO_GPU_INTERVAL_S = 60.0
_SMI_TIMEOUT_S = 30.0
_MIB = 1 << 20
_COLUMNS = {
    "memory.total": ("total_bytes", _MIB),
    "memory.used": ("used_bytes", _MIB),
    "memory.free": ("free_bytes", _MIB),
    "memory.reserved": ("reserved_bytes", _MIB),
    "utilization.gpu": ("utilization", 0.01),
    "utilization.memory": ("memory_utilization", 0.01),
    "power.draw": ("power_w", 1.0),
    "power.limit": ("power_limit_w", 1.0),
    "temperature.gpu": ("temperature_c", 1.0),
}
"""Name in nvidia-smi → name in the report, and its unit there."""
_SHIMS = ("/hosts/shim/__main__.py", "/daemon/shim/__main__.py")


def _smi(query: str) -> list[list[str]]:
    """Rows of fields. Raises OSError, subprocess.SubprocessError."""
    command = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, stdout=subprocess.PIPE, timeout=_SMI_TIMEOUT_S, check=True).stdout
    return [
        [field.strip() for field in line.split(",")] for line in output.decode(errors="replace").splitlines()
    ]


def devices(tag: str, of_job: tuple[str, int] | None) -> list[dict[str, Any]]:
    """The GPUs. `tag`: of the experiment whose components appear with their names only.

    `of_job`: the component and attempt of the SLURM job in which this runs.
    """
    names = list(_COLUMNS)
    try:
        rows = _smi(f"gpu=index,uuid,name,{','.join(names)}")
    except subprocess.CalledProcessError:  # a driver that does not know memory.reserved
        names.remove("memory.reserved")
        rows = _smi(f"gpu=index,uuid,name,{','.join(names)}")
    holders: dict[str, list[dict[str, Any]]] = {}
    for row in _smi("compute-apps=gpu_uuid,pid,used_memory"):
        if len(row) == 3 and row[1].isdigit():
            size = int(row[2]) * _MIB if row[2].isdigit() else None
            holders.setdefault(row[0], []).append(process(int(row[1]), size, tag, of_job))
    gpus = []
    for row in rows:
        device: dict[str, Any] = {"index": int(row[0]), "uuid": row[1], "name": row[2]}
        for name, text in zip(names, row[3:]):  # noqa: B905 - strict= is of Python 3.10
            key, unit = _COLUMNS[name]
            if text.replace(".", "", 1).isdigit():  # else [N/A]
                device[key] = int(float(text) * unit) if unit == _MIB else float(text) * unit
        device["processes"] = holders.get(row[1], [])
        shares: dict[str, dict[str, Any]] = {}
        for user_process in device["processes"]:
            owner = {name: user_process[name] for name in ("owner", "experiment", "component", "user")}
            share = shares.setdefault(json.dumps(owner), {**owner, "pids": [], "used_bytes": 0})
            share["pids"].append(user_process["pid"])
            share["used_bytes"] += user_process["used_bytes"] or 0
        device["shares"] = list(shares.values())
        gpus.append(device)
    return gpus


def process(pid: int, used_bytes: int | None, tag: str, of_job: tuple[str, int] | None) -> dict[str, Any]:
    """Describe a process by its own properties and those of its ancestors."""
    command_line = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    user = _user(pid)
    description = {
        "pid": pid,
        "used_bytes": used_bytes,
        "name": os.path.basename(command_line.partition(" ")[0]),  # noqa: PTH119
        "command": command_line[:200],
        "user": user,
        "owner": "unknown" if user is None else "mine" if user == _user(os.getpid()) else "other",
        "experiment": None,
        "component": None,
        "attempt": None,
    }
    attempt = _attempt(pid)
    if attempt is None and of_job is not None and _is_of_this_job(pid):
        attempt = {"experiment": tag, "component": of_job[0], "attempt": of_job[1]}
    if attempt is not None:
        is_ours = attempt["experiment"] == tag
        description.update(attempt, owner="component" if is_ours else "experiment")
        description["experiment"] = str(attempt["experiment"]).partition("@")[0]
    return description


def _attempt(pid: int) -> dict[str, Any] | None:
    """The attempt that started it, from the argument of a shim above it, or from its variables."""
    while pid > 1:
        argv = _read(pid, "cmdline").decode(errors="replace").split("\0")
        if len(argv) > 2 and argv[-3].endswith(_SHIMS):
            try:
                with open(f"{argv[-2]}/attempt.json", encoding="utf-8") as file:
                    record = json.load(file)
                return {name: record[name] for name in ("experiment", "component", "attempt")}
            except (OSError, ValueError, KeyError):
                return None
        variables = _variables(pid, "RLTUI_")
        attempt = variables.get("RLTUI_ATTEMPT", "")
        is_tagged = {"RLTUI_EXPERIMENT", "RLTUI_COMPONENT"} <= set(variables)
        if is_tagged and attempt.isdecimal() and len(attempt) < 10:
            return {
                "experiment": variables["RLTUI_EXPERIMENT"],
                "component": variables["RLTUI_COMPONENT"],
                "attempt": int(attempt),
            }
        stat = _read(pid, "stat")
        pid = int(stat[stat.rindex(b")") + 2 :].split()[1]) if stat else 0
    return None


def _is_of_this_job(pid: int) -> bool:
    mine = os.environ.get("SLURM_JOB_ID")
    return mine is not None and _variables(pid, "SLURM_JOB_ID").get("SLURM_JOB_ID") == mine


def _variables(pid: int, prefix: str) -> dict[str, str]:
    """The variables of its environment whose names start with `prefix`."""
    entries = _read(pid, "environ").decode(errors="replace").split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry.startswith(prefix) and "=" in entry)


def _user(pid: int) -> str | None:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _read(pid: int, name: str) -> bytes:
    """Empty if the process is gone, or not readable for us."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def report(tag: str, of_job: tuple[str, int] | None) -> dict[str, Any]:
    try:
        gpus = devices(tag, of_job)
    except FileNotFoundError:
        return {
            "available": False,
            "reason": "has no GPU: nvidia-smi not found",
            "interval_s": _NO_GPU_INTERVAL_S,
        }
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return {"available": False, "reason": f"nvidia-smi: {error}", "interval_s": _NO_GPU_INTERVAL_S}
    return {"available": True, "devices": gpus, "sampled_at": time.time(), "interval_s": INTERVAL_S}


def watch(tag: str, of_job: tuple[str, int] | None) -> None:
    """Print reports until nobody reads them. `tag`, `of_job`: as for `devices`."""
    reader = select.poll()
    reader.register(1, 0)  # only that it is gone
    is_there = True
    while is_there:
        latest = report(tag, of_job)
        print(json.dumps(latest), flush=True)
        is_there = not reader.poll(1000 * latest["interval_s"])
