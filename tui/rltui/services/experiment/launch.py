"""Combines layout and config: the command of a component, its ports, its GPUs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rltui.base.interpreter import OWN_PYTHON
from rltui.base.template import GIVEN, Missing, TemplateValue, placeholders, render, render_arguments
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.layout import PROBES, Layout, Ready, address_fault
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.devices import NO_DEVICES, GpuChoice
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import CONFIG, PortKnob, Resolution, ServiceCall, standing
from rltui.paths import ATTEMPT_SPEC
from rltui.services.config.files import FilesCache
from rltui.services.experiment.checkout import NearbyCheckout
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.ports import port_number
from rltui.services.experiment.resolved_configs import read_document
from rltui.services.gpu.cuda import BY_BUS, DEVICE_ORDER, VISIBLE_DEVICES, Choose, no_devices, uses_cuda
from rltui.services.hosts.nodes import terminal_argv
from rltui.services.own_files import read_own

ManualArguments = Mapping[str, str | tuple[str, ...]]
"""Name → value of `{given.NAME}` in the layout's entry of a manual component."""
_PROGRAMS, _START_PLACEHOLDERS = "run", (CONFIG, "given.")
"""Placeholders that only a start fills, or whose absence it reports itself."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A component's layout entry with every placeholder filled in."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    """Variables that are added to the user's environment."""
    ready: Ready | None
    port: int | None
    ports: tuple[int, ...] = ()
    """Further ports that must be free where it runs."""
    metrics: str | None = None
    """URL of its Prometheus metrics."""
    gpus: GpuChoice = ""
    """The component's devices, as far as layout and config say."""
    devices: int = 0
    """Number of the GPUs of this machine that it sees."""
    gpu_memory: float | None = None
    """Fraction of each device's memory that must be free before it starts."""
    check: tuple[str, ...] = ()
    by: Actor | None = None
    """Who started it; `None`: unknown."""
    given: ManualArguments = field(default_factory=dict)
    """Arguments of the request that started a manual component."""
    host: Mapping[str, Any] | None = None
    """The host entry of the layout, filled in, with its `kind`. `None`: this machine."""

    @property
    def spec(self) -> dict[str, Any]:
        """The keys of `ATTEMPT_SPEC` that `read_launch` reads."""
        return {
            "argv": self.argv,
            "cwd": self.cwd,
            "env": dict(self.env),
            "ready": self.ready.model_dump(exclude_none=True) if self.ready else None,
            "port": self.port,
            "ports": self.ports,
            "metrics": self.metrics,
            "gpus": {"text": self.gpus},
            "devices": self.devices,
            "gpu_memory": self.gpu_memory,
            "given": dict(self.given),
            "by": None if self.by is None else self.by.fields,
        }

    @property
    def all_ports(self) -> tuple[int, ...]:
        """The ports that must be free where it runs, its main one first."""
        return self.ports if self.port is None else (self.port, *self.ports)

    @property
    def local_ports(self) -> tuple[int, ...]:
        """The ports of this machine that must be free before it starts: its own, or those that lead to it."""
        if self.host is None:
            return self.all_ports
        return tuple(int(port.partition(":")[0]) for port in self.host["forward"])


def read_launch(folder: Path) -> Launch | None:
    """The launch that an attempt was started with; `None` where that was never written or is damaged."""
    try:
        values = json.loads(read_own(folder / ATTEMPT_SPEC))
        ready, remote_spec = values["ready"], values.get("elsewhere")
        run = values if remote_spec is None else remote_spec
        return Launch(
            argv=tuple(run["argv"]),
            cwd=run["cwd"],
            env=run["env"],
            ready=Ready(**ready) if ready else None,
            port=values["port"],
            ports=tuple(values.get("ports", ())),
            metrics=values.get("metrics"),
            gpus=values.get("gpus", {}).get("text", ""),  # one from before an upgrade has none
            devices=int(values.get("devices", 0)),
            gpu_memory=values.get("gpu_memory"),
            by=None if values.get("by") is None else Actor.from_plain(values["by"]),
            given={
                name: value if isinstance(value, str) else tuple(value)
                for name, value in values.get("given", {}).items()
            },
            host=None if remote_spec is None else remote_spec["host"],
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError, AttributeError):
        return None


