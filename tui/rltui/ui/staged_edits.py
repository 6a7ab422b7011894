"""Edits that a person has collected, to be written together. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rltui.core.api import Plan, Request
from rltui.core.knobs import KnobValue


@dataclass(frozen=True, slots=True)
class StagedEdits:
    """What would be written, and which content of the files the person had seen when they decided."""

    edits: Mapping[str, Any] = field(default_factory=dict)
    """Dotted key to new value; `None` removes the key."""
    base: Mapping[str, str] = field(default_factory=dict)
    """As `Request.base`; what was seen first counts."""

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __len__(self) -> int:
        return len(self.edits)

    def adding(self, edits: Mapping[str, Any], base: Mapping[str, str]) -> StagedEdits:
        """With these too; a key that is there already gets the new value."""
        return StagedEdits({**self.edits, **edits}, {**base, **self.base})

    def dropping(self, key: str) -> StagedEdits:
        """Without `key`; with the last one the files seen are forgotten."""
        left = {other: value for other, value in self.edits.items() if other != key}
        return StagedEdits(left, self.base if left else {})

    def request(self) -> Request:
        """To write them all."""
        return Request(action="set", edits=dict(self.edits), base=dict(self.base))


def edit_request(staged: StagedEdits, key: str, value: KnobValue, seen: Plan | None) -> Request:
    """To set `key` together with what is collected. `seen`: the first plan that the person saw of it."""
    return staged.adding({key: value}, {} if seen is None else seen.base).request()
