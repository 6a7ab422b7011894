"""The theme's variables for the style roles of `core/states.py`."""

from __future__ import annotations

from collections.abc import Mapping

from rltui.core.states import Role

FAINT = "$foreground 60%"
STYLES: Mapping[Role, str] = {
    "good": "$text-success",
    "busy": "$text-warning",
    "bad": "$text-error",
    "faint": FAINT,
    "key": "$text-primary",
    "head": "bold",
    "added": "$text-success",
    "removed": "$text-error",
}
