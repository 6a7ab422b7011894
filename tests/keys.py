"""Keys as a terminal sends them, by what they do: one that is moved in the table moves in the tests too."""

from __future__ import annotations

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS

from rltui.ui.actions import keys_of
from rltui.ui.key_names import key_text

_SEQUENCES = {
    keys[0].value: sequence
    for sequence, keys in reversed(list(ANSI_SEQUENCES_KEYS.items()))
    if isinstance(keys, tuple)
}
"""The first of those that stand for a key."""


def typed(action_id: str) -> str:
    """Characters that the first key of an action sends.

    Raises:
        KeyError: There is no such action.
        ValueError: It has no key.
    """
    name = keys_of(action_id).partition(",")[0]
    if not name:
        raise ValueError(f"{action_id} has no key")
    return _SEQUENCES.get(name) or key_text(name)
