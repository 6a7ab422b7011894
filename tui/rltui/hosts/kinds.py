"""The kinds of host other than this machine: each has modules beside this one, imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostKind:
    module: str
    """The module whose `run` is a `ProcessHost` (`remote_runner.py`)."""
    gpu_module: str = ""
    """The module whose `gpu_commands` read GPUs that only a job on the host may see; empty: there is none."""


KINDS: Mapping[str, HostKind] = {
    "node": HostKind("rltui.hosts.node"),
    "slurm": HostKind("rltui.hosts.slurm", gpu_module="rltui.hosts.slurm_gpus"),
    "kube": HostKind("rltui.hosts.kube"),
}
"""`kind` of a spec in a layout (`core/hosts/specs.py`) → the modules that run it."""
