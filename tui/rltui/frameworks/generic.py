"""Framework for any commands of a layout: every scalar of TOML files is a plain knob, nothing is checked."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

from rltui.base.template import TemplateValue, placeholders
from rltui.core.config.data import leaves
from rltui.core.config.knobs import Knob
from rltui.core.experiment.layout import Layout
from rltui.core.logs.failure_cause import LONGEST_LINE
from rltui.core.metrics.progress import MetricNames
from rltui.frameworks.base import Framework, Given
from rltui.frameworks.config import ConfigSide
from rltui.frameworks.evaluation import EvaluationSide, named_model
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import CONFIG, LaunchSide, PortKnob, common_values
from rltui.frameworks.plain_knobs import ANY_COMPONENT, kind_of, plain_knob
from rltui.frameworks.progress import ProgressSide, TitleFact
from rltui.frameworks.run_settings import RunSettings

FIRST_PORT = 8000
"""Assigned to the first `{port.X}` of a layout if it is free, the next numbers to the others."""
COMPLETED = "progress/step"
"""Key in the rows of the component whose lines complete a step."""

_NOT_IN_PLACEHOLDERS = re.compile(r"[^a-z0-9_.-]+")
_HEADLINES = {"reward": MetricNames().reward, "loss": "loss/mean", "tokens_per_s": MetricNames().tokens_per_s,
              "step_time": MetricNames().step_time}  # fmt: skip
_LONGEST_STEP = 12
"""Number of digits."""


class _OfLayout:
    """The readers, ports and progress that a layout declares; of no layout: none."""

    def __init__(self, layout: Layout | None) -> None:
        self._components = layout.automatic if layout is not None else ()
        self._hosts = _hosts(layout) if layout is not None else {}
        self._patterns = {
            spec.id: tuple(map(re.compile, spec.progress))
            for spec in (layout.component if layout is not None else ())
            if spec.progress
        }

    @property
    def progress(self) -> ProgressSide:
        if not self._patterns:
            return ProgressSide()
        names = MetricNames(trainer_step=COMPLETED)
        return ProgressSide(names, tuple(self._facts()), self._log_row, log_marks=("",))

    def knobs(self, files: ConfigFiles) -> tuple[Knob, ...]:
        """One knob per scalar; with several files, its name begins with the file's role."""
        return tuple(knob for role in files for knob in self._knobs_of(role, files))

    def _knobs_of(self, role: str, files: ConfigFiles) -> Iterator[Knob]:
        for key, value in leaves(files[role].data):
            kind = kind_of(value)
            if kind and not isinstance(value, list | datetime.date | datetime.time):
                knob = plain_knob(key, kind, role, role if len(files) > 1 else "", (ANY_COMPONENT,))
                yield replace(knob, readers=self._readers(knob)) if self._components else knob

    def template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """The values of every framework, and `{port.X}` and `{host.X}`, the address of component X."""
        numbers = {item.knob: str(context.overrides.get(item.knob, item.port)) for item in self.ports}
        hosts = {
            f"host.{item.component}": self._hosts.get(item.component, "127.0.0.1") for item in self.ports
        }
        return {**common_values(files, context), **numbers, **hosts}

    @cached_property
    def ports(self) -> tuple[PortKnob, ...]:
        """A port for every `{port.X}` of the layout."""
        names = (name for spec in self._components for name in sorted(placeholders(spec.templates)))
        port_names = dict.fromkeys(name for name in names if name.startswith("port."))
        return tuple(
            PortKnob(name.removeprefix("port."), name, FIRST_PORT + number, readers=())
            for number, name in enumerate(port_names)
        )

    def _readers(self, knob: Knob) -> tuple[str, ...]:
        """The components that read it, by declaration or by their placeholders."""
        file = f"{CONFIG}{knob.file}"
        placeholders_by_id = {spec.id: placeholders(spec.templates) for spec in self._components}
        is_named = any(file in used for used in placeholders_by_id.values())
        return tuple(
            spec.id
            for spec in self._components
            if (
                any(_covers(entry, knob) for entry in spec.reads)
                if spec.reads is not None
                else file in placeholders_by_id[spec.id] or not is_named
            )
        )

    # --- lines that the layout describes ---

    def _log_row(self, component: str, line: str) -> Mapping[str, Any] | None:
        for pattern in self._patterns.get(component, ()):
            if match := pattern.search(line[:LONGEST_LINE]):
                return _row(match, completes=component == self._completing)
        return None

    @cached_property
    def _groups(self) -> Mapping[str, set[str]]:
        """Component → names in its patterns."""
        return {
            name: {group for pattern in patterns for group in pattern.groupindex}
            for name, patterns in self._patterns.items()
        }

    @cached_property
    def _completing(self) -> str:
        """The component that completes the steps: the one with a loss, else the last with steps."""
        return next(
            (name for name, names_ in self._groups.items() if "loss" in names_), list(self._groups)[-1]
        )

    def _facts(self) -> Iterator[TitleFact]:
        yield TitleFact(self._completing, COMPLETED, "step {:.0f}")
        for name, group_names in self._groups.items():
            yield from (
                TitleFact(name, _HEADLINES[key], f"{key} {{:.3f}}")
                for key in ("reward", "loss")
                if key in group_names
            )


