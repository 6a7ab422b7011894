"""The Helm chart of a framework, whose releases rltui makes, follows and ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HelmChart:
    framework: str
    """Id of the framework in whose checkout it is."""
    folder: Path
    """Path in that checkout."""
    selector: str
    """Label of the pods of all of its releases."""
    roles: tuple[str, ...]
    """Values of the label `role`, in the order of a start."""
    layout: str
    """Name of the shipped layout that those of its releases are made from."""


CHART = HelmChart(
    "prime-rl",
    Path("k8s/prime-rl"),
    selector="app=prime-rl",
    roles=("inference", "orchestrator", "trainer"),
    layout="prime-rl-k8s",
)
