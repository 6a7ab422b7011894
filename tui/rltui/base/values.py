"""The base of values that cross a process boundary."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """Base of every message: frozen, unknown keys ignored so that a newer supervisor can add some.

    Its validator is built on first use: building all of them takes half of the import time.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)
