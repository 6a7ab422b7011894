"""The kinds of host other than this machine: each has modules beside this one, imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostKind:
    module: str
    """Its `run` is a `ProcessHost` (`remote_runner.py`)."""
    gpu_module: str = ""
    """Its `gpu_commands` read the GPUs of what runs there, where only that itself may see them."""


KINDS: Mapping[str, HostKind] = {
    "node": HostKind("rltui.hosts.node"),
    "slurm": HostKind("rltui.hosts.slurm", gpu_module="rltui.hosts.slurm_gpus"),
    "kube": HostKind("rltui.hosts.kube"),
}
"""By the `kind` of their specs (`core/hosts/specs.py`)."""
