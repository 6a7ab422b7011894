"""Names of keys: Textual's, and those that people read and write."""

from __future__ import annotations

import string
import unicodedata

from textual.keys import KEY_NAME_REPLACEMENTS, Keys

_OTHER_NAMES = {
    "esc": "escape", "return": "enter", "pgdn": "pagedown", "pgup": "pageup", "del": "delete",
    "⌫": "backspace", "↑": "up", "↓": "down", "←": "left", "→": "right",
}  # fmt: skip
_SAME_FOR_TERMINALS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+h": "backspace"}


def character_key(character: str) -> str:
    """Textual's name of the key that gives a character: `question_mark`, `J`."""
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


_KEY_NAMES = {character_key(character): character for character in string.punctuation} | {
    "escape": "esc", "pagedown": "pgdn", "pageup": "pgup", "backspace": "⌫", "delete": "del",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
    "shift+up": "shift+↑", "shift+down": "shift+↓", "shift+left": "shift+←", "shift+right": "shift+→",
}  # fmt: skip


def key_text(keys: str) -> str:
    """Keys as a person reads them: `?`, `j / ↓`."""
    return " / ".join(_KEY_NAMES.get(key.strip(), key.strip()) for key in keys.split(","))


def typed_key(text: str) -> str:
    """Textual's name of a key as a person writes it: `?`, `J`, `ctrl+r`, `shift+up`, `esc`.

    Raises:
        ValueError: if there is no such key, or a terminal cannot tell it from another one.
    """
    if len(text) == 1 and text.isprintable() and text not in _OTHER_NAMES:
        return character_key(text)
    *modifiers, base = text.lower().split("+")
    base = _OTHER_NAMES.get(base, base)
    if modifiers == ["shift"] and len(base) == 1:
        raise ValueError(f"{text}: write the character itself, such as {base.upper()}")
    name = "+".join([*modifiers, base])
    if other := _SAME_FOR_TERMINALS.get(name):
        raise ValueError(f"{text}: terminals send {other} for this key")
    if "alt" in modifiers:
        raise ValueError(f"{text}: many terminals reserve alt")
    if name not in {key.value for key in Keys}:
        raise ValueError(f"not a key: {text}. Write it as ?, J, ctrl+r, shift+up, space, pagedown")
    return name


def written(keys: str) -> list[str]:
    """The forms that `typed_key` takes."""
    names = filter(None, keys.split(","))
    return [text if len(text := key_text(name)) == 1 and text.isascii() else name for name in names]
