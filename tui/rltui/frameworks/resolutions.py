"""Which of a framework's resolutions a component needs."""

from __future__ import annotations

from collections.abc import Iterable

from rltui.frameworks.base import Resolution


def needed(resolutions: Iterable[Resolution], wanted: Iterable[str]) -> list[Resolution]:
    """Those of which an output is among the `wanted` names."""
    names = set(wanted)
    return [
        resolution
        for resolution in resolutions
        if any(
            output in names or ("*" in pattern and any(name.startswith(f"{output}.") for name in names))
            for output, pattern in resolution.outputs.items()
        )
    ]
