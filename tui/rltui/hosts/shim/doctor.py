# ruff: noqa: PTH110, PTH118, PTH123, PTH208
"""The answer of a node to `rltui doctor --nodes`: JSON, in the last line of the output."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

from rltui.hosts.shim.ports import port_holder

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from typing import Any

_COMMAND_TIMEOUT_S = 30.0
_VERSIONS = """\
import sys
sys.path[:] = filter(None, sys.path)  # without the folder it runs in
import importlib.metadata as m
for name in sys.argv[1:]:
    try: print(name, m.version(name))
    except m.PackageNotFoundError: pass
"""


def report(request: dict[str, Any]) -> None:
    """Print what `request` asks for.

    Keys: `env` of the node, `cwd`, a `shared` file to read and a path for the copy to be `written`, `ports`
    that must be free, `programs` that must be found, `variables` that must be set, `packages` whose versions
    are wanted, and `prefixes` of variables whose values are; of others, only whether they are set.
    """
    os.environ.update(request["env"])
    cwd = request["cwd"]
    port_user = port_holder(request["ports"])
    # of the environment that a workspace has, else of this Python; and the commit of the workspace
    workspace_python = os.path.join(cwd, ".venv", "bin", "python")
    python = workspace_python if os.path.exists(workspace_python) else sys.executable
    versions = dict(
        line.split(" ", 1)
        for line in _output_lines([python, "-c", _VERSIONS, *request["packages"]])
        if " " in line
    )
    commit = _output_lines(["git", "-C", cwd, "rev-parse", "--short", "HEAD"])
    answer = {
        "time": time.time(),
        "host": os.uname().nodename,
        "python": ".".join(map(str, sys.version_info[:3])),
        "cwd": os.path.isdir(cwd),  # noqa: PTH112
        "lacking": [
            name
            for name in request["programs"]
            if shutil.which(os.path.join(cwd, name) if "/" in name else name) is None
        ],
        "shared": _read_shared(request["shared"], request["written"]),
        "port": None if port_user is None else str(port_user),
        "interfaces": sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys/class/net") else [],
        "variables": {
            name: value for name, value in os.environ.items() if name.startswith(tuple(request["prefixes"]))
        },
        "unset": [name for name in request["variables"] if not os.environ.get(name)],
        "gpus": _output_lines(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]),
        "versions": {**versions, **({"commit": commit[0]} if commit else {})},
    }
    print(f"\n{json.dumps(answer)}", flush=True)


def _read_shared(path: str, copy_path: str) -> str:
    """The text of the file; empty where it is not seen here. Also writes that text to `written`: the asking
    side checks whether it arrived.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return ""
    with contextlib.suppress(OSError), open(copy_path, "w", encoding="utf-8") as file:
        file.write(text)
    return text


def _output_lines(command: list[str]) -> list[str]:
    """Lines that the command prints; none where it cannot be run, or fails."""
    try:
        process = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_COMMAND_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return process.stdout.decode(errors="replace").splitlines()
