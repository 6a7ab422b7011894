"""How many steps a run that somebody else started will take, from the configs it left in its folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltui.core.metrics import LARGEST_STEP
from rltui.errors import ConfigError
from rltui.services.config.files import content_of

_FILES: tuple[tuple[str, Callable[[str], Any]], ...] = (
    *(
        (f"{folder}/{name}.json", json.loads)
        for folder in ("configs/latest/resolved", "configs/resolved", "configs")
        for name in ("trainer", "sft")
    ),
    ("configs/trainer.toml", tomllib.loads),
    ("configs/rl.toml", tomllib.loads),
    ("configs/sft.toml", tomllib.loads),
    ("run_default/control/orch.toml", tomllib.loads),
)
"""Relative to the folder of the run: prime-rl of today, then of spring 2026, which wrote resolved configs."""


def written_max_steps(run_dir: Path) -> int | None:
    """`max_steps` of the first of those files that has one; `None` where it is not written down."""
    for name, parse in _FILES:
        try:
            data = parse(content_of(run_dir / name).decode())
        except (OSError, ValueError, RecursionError, ConfigError):  # none, not ours to read, or half written
            continue
        steps = data.get("max_steps") if isinstance(data, Mapping) else None
        if isinstance(steps, int) and not isinstance(steps, bool) and abs(steps) <= LARGEST_STEP:
            return steps
    return None
