"""Any commands a layout names: every scalar of the given TOML files is a plain knob, nothing is checked.

And of all frameworks: keys that the files set and that no schema lists. No more is known than their value.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

from rltui.core.config_data import deep_leaves, leaves
from rltui.core.failure_cause import LONGEST_LINE
from rltui.core.knobs import Knob, KnobKind
from rltui.core.layout import Layout
from rltui.core.metrics import MetricNames
from rltui.core.template import TemplateValue, placeholders
from rltui.core.toml.values import TomlValue
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFiles, Fact, Framework, PortKnob, RunContext

CONFIG = "config."
"""Placeholders of config files begin so."""
ANY_COMPONENT = "*"
"""Reader of a knob whose readers are not known: every component may read it."""
FIRST_PORT = 8000
"""Given to the first `{port.X}` of a layout where it is free, the next numbers to the others."""
COMPLETED = "progress/step"
"""In the rows of the component whose lines complete a step."""

_NOT_IN_PLACEHOLDERS = re.compile(r"[^a-z0-9_.-]+")
_HEADLINES = {"reward": MetricNames().reward, "loss": "loss/mean", "tokens_per_s": MetricNames().tokens_per_s,
              "step_time": MetricNames().step_time}  # fmt: skip
_LONGEST_STEP = 12
"""Digits."""


class Generic(Framework):
    """What can be said of any commands, and what their layout says of readers, ports and progress."""

    id, title = "generic", "any commands"

    def __init__(self, layout: Layout | None = None) -> None:
        self._components = layout.automatic if layout is not None else ()
        self._hosts = _hosts(layout) if layout is not None else {}
        self._patterns = {
            spec.id: tuple(map(re.compile, spec.progress))
            for spec in (layout.component if layout is not None else ())
            if spec.progress
        }
        if self._patterns:
            self.log_marks, self.facts = ("",), tuple(self._titles())
            self.metrics = MetricNames(trainer_step=COMPLETED)

    def role(self, path: str, data: Mapping[str, Any]) -> str:
        """The file's name without `.toml`, spelled so that `{config.<role>}` is a placeholder."""
        del data
        return _NOT_IN_PLACEHOLDERS.sub("-", PurePath(path).stem.lower())

    def fitted(self, layout: Layout) -> Framework:
        return Generic(layout)

    def knobs(self, files: ConfigFiles) -> tuple[Knob, ...]:
        """One knob per scalar; with several files, its name begins with the file's role."""
        return tuple(knob for role in files for knob in self._knobs_of(role, files))

    def _knobs_of(self, role: str, files: ConfigFiles) -> Iterator[Knob]:
        for key, value in leaves(files[role].data):
            kind = _kind_of(value)
            if kind and not isinstance(value, list | datetime.date | datetime.time):
                knob = _knob(key, kind, role, role if len(files) > 1 else "", (ANY_COMPONENT,))
                yield replace(knob, readers=self._readers(knob)) if self._components else knob

    def output_dir(self, files: ConfigFiles) -> str | None:
        """The first top-level `output_dir` that is text."""
        named = (file.data.get("output_dir") for file in files.values())
        return next((folder for folder in named if isinstance(folder, str) and folder), None)

    def max_steps(self, files: ConfigFiles) -> int | None:
        """The first top-level `max_steps` that is a whole number."""
        named = (file.data.get("max_steps") for file in files.values())
        return next((steps for steps in named if type(steps) is int), None)

    def template_values(self, files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        """What every framework knows, and `{port.X}` and `{host.X}`, where component X runs."""
        numbers = {item.knob: str(context.overrides.get(item.knob, item.port)) for item in self._ports}
        hosts = {
            f"host.{item.component}": self._hosts.get(item.component, "127.0.0.1") for item in self._ports
        }
        return {**common_values(files, context), **numbers, **hosts}

    def ports(self, files: ConfigFiles) -> tuple[PortKnob, ...]:
        """Of every `{port.X}` of the layout."""
        del files
        return self._ports

    @cached_property
    def _ports(self) -> tuple[PortKnob, ...]:
        named = (name for spec in self._components for name in sorted(placeholders(spec.templates)))
        wanted = dict.fromkeys(name for name in named if name.startswith("port."))
        return tuple(
            PortKnob(name.removeprefix("port."), name, FIRST_PORT + number, readers=(), by_option=False)
            for number, name in enumerate(wanted)
        )

    def _readers(self, knob: Knob) -> tuple[str, ...]:
        """The components that read it, as the layout says or lets see."""
        file = f"{CONFIG}{knob.file}"
        naming = {spec.id: placeholders(spec.templates) for spec in self._components}
        is_named = any(file in named for named in naming.values())
        return tuple(
            spec.id
            for spec in self._components
            if (
                any(_covers(entry, knob) for entry in spec.reads)
                if spec.reads is not None
                else file in naming[spec.id] or not is_named
            )
        )

    # --- lines that the layout describes ---

    def log_row(self, component: str, line: str) -> Mapping[str, Any] | None:
        for pattern in self._patterns.get(component, ()):
            if found := pattern.search(line[:LONGEST_LINE]):
                return _row(found, completes=component == self._completing)
        return None

    @cached_property
    def _groups(self) -> Mapping[str, set[str]]:
        """Component → names in its patterns."""
        return {
            name: {group for each in own for group in each.groupindex} for name, own in self._patterns.items()
        }

    @cached_property
    def _completing(self) -> str:
        """Who completes the steps: the one that tells of its loss, else the last that tells of steps."""
        return next((name for name, own in self._groups.items() if "loss" in own), list(self._groups)[-1])

    def _titles(self) -> Iterator[Fact]:
        yield Fact(self._completing, COMPLETED, "step {:.0f}")
        for name, own in self._groups.items():
            yield from (
                Fact(name, _HEADLINES[key], f"{key} {{:.3f}}") for key in ("reward", "loss") if key in own
            )


def _hosts(layout: Layout) -> dict[str, str]:
    """Component → address of its node, or the first of its nodes; not where a port here leads to it."""
    addresses = {node.name: node.address or node.name for node in layout.node}
    named = {spec.id: layout.nodes_of(spec.each)[:1] for spec in layout.component if not spec.forward}
    heads = {name: addresses[nodes[0].name] for name, nodes in named.items() if nodes}
    alone = {spec.id: addresses[spec.node] for spec in layout.component if spec.node in addresses}
    return {name: address for name, address in {**heads, **alone}.items() if name in named}


def common_values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
    """`python`, `run`, `workspace`, `output_dir`, `run_dir`, `name`, and `config.<role>` for each file."""
    return {
        "python": context.python,
        "run": context.run,
        "workspace": context.workspace,
        "output_dir": context.output_dir,
        "run_dir": context.run_folder,
        "name": context.name,
        **{f"{CONFIG}{role}": file.path for role, file in files.items()},
    }


def _covers(entry: str, knob: Knob) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for name in (knob.file, knob.key, knob.name))


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


