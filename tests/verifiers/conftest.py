"""Real verifiers, each version in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

VARIABLE = "RLTUI_VERIFIERS_PYTHONS"
INSTALL = {
    "0.1": "pip install verifiers==0.1.9.post3 torch 'transformers<5' 'datasets<4.5' accelerate peft wandb",
    "0.4": "pip install verifiers==0.4.0 uv",
}
"""Version → what its tests need. `RLConfig` imports much of the extra `rl`, but none of its CUDA packages."""
_USUAL = "/opt/vf019/bin/python:/opt/vf040/bin/python"


def interpreter(version: str) -> Path:
    """That which has verifiers of a version that begins so."""
    known = {}
    for name in os.environ.get(VARIABLE, _USUAL).split(":"):
        ask = "from importlib.metadata import version; print(version('verifiers'))"
        asked = (
            subprocess.run([name, "-c", ask], capture_output=True, text=True) if Path(name).exists() else None
        )
        known[name] = asked.stdout.strip() if asked is not None else "not there"
    for name, python in known.items():
        if python.startswith(version):
            return Path(name)
    pytest.skip(
        f"no verifiers {version} ({known}): {INSTALL[version[:3]]} in a venv, its python in ${VARIABLE}"
    )
