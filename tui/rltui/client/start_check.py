"""Whether every component of a layout can be started with a config: what a start would find, found before."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rltui.core.config_report import Problem
from rltui.core.layout import ComponentSpec, Layout
from rltui.core.template import Missing, TemplateValue, placeholders, render
from rltui.core.text import did_you_mean
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFiles, Framework, RunContext
from rltui.frameworks.generic import CONFIG

_OF_THE_BOX = "gpus."
"""Placeholders of devices: what lacks is told with the memory plan."""
_PROGRAMS = "run"
"""Where the framework's programs are: without them a config can be looked at, and not be started."""


def start_problems(
    layout_file: Path, layout: Layout, framework: Framework, files: ConfigFiles, workspace: Path
) -> tuple[Problem, ...]:
    """What stands in the way, each reason once: placeholders that nobody knows, or that have no value.

    The latter are warnings: the config may be sound and ask for something that this layout does not do.
    """
    found: dict[str, Problem] = {}
    context = RunContext(workspace=str(workspace), output_dir=str(workspace), python=sys.executable)
    values = framework.template_values(files, context)
    for spec in layout.component:
        if _is_there(spec, values, workspace):
            continue
        for name in sorted(placeholders(spec.templates)):
            value = values.get(name)
            if name.startswith(CONFIG) and _is_made(name.removeprefix(CONFIG), framework, files, context):
                continue
            if name not in values:
                known = f"known here: {', '.join('{' + one + '}' for one in sorted(values))}"
                hint = did_you_mean(name, values) or known
                message = f"component {spec.id!r}: unknown placeholder {{{name}}}; {hint}"
                found.setdefault(name, Problem(message=message, file=str(layout_file)))
            elif isinstance(value, Missing) and not name.startswith(_OF_THE_BOX) and name != _PROGRAMS:
                message = f"{spec.id} cannot be started: {value.reason}; {value.hint}".rstrip("; ")
                found.setdefault(value.reason, Problem(severity="warning", message=message))
    return tuple(found.values())


def _is_there(spec: ComponentSpec, values: Mapping[str, TemplateValue], workspace: Path) -> bool:
    """What this job makes exists: it is not run."""
    try:
        return bool(spec.creates) and (workspace / render(spec.creates, values, where=spec.id)).exists()
    except ConfigError:
        return False


def _is_made(name: str, framework: Framework, files: ConfigFiles, context: RunContext) -> bool:
    """Whether the framework makes this file as a component starts."""
    found = framework.resolutions(files, context)
    return any(each.makes([name]) and name not in each.optional for each in found)
