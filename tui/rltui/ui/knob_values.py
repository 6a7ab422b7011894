"""Between a knob's value and what a person types. Pure functions."""

from __future__ import annotations

import math
import tomllib

from rltui.core.api import KnobInfo, KnobValue
from rltui.ui.text import value_text


def parse_value(knob: KnobInfo, text: str) -> KnobValue:
    """The value of `text`; `None` (empty text) takes the key out of the file.

    Raises:
        ValueError: with words for a person, where `text` is no value of the knob's kind.
    """
    text = text.strip()
    name = knob.key.rpartition(".")[2]
    if not text or (knob.nullable and text.lower() == "none"):
        return None
    match knob.kind:
        case "int":
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"{name} takes a whole number, not {text!r}") from None
        case "float":
            try:
                number = float(text)
            except ValueError:
                raise ValueError(f"{name} takes a number, not {text!r}") from None
            if not math.isfinite(number):
                raise ValueError(f"{name} takes a finite number, not {text!r}")
            return number
        case "bool":
            if text not in ("true", "false"):
                raise ValueError(f"{name} is true or false, not {text!r}")
            return text == "true"
        case "str" | "enum":
            return text
        case "list":
            try:
                items: list[object] = tomllib.loads(f"value = {text}")["value"]
            except tomllib.TOMLDecodeError:
                raise ValueError(f'{name} takes a list such as ["a", "b"], not {text!r}') from None
            return items


def edit_text(knob: KnobInfo) -> str:
    """What the editor starts with: the file's value, or the default."""
    return "" if knob.value is None else value_text(knob.value)


def clamped(knob: KnobInfo, number: float) -> float:
    """The nearest value within the knob's bounds."""
    low, high = knob.bounds
    return max(number if low is None else low, min(number, number if high is None else high))


def stepped(knob: KnobInfo, text: str, steps: int) -> str:
    """`text` some steps up or down; unchanged where it is no number. A float steps in its second digit."""
    number = _number(knob, text)
    if number is None:
        return text
    size = 1.0 if knob.kind == "int" else 10.0 ** (math.floor(math.log10(abs(number) or 0.1)) - 1)
    return _text(knob, clamped(knob, number + steps * size))


def scaled(knob: KnobInfo, text: str, factor: float) -> str:
    """`text` times `factor`; unchanged where it is no number."""
    number = _number(knob, text)
    return text if number is None else _text(knob, clamped(knob, number * factor))


def options(knob: KnobInfo) -> tuple[str, ...]:
    """What a bool or enum may be; empty for kinds that are typed."""
    if knob.kind == "bool":
        values: tuple[str, ...] = ("true", "false")
    elif knob.kind == "enum" or knob.choices:
        values = knob.choices
    else:
        return ()
    return (*values, "none") if knob.nullable else values


def _number(knob: KnobInfo, text: str) -> float | None:
    if knob.kind not in ("int", "float"):
        return None
    try:
        value = parse_value(knob, text)
    except ValueError:
        return None
    return value if isinstance(value, int | float) else None


def _text(knob: KnobInfo, number: float) -> str:
    if knob.kind == "int":
        return str(int(number))
    return value_text(float(f"{number:.6g}"))
