"""The example's model, made by the embedded engine in a few steps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "reverse_text"


def make_model(folder: Path) -> Path:
    """Its folder. Takes the seconds that torch and CUDA need to start."""
    model = folder / "reverse-text-sft"
    words = ["sft", "@", str(EXAMPLE / "sft.toml"), "--max-steps", "10", "--output-dir", str(model)]
    done = subprocess.run(
        [sys.executable, "-m", "rltui.tinyrl", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return model