@dataclass(frozen=True)
class LaunchContext:
    """The values of a start, made once, and what follows from them for each component of the layout.

    Its methods raise `ConfigError` if an entry of the layout cannot be filled in.
    """

    record: ExperimentRecord
    layout: Layout
    framework: Framework
    files: ConfigFiles
    run_context: RunContext
    arguments: Mapping[str, ManualArguments]
    """Component → values of `{given.NAME}` in its entry."""
    choose: Choose
    """Finds the devices of the newest reading."""

    # --- what an entry is filled in with ---

    @cached_property
    def values(self) -> Mapping[str, TemplateValue]:
        """Values of placeholders that all components share."""
        return self.framework.launch.template_values(self.files, self.run_context)

    @cached_property
    def configured_engine(self) -> EngineMemory | None:
        """The inference server that the config describes."""
        return self.framework.gpu_needs.engine(self.files)

    def values_of(self, component: str) -> Mapping[str, TemplateValue]:
        """Return the template values of one component; arguments that are missing, as before its first
        start, are empty.
        """
        values = {**self.values, **self.layout.node_values(component)}
        names = [name for name in placeholders(self.layout[component].templates) if name.startswith(GIVEN)]
        given = self.arguments.get(component, {})
        return {**values, **{name: given.get(name.removeprefix(GIVEN), "") for name in names}}

    def label(self, component: str) -> str:
        """Name of its entry in errors."""
        return f"{self.record.layout_file}: component {component!r}"

    def render(self, component: str, text: str) -> str:
        return render(text, self.values_of(component), where=self.label(component)) if text else ""

    def render_list(self, component: str, texts: tuple[str, ...]) -> tuple[str, ...]:
        """The same of several, each of which may become several, or none."""
        return render_arguments(texts, self.values_of(component), where=self.label(component))

    # --- what follows ---

    def launch(self, component: str) -> Launch:
        """Fill in every placeholder of a component's entry in the layout."""
        spec, values, label = self.layout[component], self.values_of(component), self.label(component)
        given = self.arguments.get(component, {})
        for name in placeholders(spec.command):
            if name.startswith(GIVEN) and name.removeprefix(GIVEN) not in given:
                raise ConfigError(
                    f"{label}: {{{name}}} is not set", hint=f"a request to start {component} must set it"
                )
        cwd_owner = component if "cwd" in spec.model_fields_set else self._environment_owner(component)
        launch = Launch(
            argv=self.render_list(component, spec.command),
            cwd=render(self.layout[cwd_owner].cwd, self.values_of(cwd_owner), where=label),
            env=self.environment(component),
            ready=_render_probe(spec.ready, values, label) if spec.ready is not None else None,
            port=self.port(component),
            ports=self.ports(component),
            metrics=_checked_address("metrics", render(spec.metrics, values, where=label), label) or None,
            gpus=self.gpus(component),
            gpu_memory=self.gpu_memory(component),
            check=self.render_list(component, spec.check),
            given=given,
            host=self.host(component),
        )
        return self._with_terminal(component, launch) if spec.tty else launch

    def _with_terminal(self, component: str, launch: Launch) -> Launch:
        """The command that leads to a node or into a pod gets the terminal here, and is the component."""
        spec, host = self.layout.host(component), launch.host
        reach = None if spec is None or host is None else spec.terminal_reach(host)
        if host is None or reach is None:
            return launch
        env = {**host["env"], **launch.env}
        argv = terminal_argv(
            reach, launch.argv, cwd=launch.cwd, env=env, send_env=host["send_env"], login=host["login"]
        )
        return replace(launch, argv=argv, cwd=self.record.workspace, env={}, port=None, ports=(), host=None)

    def host(self, component: str) -> Mapping[str, Any] | None:
        """The host entry of the layout, filled in; `None`: this machine."""
        host = self.layout.host(component)
        if host is None:
            return None
        spec, values = self.layout[component], self.values_of(component)
        label = f"{self.label(component)}: {host.kind}"
        entry = host.entry(lambda value: _render_all(value, values, label))
        forward = render_arguments(spec.forward, values, where=label)
        return {**entry, "forward": forward, "wait_s": spec.wait_s}

    def port(self, component: str) -> int | None:
        text = self.render(component, self.layout[component].port)
        return port_number(text, self.label(component)) if text else None

    def ports(self, component: str) -> tuple[int, ...]:
        """Further ports that must be free where it runs."""
        texts = self.render_list(component, self.layout[component].ports)
        return tuple(port_number(text, self.label(component)) for text in texts if text)

    def gpus(self, component: str) -> GpuChoice:
        """The devices of this machine that it is assigned: the layout's `gpus`, else its
        `CUDA_VISIBLE_DEVICES`.
        """
        spec = self.layout[component]
        if not self.uses_devices_here(component):
            return ""
        if text := self.render(component, spec.gpus):
            return text
        return "" if spec.like else self.environment(component).get(VISIBLE_DEVICES, "")

    def uses_devices_here(self, component: str) -> bool:
        """False if it runs on another machine, whose devices are its host's concern."""
        return not self.layout[component].is_remote

    def gpu_memory(self, component: str) -> float | None:
        """Fraction of each device's memory that must be free before it starts."""
        if not self.uses_devices_here(component):
            return None
        return _fraction(self.render(component, self.layout[component].gpu_memory), self.label(component))

    def creates(self, component: str) -> Path | None:
        """The path that this job creates, `None` for any other component."""
        text = self.layout[component].creates
        return Path(self.record.workspace) / self.render(component, text) if text else None

    def environment(self, component: str) -> dict[str, str]:
        """Variables of framework and layout, the layout last. Devices are numbered as by NVML."""
        label, model = self.label(component), self._environment_owner(component)
        variables = {**self.framework.launch.environment(model, self.files, self.run_context)}
        if not self.uses_devices_here(component):  # it knows of the devices of this machine alone
            variables.pop(VISIBLE_DEVICES, None)
        elif self.record.devices == NO_DEVICES:
            variables[VISIBLE_DEVICES] = ""
        for name in dict.fromkeys((model, component)):
            values = self.values_of(name)
            variables |= {
                key: render(value, values, where=label) for key, value in self.layout[name].env.items()
            }
        if (order := variables.setdefault(DEVICE_ORDER, BY_BUS)) != BY_BUS:
            raise ConfigError(
                f"{label}: env sets {DEVICE_ORDER} to {order!r}",
                hint=f"remove it: rltui numbers GPUs as nvidia-smi does ({BY_BUS})",
            )
        return variables

    def _environment_owner(self, component: str) -> str:
        """The component in whose environment it runs: mostly itself."""
        owner = self.render(component, self.layout[component].like) or component
        if all(spec.id != owner for spec in self.layout.component):
            raise ConfigError(f"{self.label(component)}: like names {owner!r}, which is not a component")
        return owner

    def missing_value(self, component: str) -> Missing | None:
        """The reason why its command cannot be built on this box, whatever is resolved from the config."""
        names = sorted(placeholders(self.layout[component].command))
        used = (
            self.values.get(name)
            for name in names
            if name != _PROGRAMS and not name.startswith(_START_PLACEHOLDERS)
        )
        return next((value for value in used if isinstance(value, Missing)), None)

    # --- what its programs get of the config ---

    @cached_property
    def all_resolutions(self) -> Sequence[Resolution]:
        return self.framework.launch.resolutions(self.files, self.run_context)

    def resolutions(self, component: str) -> Sequence[Resolution]:
        """The resolutions of the config that `component` needs before its launch."""
        spec = self.layout[component]
        names = placeholders((*spec.command, *spec.env.values(), spec.cwd))
        wanted = [name.removeprefix(CONFIG) for name in names if name.startswith(CONFIG)]
        return [resolution for resolution in self.all_resolutions if resolution.makes(wanted)]

    def service_calls(self) -> Sequence[ServiceCall]:
        """Calls to running services before jobs start against them."""
        return self.framework.launch.service_calls(self.files, self.run_context)


