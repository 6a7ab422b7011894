"""The base of every value that crosses a process boundary."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """Base of every message: frozen, unknown keys ignored so that a newer supervisor can add some."""

    model_config = ConfigDict(frozen=True, extra="ignore")
