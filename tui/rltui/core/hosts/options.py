"""Options of a command line for the hosts of a run."""

from __future__ import annotations

from collections.abc import Mapping

HostOptions = Mapping[str, Mapping[str, str | bool | tuple[str, ...]]]
"""Kind of host → options for what runs on such hosts, by the keys of its entry in a layout, over which they
take precedence.
"""
KINDS_WITH_OPTIONS: Mapping[str, frozenset[str]] = {"slurm": frozenset({"dependency", "array"})}
"""Kind of host that takes options → those of them that hold for one submission alone."""


def lasting_options(host_options: HostOptions) -> HostOptions:
    """The options of a run for one that resumes or repeats it."""
    lasting = {
        kind: {key: value for key, value in options.items() if key not in KINDS_WITH_OPTIONS[kind]}
        for kind, options in host_options.items()
    }
    return {kind: options for kind, options in lasting.items() if options}


def merged_options(first: HostOptions, second: HostOptions) -> HostOptions:
    """Both; where they differ, the second counts."""
    return {kind: {**first.get(kind, {}), **second.get(kind, {})} for kind in (*first, *second)}
