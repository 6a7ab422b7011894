"""Rules that end a run early: `reward < 0.2 at 50`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltui.services.runs.experiment_files import ExperimentRecord


def broken_rule(rules: Sequence[str], record: ExperimentRecord, status: Mapping[str, Any]) -> str:
    """Why the run is to be ended, in words; empty where no rule says so."""
    return ""
