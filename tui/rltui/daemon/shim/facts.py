# ruff: noqa: PTH110, PTH118, PTH123, PTH208
"""What `rltui doctor --nodes` asks a node, and the answer: a last line, of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

from rltui.daemon.shim.agent import port_holder

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from typing import Any

PACKAGES = ("torch", "vllm", "transformers", "prime-rl", "verifiers")
TOLD = ("NCCL_", "GLOO_", "TORCH_NCCL_", "VLLM_")
"""What the names of variables begin with whose values are told; of others, only whether they are set."""
_ANSWER_S = 30.0
_VERSIONS = """\
import sys
sys.path[:] = filter(None, sys.path)  # without the folder it runs in
import importlib.metadata as m
for name in sys.argv[1:]:
    try: print(name, m.version(name))
    except m.PackageNotFoundError: pass
"""


def tell(request: dict[str, Any]) -> None:
    """Print what is asked: `env` of the node, `cwd`, a `shared` file to be read and one to be `written`,
    `ports` that must be free, `programs` that must be found, `variables` that must be set.
    """
    os.environ.update(request["env"])
    cwd = request["cwd"]
    holder = port_holder(request["ports"])
    # of the environment that a workspace has, else of this Python; and the commit of the workspace
    own = os.path.join(cwd, ".venv", "bin", "python")
    python = own if os.path.exists(own) else sys.executable
    found = dict(line.split(" ", 1) for line in _said([python, "-c", _VERSIONS, *PACKAGES]) if " " in line)
    commit = _said(["git", "-C", cwd, "rev-parse", "--short", "HEAD"])
    facts = {
        "time": time.time(),
        "host": os.uname().nodename,
        "python": ".".join(map(str, sys.version_info[:3])),
        "cwd": os.path.isdir(cwd),  # noqa: PTH112
        "lacking": [
            name
            for name in request["programs"]
            if shutil.which(os.path.join(cwd, name) if "/" in name else name) is None
        ],
        "shared": _shared(request["shared"], request["written"]),
        "port": None if holder is None else str(holder),
        "interfaces": sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys/class/net") else [],
        "variables": {name: value for name, value in os.environ.items() if name.startswith(TOLD)},
        "unset": [name for name in request["variables"] if not os.environ.get(name)],
        "gpus": _said(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]),
        "versions": {**found, **({"commit": commit[0]} if commit else {})},
    }
    print(f"\n{json.dumps(facts)}", flush=True)


def _shared(path: str, written: str) -> str:
    """What the file says; empty where it is not seen here. Whether this node can write is seen elsewhere."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return ""
    with contextlib.suppress(OSError), open(written, "w", encoding="utf-8") as file:
        file.write(text)
    return text


def _said(command: list[str]) -> list[str]:
    """Lines; none where it cannot be run, or fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_ANSWER_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode(errors="replace").splitlines()