def run_context_of(record: ExperimentRecord, framework: Framework, files: ConfigFiles) -> RunContext:
    """Make the context of a run from its record."""
    return RunContext(
        workspace=record.workspace,
        output_dir=record.output_dir,
        run_dir=record.run_dir,
        name=record.name,
        python=OWN_PYTHON,
        overrides=standing(framework.launch.ports(files), record.overrides, record.overridden),
    )


class Launcher:
    """Makes the context of a start from an experiment, its layout and a config."""

    def __init__(
        self, record: ExperimentRecord, layout: Layout, framework: Framework, *, choose: Choose = no_devices
    ) -> None:
        """`choose` finds the devices of the newest reading."""
        self._record = record
        self._layout = layout
        self._framework = framework
        self._choose = choose
        self._arguments: dict[str, ManualArguments] = {}
        self._contexts = FilesCache(self._context)

    def move_port(self, item: PortKnob, port: int) -> ExperimentRecord:
        """Use `port` for its programs from now on; the caller must store the returned record."""
        self._record = replace(
            self._record,
            overrides={**self._record.overrides, item.knob: port},
            overridden={**self._record.overridden, item.knob: item.port},
        )
        self._contexts = FilesCache(self._context)
        return self._record

    def assign(self, component: str, arguments: ManualArguments) -> None:
        """Set the values of `{given.NAME}` in the entry of `component`."""
        self._arguments[component] = arguments
        self._contexts = FilesCache(self._context)

    def context(
        self,
        files: ConfigFiles,
        *,
        resume_step: int | None = None,
        run_id: str = "",
        resolved: Mapping[str, str] = MappingProxyType({}),
    ) -> LaunchContext:
        """The context of a start with the config `files`, and the files that were resolved from them, by
        name.
        """
        devices = self._choose(self._record.devices or os.environ.get(VISIBLE_DEVICES))
        return self._contexts(
            files,
            resume_step,
            run_id,
            tuple(sorted(resolved.items())),
            tuple((device.uuid or device.label, device.as_choice) for device in devices),
        )

    def _context(
        self,
        files: ConfigFiles,
        resume_step: int | None,
        run_id: str,
        resolved: tuple[tuple[str, str], ...],
        devices: tuple[tuple[str, str], ...],
    ) -> LaunchContext:
        """`devices`: those that a process started now would see as `cuda:0`, `cuda:1` …, each by its UUID, or
        what else `CUDA_VISIBLE_DEVICES` names it by, and by NVML's number, for programs that take no UUID;
        slices have their UUID.
        """
        spec, record = self._framework.checkout, self._record
        checkout = (
            None
            if spec is None
            else NearbyCheckout(spec, workspace=Path(record.workspace), config_files=record.config_paths)
        )
        run_context = replace(
            run_context_of(record, self._framework, files),
            submits=self._layout.submits,
            run=checkout.run_prefix() if checkout else (),
            traits=checkout.traits() if checkout else None,
            run_id=run_id,
            resolved=dict(resolved),
            made={name: _read_resolved(Path(path)) for name, path in resolved},
            resume_step=resume_step,
            cuda_devices=tuple(name for name, _ in devices) if devices and uses_cuda(OWN_PYTHON) else (),
            devices=tuple(number for _, number in devices),
        )
        return LaunchContext(
            record, self._layout, self._framework, files, run_context, dict(self._arguments), self._choose
        )