def _hosts(layout: Layout) -> dict[str, str]:
    """Component → address of its node, or the first of its nodes; not where a port here leads to it."""
    addresses = {node.name: node.address or node.name for node in layout.node}
    nodes_by_id = {spec.id: layout.nodes_of(spec.each)[:1] for spec in layout.component if not spec.forward}
    heads = {name: addresses[nodes[0].name] for name, nodes in nodes_by_id.items() if nodes}
    single = {spec.id: addresses[spec.node] for spec in layout.component if spec.node in addresses}
    return {name: address for name, address in {**heads, **single}.items() if name in nodes_by_id}


def _covers(entry: str, knob: Knob) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for name in (knob.file, knob.key, knob.name))


def _row(match: re.Match[str], *, completes: bool) -> Mapping[str, Any] | None:
    step = match["step"]
    if step is None or not step.isdecimal() or len(step) > _LONGEST_STEP:
        return None
    row: dict[str, Any] = {"step": int(step), **({COMPLETED: int(step)} if completes else {})}
    for name, text in match.groupdict().items():
        with suppress(TypeError, ValueError):  # took no part, or is no number
            if name != "step":
                row[_HEADLINES.get(name, name)] = float(text)
    return row


def _role(path: str, _: Mapping[str, Any]) -> str:
    """The file's name without `.toml`, spelled so that `{config.<role>}` is a placeholder."""
    return _NOT_IN_PLACEHOLDERS.sub("-", PurePath(path).stem.lower())


def _output_dir(files: ConfigFiles) -> str | None:
    """The first top-level `output_dir` that is text."""
    candidates = (file.data.get("output_dir") for file in files.values())
    return next((folder for folder in candidates if isinstance(folder, str) and folder), None)


def _max_steps(files: ConfigFiles) -> int | None:
    """The first top-level `max_steps` that is a whole number."""
    candidates = (file.data.get("max_steps") for file in files.values())
    return next((steps for steps in candidates if type(steps) is int), None)


def _make(given: Given) -> Framework:
    of_layout, title = _OfLayout(given.layout), "any commands"
    return Framework(
        id="generic",
        title=title,
        progress=of_layout.progress,
        config=ConfigSide(role=_role, knobs=of_layout.knobs),
        launch=LaunchSide(template_values=of_layout.template_values, ports=lambda _: of_layout.ports),
        run=RunSettings(output_dir=_output_dir, max_steps=_max_steps),
        evaluation=EvaluationSide(model=named_model(title)),
        given=given,
        make=_make,
        reads_layout=True,
    )


GENERIC = _make(Given())
