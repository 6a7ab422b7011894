"""The base of tables in a file that a person writes."""

from __future__ import annotations

from pydantic import BaseModel, BeforeValidator, ConfigDict


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
