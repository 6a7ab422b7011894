"""Which of the values that rltui chose for an experiment still stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltui.frameworks.base import PortKnob

Overrides = Mapping[str, int | str]
"""By knob name."""


def standing(ports: Sequence[PortKnob], chosen: Overrides, instead_of: Overrides) -> dict[str, int | str]:
    """The chosen values whose knob still says what it said when they were chosen.

    Once a person writes another value into the config, that one counts.
    """
    return {
        item.knob: chosen[item.knob]
        for item in ports
        if item.knob in chosen and instead_of.get(item.knob) == item.port
    }
