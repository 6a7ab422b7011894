"""Between a knob's value and what a person types. Pure functions."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence

from rltui.core.config_report import KnobInfo
from rltui.core.knobs import KnobValue
from rltui.ui.text import toml_text, value_text


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
            return _list(name, text)


def _list(name: str, text: str) -> list[object]:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = None
    if not isinstance(value, list):
        raise ValueError(f'{name} takes a list such as ["a", "b"], not {text!r}')
    return value


def edit_text(knob: KnobInfo) -> str:
    """What the editor starts with: the file's value, or the default."""
    return "" if knob.value is None else value_text(knob.value)


def default_text(knob: KnobInfo) -> str:
    """What counts where the key is not in the file: `default 16`, or `none`."""
    return "none" if knob.default is None else f"default {value_text(knob.default)}"


def holds_text(knob: KnobInfo) -> bool:
    """The items of a list are texts, which need no quotes: by those it has or has by default."""
    items = [*_items(knob.value), *_items(knob.default)]
    return all(isinstance(item, str) for item in items)


def item_texts(knob: KnobInfo) -> list[str]:
    """A list's items, each as a person types it."""
    plain = holds_text(knob)
    return [item if plain and isinstance(item, str) else toml_text(item) for item in _items(knob.value)]


def list_text(items: Sequence[str], *, plain: bool) -> str:
    """Typed items as a list in TOML. `plain`: they are texts."""
    return f"[{', '.join(toml_text(item) if plain else item for item in items)}]"


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


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


def moved(knob: KnobInfo, text: str, distance: float) -> str:
    """A fraction moved by so much, to a multiple of 0.01 within the bounds; text that is no number stays."""
    number = _number(knob, text)
    return text if number is None else _text(knob, clamped(knob, round(number + distance, 2)))


def options(knob: KnobInfo) -> tuple[str, ...]:
    """What a bool or enum may be; empty for kinds that are typed."""
    if knob.kind == "bool":
        return ("true", "false")
    return knob.choices if knob.kind == "enum" or knob.choices else ()


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
