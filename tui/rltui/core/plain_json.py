"""Values as plain JSON. Light: who only carries them need not load pydantic."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever JSON does not know
    """What `json.dumps` makes of a value that it does not know (its `default`): of a message of pydantic or a
    dataclass its fields, but for bytes, which travel beside JSON; of others their text.
    """
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if (fields := getattr(value, "__dataclass_fields__", None)) is not None:
        members = ((name, getattr(value, name)) for name in fields)
        return {name: member for name, member in members if not isinstance(member, bytes)}
    return str(value)
