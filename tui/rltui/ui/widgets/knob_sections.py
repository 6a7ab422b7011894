"""The knob table's order: knobs under the headings of their sections. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from rltui.core.config_report import KnobInfo

RUN_SECTION = "run"
"""Heading of the keys without a section."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The line above the knobs of a section."""

    section: str


def section_of(key: str) -> str:
    """The first element of a dotted key."""
    section, dot, _ = key.partition(".")
    return section if dot else RUN_SECTION


def name_in_section(key: str) -> str:
    """What is left of a key under its section's heading."""
    section, dot, name = key.partition(".")
    return name if dot else section


def sectioned(knobs: tuple[KnobInfo, ...]) -> tuple[Heading | KnobInfo, ...]:
    """All knobs, each section together below its heading, otherwise in the order they came in."""
    sections: dict[str, list[Heading | KnobInfo]] = {}
    for knob in knobs:
        section = section_of(knob.key)
        sections.setdefault(section, [Heading(section)]).append(knob)
    return tuple(chain.from_iterable(sections.values()))
