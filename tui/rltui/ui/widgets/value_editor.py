"""The field a knob's value is edited in, by the knob's kind."""

from __future__ import annotations

from rltui.core.config_report import KnobInfo
from rltui.ui.knob_values import options
from rltui.ui.widgets.chosen_value import ChosenValue
from rltui.ui.widgets.list_value import ListValue
from rltui.ui.widgets.typed_value import FractionValue, TypedValue

Field = TypedValue | ChosenValue | ListValue


def value_editor(knob: KnobInfo) -> Field:
    """Typed, stepped, moved, chosen, or line by line."""
    if options(knob):
        return ChosenValue(knob)
    if knob.kind == "list":
        return ListValue(knob)
    return FractionValue(knob) if knob.control == "fraction" else TypedValue(knob)
