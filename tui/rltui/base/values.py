"""The bases of values that cross a process boundary, or come from a file that a person writes."""

from __future__ import annotations

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Value(BaseModel):
    """Base of every message: frozen, unknown keys ignored so that a newer supervisor can add some.

    Its validator is built on first use: building all of them takes half of the import time.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class TomlTable(BaseModel):
    """Base of the tables in a layout and in the settings: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def list_of_texts(*example: str) -> BeforeValidator:
    """Refuses a text where a list of them belongs, and says how to write it: behind the `example`, if any."""

    def refuse_text(value: object) -> object:
        if isinstance(value, str):
            words = ", ".join(f'"{word}"' for word in (*example, value))
            raise ValueError(f"must be a list: [{words}]")
        return value

    return BeforeValidator(refuse_text)
