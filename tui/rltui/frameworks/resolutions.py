"""Which of a framework's resolutions a component needs."""

from __future__ import annotations

from collections.abc import Iterable

from rltui.frameworks.base import Resolution


def is_many(resolution: Resolution, output: str) -> bool:
    """Whether several files may go by that name, each with its stem behind it."""
    return any("*" in place.rpartition("/")[2] for place in resolution.outputs[output])


def needed(resolutions: Iterable[Resolution], wanted: Iterable[str]) -> list[Resolution]:
    """Those of which an output is among the `wanted` names."""
    names = set(wanted)
    return [
        resolution
        for resolution in resolutions
        if any(
            output in names
            or (is_many(resolution, output) and any(name.startswith(f"{output}.") for name in names))
            for output in resolution.outputs
        )
    ]
