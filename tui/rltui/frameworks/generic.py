"""Any commands a layout names: every scalar of the given TOML files is a plain knob, nothing is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from rltui.core.knobs import Knob, KnobKind, TomlValue
from rltui.core.template import TemplateValue
from rltui.frameworks.base import ConfigFiles, Framework, RunContext
from rltui.frameworks.config_data import leaves

ANY_COMPONENT = "*"
"""Reader of a knob whose readers are not known: every component may read it."""

_NOT_IN_PLACEHOLDERS = re.compile(r"[^a-z0-9_.-]+")


def role(path: str, data: Mapping[str, Any]) -> str:
    """The file's name without `.toml`, spelled so that `{config.<role>}` is a placeholder."""
    del data
    return _NOT_IN_PLACEHOLDERS.sub("-", PurePath(path).stem.lower())


def knobs(files: ConfigFiles) -> tuple[Knob, ...]:
    """One knob per scalar; with several files, its name begins with the file's role."""
    return tuple(knob for role_name in files for knob in _knobs_of(role_name, files))


def _knobs_of(role_name: str, files: ConfigFiles) -> Iterator[Knob]:
    namespace = role_name if len(files) > 1 else ""
    for key, value in leaves(files[role_name].data):
        if kind := _kind(value):
            yield Knob(key, kind, (ANY_COMPONENT,), "", nullable=True, file=role_name, namespace=namespace)


def _kind(value: TomlValue) -> KnobKind | None:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    return "str" if isinstance(value, str) else None


def template_values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
    """`python`, `workspace`, `output_dir`, `run_dir`, `name`, and `config.<role>` for each file."""
    return {
        "python": context.python,
        "workspace": context.workspace,
        "output_dir": context.output_dir,
        "run_dir": context.run_folder,
        "name": context.name,
        **{f"config.{role_name}": file.path for role_name, file in files.items()},
    }


def max_steps(files: ConfigFiles) -> int | None:
    """The first top-level `max_steps` that is a whole number."""
    named = (file.data.get("max_steps") for file in files.values())
    return next((steps for steps in named if isinstance(steps, int) and not isinstance(steps, bool)), None)


def output_dir(files: ConfigFiles) -> str | None:
    """The first top-level `output_dir` that is text."""
    named = (file.data.get("output_dir") for file in files.values())
    return next((folder for folder in named if isinstance(folder, str) and folder), None)


GENERIC = Framework(
    id="generic",
    title="any commands",
    layouts={},
    roles=role,
    template_values=template_values,
    more_knobs=knobs,
    output_dir=output_dir,
    max_steps=max_steps,
)
