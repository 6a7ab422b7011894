"""Any commands a layout names: every scalar of the given TOML files is a plain knob, nothing is checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from rltui.core.config_data import leaves
from rltui.core.failure_cause import LONGEST_LINE
from rltui.core.knobs import Knob, KnobKind
from rltui.core.layout import Layout
from rltui.core.metrics import MetricNames
from rltui.core.template import TemplateValue, placeholders
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import ConfigFiles, Fact, Framework, PortKnob, RunContext

CONFIG = "config."
"""Placeholders of config files begin so."""
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


FIRST_PORT = 8000
"""Given to the first `{port.X}` of a layout where it is free, the next numbers to the others."""
COMPLETED = "progress/step"
"""In the rows of the component whose lines complete a step."""
_HEADLINES = {"reward": MetricNames().reward, "loss": "loss/mean", "tokens_per_s": MetricNames().tokens_per_s,
              "step_time": MetricNames().step_time}  # fmt: skip
_LONGEST_STEP = 12
"""Digits."""


def fitted(framework: Framework, layout: Layout) -> Framework:
    """`framework` with what `layout` itself says of readers, ports and progress, where nobody else does."""
    if framework.id != GENERIC.id:
        return framework
    ports = _ports(layout)
    patterns = {spec.id: tuple(map(re.compile, spec.progress)) for spec in layout.component if spec.progress}
    told = replace(
        framework,
        knobs=lambda files: tuple(replace(knob, readers=_readers(layout, knob)) for knob in knobs(files)),
        ports=lambda _: ports,
        template_values=lambda files, context: {
            **template_values(files, context),
            **_addresses(ports, context),
        },
    )
    return told if not patterns else _with_progress(told, patterns)


def _ports(layout: Layout) -> tuple[PortKnob, ...]:
    named = (name for spec in layout.component for name in sorted(placeholders(spec.templates)))
    wanted = dict.fromkeys(name for name in named if name.startswith("port."))
    return tuple(
        PortKnob(name.removeprefix("port."), name, FIRST_PORT + number, readers=(), by_option=False)
        for number, name in enumerate(wanted)
    )


def _addresses(ports: Sequence[PortKnob], context: RunContext) -> Mapping[str, str]:
    """`{port.X}` and `{host.X}`: components of one experiment run on one machine."""
    numbers = {item.knob: str(context.overrides.get(item.knob, item.port)) for item in ports}
    return {**numbers, **{f"host.{item.component}": "127.0.0.1" for item in ports}}


def _readers(layout: Layout, knob: Knob) -> tuple[str, ...]:
    """The components that read it, as the layout says or lets see."""
    file = f"{CONFIG}{knob.file}"
    naming = {spec.id: placeholders(spec.templates) for spec in layout.component}
    is_named = any(file in named for named in naming.values())
    return tuple(
        spec.id
        for spec in layout.component
        if (
            any(_covers(entry, knob) for entry in spec.reads)
            if spec.reads is not None
            else file in naming[spec.id] or not is_named
        )
    )


def _covers(entry: str, knob: Knob) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for name in (knob.file, knob.key, knob.name))


def _with_progress(framework: Framework, patterns: Mapping[str, Sequence[re.Pattern[str]]]) -> Framework:
    """Rows and titles out of the lines that a layout describes.

    One component completes the steps: the one that tells of its loss, else the last that tells of steps.
    """
    groups = {name: {group for each in own for group in each.groupindex} for name, own in patterns.items()}
    completing = next((name for name, own in groups.items() if "loss" in own), list(groups)[-1])

    def log_row(component: str, line: str) -> Mapping[str, Any] | None:
        for pattern in patterns.get(component, ()):
            if found := pattern.search(line[:LONGEST_LINE]):
                return _row(found, completes=component == completing)
        return None

    facts = [Fact(completing, COMPLETED, "step {:.0f}")]
    for name, own in groups.items():
        facts += [Fact(name, _HEADLINES[key], f"{key} {{:.3f}}") for key in ("reward", "loss") if key in own]
    return replace(
        framework, log_row=log_row, facts=tuple(facts), metrics=MetricNames(trainer_step=COMPLETED)
    )


def _row(found: re.Match[str], *, completes: bool) -> Mapping[str, Any] | None:
    step = found["step"]
    if step is None or not step.isdecimal() or len(step) > _LONGEST_STEP:
        return None
    row: dict[str, Any] = {"step": int(step), **({COMPLETED: int(step)} if completes else {})}
    for name, text in found.groupdict().items():
        with suppress(TypeError, ValueError):  # took no part, or is no number
            if name != "step":
                row[_HEADLINES.get(name, name)] = float(text)
    return row


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
    knobs=knobs,
    output_dir=output_dir,
    max_steps=max_steps,
)
