"""What supervisors and clients speak: its version, and values as plain JSON. Light: `status` imports it."""

from __future__ import annotations

from typing import Any

PROTOCOL_VERSION = 1
"""Raised when a client of the previous version would misunderstand a message."""


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever JSON does not know
    """Convert a value that `json.dumps` does not know (for its `default`). A value or a dataclass
    becomes its fields, without bytes, which travel beside JSON; any other value becomes its text.
    """
    fields = getattr(value, "__struct_fields__", getattr(value, "__dataclass_fields__", None))
    if fields is not None:
        members = ((name, getattr(value, name)) for name in fields)
        return {name: member for name, member in members if not isinstance(member, bytes)}
    return str(value)
