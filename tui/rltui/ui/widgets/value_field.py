"""What the fields of the knob editor tell it, and the keys they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual import events
from textual.message import Message

How = Literal["write", "restart", "collect"]
"""write: into the file now. restart: and restart what reads it. collect: keep it, to be written later."""

_ANSWERS: dict[str, How] = {"enter": "write", "ctrl+r": "restart", "ctrl+n": "collect"}


@dataclass
class ValueEdited(Message):
    """The field holds another text."""

    text: str


@dataclass
class Answered(Message):
    """The text that was there when the key was pressed shall be taken."""

    text: str
    how: How


def common_message(event: events.Key, text: str) -> Answered | None:
    """What one of the keys that all fields have means; such an event goes no further."""
    if (how := _ANSWERS.get(event.key)) is None:
        return None
    event.stop()
    event.prevent_default()
    return Answered(text, how)
