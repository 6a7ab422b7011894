"""Conversions between a knob's value and the text that a person types. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rltui.base.toml.values import format_value
from rltui.core.config.knobs import Knob, KnobValue, parse_value
from rltui.core.config.report import KnobInfo
from rltui.errors import ConfigError
from rltui.ui.text import value_text


def typed_value(knob: KnobInfo, text: str) -> KnobValue:
    """The value to send for a typed text; `None` (empty text) takes the key out of the file.

    A text stays as it was typed: the receiver reads it, which must not happen twice, and checks the bounds
    of numbers.

    Raises:
        ConfigError: where `text` is no value of the knob's kind.
    """
    text = text.strip()
    if not text or knob.kind in ("str", "enum"):
        return text or None
    declaration = Knob(
        knob.key, knob.kind, knob.readers, knob.help, nullable=knob.nullable, choices=knob.choices
    )
    return parse_value(declaration, text)


def edit_text(knob: KnobInfo) -> str:
    """The editor starts with this: the file's value, or the default."""
    return "" if knob.value is None else value_text(knob.value)


def default_text(knob: KnobInfo) -> str:
    """The value of a key that is not in the file: `default 16`, or `none`."""
    return "none" if knob.default is None else f"default {value_text(knob.default)}"


def holds_text(knob: KnobInfo) -> bool:
    """The items of a list are texts, which need no quotes: by those it has or has by default."""
    items = [*_items(knob.value), *_items(knob.default)]
    return all(isinstance(item, str) for item in items)


def item_texts(knob: KnobInfo) -> list[str]:
    """A list's items, each as a person types it."""
    plain = holds_text(knob)
    return [item if plain and isinstance(item, str) else format_value(item) for item in _items(knob.value)]


def list_text(items: Sequence[str], *, plain: bool) -> str:
    """Typed items as a list in TOML. `plain`: they are texts."""
    return f"[{', '.join(format_value(item) if plain else item for item in items)}]"


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _clamped(knob: KnobInfo, number: float) -> float:
    low, high = knob.bounds
    return max(number if low is None else low, min(number, number if high is None else high))


def stepped(knob: KnobInfo, text: str, steps: int) -> str:
    """`text` some steps up or down; unchanged where it is no number. A float steps in its second digit."""
    number = _number(knob, text)
    if number is None:
        return text
    size = 1.0 if knob.kind == "int" else 10.0 ** (math.floor(math.log10(abs(number) or 0.1)) - 1)
    return _text(knob, _clamped(knob, number + steps * size))


def scaled(knob: KnobInfo, text: str, factor: float) -> str:
    """Unchanged where it is no number."""
    number = _number(knob, text)
    return text if number is None else _text(knob, _clamped(knob, number * factor))


def moved(knob: KnobInfo, text: str, distance: float) -> str:
    """A fraction moved by so much, to a multiple of 0.01 within the bounds; text that is no number stays."""
    number = _number(knob, text)
    return text if number is None else _text(knob, _clamped(knob, round(number + distance, 2)))


def options(knob: KnobInfo) -> tuple[str, ...]:
    """Empty for kinds that are typed."""
    if knob.kind == "bool":
        return ("true", "false")
    return knob.choices if knob.kind == "enum" or knob.choices else ()


def _number(knob: KnobInfo, text: str) -> float | None:
    if knob.kind not in ("int", "float"):
        return None
    try:
        value = typed_value(knob, text)
    except ConfigError:
        return None
    return value if isinstance(value, int | float) else None


def _text(knob: KnobInfo, number: float) -> str:
    if knob.kind == "int":
        return str(int(number))
    return value_text(float(f"{number:.6g}"))
