"""TCP ports of an experiment's programs: numbers in a layout, and those that rltui may change."""

from __future__ import annotations

from collections.abc import Collection

from rltui.base.text import parse_whole_number
from rltui.core.experiment.layout import Layout
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.launch import PortKnob

LAST_PORT = 65535
_OVERRIDES = "{overrides}"
"""Placeholder of a layout for the options that rltui chose."""


def port_number(text: str, label: str) -> int:
    """A port from a filled-in layout value.

    Raises:
        ConfigError: if it is none.
    """
    if (port := parse_whole_number(text)) is not None and 0 < port <= LAST_PORT:
        return port
    raise ConfigError(f"{label}: port is {text!r}, which is not a port number", hint="use 1 to 65535")


def takes_options(layout: Layout, item: PortKnob) -> bool:
    """True if every component that needs the option gets it, or none needs it."""
    if not item.by_option:  # a launcher may choose all ports itself
        return any(spec.port for spec in layout.automatic)
    readers = [spec for spec in layout.automatic if {spec.id, *spec.launches}.intersection(item.readers)]
    return bool(readers) and all(_OVERRIDES in spec.command for spec in readers)


def movable_ports(
    component: str, layout: Layout, framework: Framework, files: ConfigFiles, stays: Collection[str]
) -> list[PortKnob]:
    """The ports of `component` that rltui may change, since no component in `stays` reads them."""
    automatic = [spec.id for spec in layout.automatic]
    return [
        item
        for item in framework.launch.ports(files)
        if item.component == component and takes_options(layout, item)
        if not set(item.readers or automatic).difference([component]).intersection(stays)
    ]
