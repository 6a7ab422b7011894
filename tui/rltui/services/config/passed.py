"""Values of a config that a component gets otherwise than its files say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rltui.base.template import placeholders
from rltui.core.config.data import apply_edits, changed_keys, deep_leaves
from rltui.core.config.knobs import KnobValue
from rltui.services.experiment.launch import LaunchContext


def passed_values(component: str, context: LaunchContext) -> Mapping[str, Mapping[str, KnobValue]]:
    """Role → dotted key → value that `component` gets in place of what the files say; `None`: without it.

    Passed by options on its command line, or in the copies of the config that are made for it.
    """
    by_placeholder = (
        context.framework.launch.passed(name, context.files, context.run_context)
        for name in placeholders(context.layout[component].command)
    )
    resolutions = context.resolutions(component)
    # only the launcher's has the real folders
    launchers = [one for one in context.all_resolutions if resolutions and "launcher" in one.outputs]
    by_copy = (resolution.edits for resolution in (*resolutions, *launchers))
    by_role: dict[str, dict[str, KnobValue]] = {}
    for role, values in (item for passed in (*by_placeholder, *by_copy) for item in passed.items()):
        by_role.setdefault(role, {}).update(values)
    return {
        role: _without_defaults(role, values, context)
        for role, values in by_role.items()
        if role in context.files
    }


def _without_defaults(
    role: str, values: Mapping[str, KnobValue], context: LaunchContext
) -> Mapping[str, KnobValue]:
    """Drop values that equal the file or the default, compared as absolute paths."""
    config, files = context.framework.config, context.files
    knobs = {knob.key: knob for knob in config.knobs(files) if knob.file == role}
    effective = config.values_of(knobs.values(), files)
    data = files[role].data
    real = {key: value for key, value in values.items() if "{scratch}" not in str(value)}
    changes = changed_keys(deep_leaves(data), deep_leaves(apply_edits(data, real)))
    differing = {}
    for key, (set_value, value) in changes.items():
        intended = effective[knobs[key].name] if set_value is None and key in knobs else set_value
        if intended is None and key == "output_dir":
            intended = context.framework.run.output_dir(files)
        if isinstance(value, str) and isinstance(intended, str) and value.startswith("/"):
            intended = os.path.normpath(Path(context.record.workspace) / intended)
        if intended != value:
            differing[key] = value
    return differing
