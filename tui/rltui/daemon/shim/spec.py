"""What is to be run: `spec.json`, as the supervisor wrote it."""

from __future__ import annotations

import signal

TYPE_CHECKING = False  # the one of `typing`, which costs a megabyte
if TYPE_CHECKING:
    from typing import Any


class Spec:
    """One attempt to be made."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Raises TypeError, ValueError or LookupError where the values are no spec."""
        self.experiment: str = values["experiment"]
        self.component: str = values["component"]
        self.attempt: int = values["attempt"]
        self.argv: list[str] = list(values["argv"])
        if not self.argv:
            raise ValueError("argv is empty")
        self.cwd = str(values["cwd"])
        self.log = str(values["log"])
        self.env: dict[str, str | None] = dict(values["env"])
        """Added to the shim's own environment; None removes."""
        stop = values["stop"]
        self.stop_signal = signal.Signals[stop["signal"]]
        self.stop_grace_s = float(stop["grace_s"])
        self.stops_group: bool = stop.get("target", "main") == "group"
        """The whole group of the main process is asked to stop, not that process alone."""
        leftovers = stop.get("leftovers", "end")
        if leftovers not in ("end", "keep"):
            raise ValueError(f"stop.leftovers is {leftovers!r}, not 'end' or 'keep'")
        self.keeps_leftovers: bool = leftovers == "keep"
        """What outlives a main process that ended by itself is left alone until a stop is asked for."""