GENERIC = Generic()


# --- keys that no schema lists ---


def other_knobs(files: ConfigFiles, knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """A knob for each key that the files set and that is not among `knobs`, in the order of the files."""
    return tuple(_others(files, knobs))


def _others(files: ConfigFiles, knobs: Sequence[Knob]) -> Iterator[Knob]:
    for role, file in files.items():
        known = {knob.key for knob in knobs if knob.file == role}
        readers: dict[str, tuple[str, ...]] = {}
        for key, value in deep_leaves(file.data).items():
            kind = _kind_of(value)
            if kind is None or not known.isdisjoint(above(key)):
                continue
            table = key.rpartition(".")[0]
            if table not in readers:
                readers[table] = _readers_beside(table, role, knobs)
            yield _knob(key, kind, role, _namespace(role, files, knobs), readers[table])


def added_knob(name: str, value: TomlValue, files: ConfigFiles, knobs: Sequence[Knob]) -> Knob:
    """A knob for a key that is nowhere yet, of the kind of its first `value`.

    Raises:
        ConfigError: if the file or the kind is not clear.
    """
    kind = _kind_of(value)
    if kind is None:
        raise ConfigError(f"{name} cannot be set to a table", hint="edit it in the file itself")
    by_namespace = {_namespace(role, files, knobs): role for role in files}
    namespace, _, key = name.partition(".")
    if not key or not namespace or namespace not in by_namespace:
        namespace, key = "", name
    if namespace not in by_namespace:
        known = " or ".join(sorted(f"{each}.{name}" for each in by_namespace))
        raise ConfigError(f"{name} could be in several files", hint=f"write {known}")
    role = by_namespace[namespace]
    return _knob(key, kind, role, namespace, _readers_beside(key.rpartition(".")[0], role, knobs))


def _namespace(role: str, files: ConfigFiles, knobs: Iterable[Knob]) -> str:
    """What the names of all keys of a file begin with."""
    known = next((knob.namespace for knob in knobs if knob.file == role), None)
    if known is not None:
        return known
    return role if len(files) > 1 else ""


def _knob(key: str, kind: KnobKind, role: str, namespace: str, readers: tuple[str, ...]) -> Knob:
    return Knob(key, kind, readers, "", nullable=True, file=role, namespace=namespace)


def _readers_beside(table: str, role: str, knobs: Sequence[Knob]) -> tuple[str, ...]:
    """Whoever reads a known knob of the same table, or of the nearest around it that has one; else whoever
    reads the file at all.
    """
    of_file = [knob for knob in knobs if knob.file == role]
    tables = (each for each in reversed(above(table)) if each)
    beside = ([knob for knob in of_file if knob.key.startswith(f"{each}.")] for each in tables)
    found = next((each for each in beside if each), of_file)
    return tuple(dict.fromkeys(reader for knob in found for reader in knob.readers)) or (ANY_COMPONENT,)


def above(key: str) -> tuple[str, ...]:
    """The key itself and those of the tables around it."""
    return (*(key[:at] for at, character in enumerate(key) if character == "."), key)


def _kind_of(value: TomlValue) -> KnobKind | None:
    """As what a value is edited; `None` for a table."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str() | datetime.date() | datetime.time():
            return "str"
        case list():
            return "list"
    return None