def _render_all(value: object, values: Mapping[str, TemplateValue], label: str) -> object:
    """Fill the placeholders in every string below `value`."""
    match value:
        case str():
            return render(value, values, where=label)
        case tuple():
            return render_arguments(value, values, where=label)
        case dict():
            return {key: _render_all(item, values, label) for key, item in value.items()}
        case _:
            return value


def _render_probe(ready: Ready, values: Mapping[str, TemplateValue], label: str) -> Ready:
    """Fill the placeholders of the probe; of several probes, keep the first that is not empty.

    A log pattern is a regular expression and stays as it is.
    """
    probe_texts = {name: text for name in PROBES if (text := getattr(ready, name)) is not None}
    filled = {
        name: text if name == "log" else render(text, values, where=label)
        for name, text in probe_texts.items()
    }
    selected = next((name for name, text in filled.items() if text), next(iter(filled)))
    return ready.model_copy(
        update={
            **dict.fromkeys(PROBES),
            selected: filled[selected]
            if selected == "log"
            else _checked_address(f"ready.{selected}", filled[selected], label),
        }
    )


def _checked_address(key: str, text: str, label: str) -> str:
    """Check an address and return it.

    Raises:
        ConfigError: If it has to be an address, and is none.
    """
    name = key.rpartition(".")[2]
    if text and name != "file" and (problem := address_fault(name, text)):
        raise ConfigError(f"{label}: {key.removesuffix(name)}{problem}")
    return text


def _read_resolved(path: Path) -> Mapping[str, Any]:
    """Content of a file that was just resolved for a component.

    Raises:
        ConfigError: If it is gone or damaged.
    """
    try:
        document = read_document(path)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="start the component again") from error
    return document if isinstance(document, Mapping) else {}


def _fraction(text: str, label: str) -> float | None:
    """A fraction of a device's memory from a filled-in layout value, `None` if it is empty."""
    if not text:
        return None
    try:
        fraction = float(text)
    except ValueError:
        fraction = -1.0
    if 0 <= fraction <= 1:
        return fraction
    raise ConfigError(f"{label}: gpu_memory is {text!r}", hint="use a fraction between 0 and 1, such as 0.9")
