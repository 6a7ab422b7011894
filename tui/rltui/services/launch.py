"""Combines layout and config: the command of a component, its ports, its GPUs."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rltui.core.config_data import apply_edits, changed_keys, deep_leaves
from rltui.core.evals import SERVER
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.devices import NO_DEVICES, GpuChoice
from rltui.core.gpu.report import GpuDevice
from rltui.core.interpreter import OWN_PYTHON
from rltui.core.knobs import KnobValue
from rltui.core.layout import PROBES, Layout, Ready, address_fault
from rltui.core.template import GIVEN, Missing, TemplateValue, placeholders, render, render_arguments
from rltui.core.text import parse_whole_number
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.launch import CONFIG, PortKnob, Resolution, ServiceCall, standing
from rltui.services.checkout import NearbyCheckout
from rltui.services.config.files import FilesCache
from rltui.services.gpu.cuda import BY_BUS, DEVICE_ORDER, VISIBLE_DEVICES, Choose, no_devices, uses_cuda
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.host_entries import filled_entry, shows_gpus, terminal_reach
from rltui.services.nodes import gpu_command, terminal_argv
from rltui.services.own_files import read_own
from rltui.services.resolved_configs import read_document
from rltui.services.runs.experiment_files import ExperimentRecord

ManualArguments = Mapping[str, str | tuple[str, ...]]
"""Name → value of `{given.NAME}` in the layout's entry of a manual component."""


LAST_PORT = 65535
SPEC_FILE = "spec.json"
"""The shim's input in the folder of an attempt, from which others learn how it was started."""
_OVERRIDES = "{overrides}"
"""Placeholder of a layout for the options that rltui chose."""
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
    gpu_memory: float | None = None
    """Fraction of each device's memory that must be free before it starts."""
    check: tuple[str, ...] = ()
    given: ManualArguments = field(default_factory=dict)
    """Arguments of the request that started a manual component."""
    host: Mapping[str, Any] | None = None
    """The host entry of the layout, filled in, with its `kind`. `None`: this machine."""

    @property
    def local_ports(self) -> tuple[int, ...]:
        """The ports of this machine that must be free before it starts: its own, or those that lead to it."""
        if self.host is None:
            return tuple(port for port in (self.port, *self.ports) if port is not None)
        return tuple(int(port.partition(":")[0]) for port in self.host["forward"])


def read_launch(folder: Path) -> Launch | None:
    """The launch that an attempt was started with; `None` where that was never written or is damaged."""
    try:
        values = json.loads(read_own(folder / SPEC_FILE))
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
            gpu_memory=values.get("gpu_memory"),
            given={
                name: value if isinstance(value, str) else tuple(value)
                for name, value in values.get("given", {}).items()
            },
            host=None if remote_spec is None else remote_spec["host"],
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class _Start:
    """Inputs of one start besides the config."""

    resume_step: int | None = None
    run_id: str = ""
    resolved: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Devices:
    """The devices `cuda:0`, `cuda:1` … that a process started now would see, named in two ways."""

    by_uuid: tuple[str, ...]
    """UUIDs, or what else `CUDA_VISIBLE_DEVICES` names them by."""
    by_number: tuple[str, ...]
    """NVML's numbers, for programs that take no UUID; slices have their UUID."""


class Launcher:
    """Fills the layout of `record` with the values of a config. Raises `ConfigError` if it cannot."""

    def __init__(
        self, record: ExperimentRecord, layout: Layout, framework: Framework, *, choose: Choose = no_devices
    ) -> None:
        """`choose` finds the devices of the newest reading."""
        self._record = record
        self._layout = layout
        self._framework = framework
        self._choose = choose
        self._engine_memory = FilesCache(framework.gpu_needs.engine)
        self._run_contexts = FilesCache(self._run_context)
        self._template_cache = FilesCache(self._template_values)
        self._arguments: dict[str, ManualArguments] = {}

    def movable_ports(self, component: str, files: ConfigFiles, stays: Collection[str]) -> list[PortKnob]:
        """The ports of `component` that rltui may change, since no component in `stays` reads them."""
        automatic = [spec.id for spec in self._layout.automatic]
        return [
            item
            for item in self._framework.launch.ports(files)
            if item.component == component and takes_options(self._layout, item)
            if not set(item.readers or automatic).difference([component]).intersection(stays)
        ]

    def chosen_port(self, item: PortKnob, files: ConfigFiles) -> int:
        """The port that its programs get: rltui's choice, else the config's."""
        ports, record = self._framework.launch.ports(files), self._record
        return int(standing(ports, record.overrides, record.overridden).get(item.knob, item.port))

    def move_port(self, item: PortKnob, port: int) -> ExperimentRecord:
        """Use `port` for its programs from now on; the caller must store the returned record."""
        self._record = replace(
            self._record,
            overrides={**self._record.overrides, item.knob: port},
            overridden={**self._record.overridden, item.knob: item.port},
        )
        self._run_contexts = FilesCache(self._run_context)
        self._template_cache = FilesCache(self._template_values)
        return self._record

    def assign(self, component: str, arguments: ManualArguments) -> None:
        """Set the values of `{given.NAME}` in the entry of `component`."""
        self._arguments[component] = arguments

    def launch(
        self,
        component: str,
        files: ConfigFiles,
        *,
        resume_step: int | None,
        run_id: str = "",
        resolved: Mapping[str, str] = MappingProxyType({}),
    ) -> Launch:
        """The launch of `component` with the config `files`, and the files that were resolved from them."""
        spec = self._layout[component]
        start = _Start(resume_step, run_id, tuple(sorted(resolved.items())))
        values, arguments = self._values_of(component, files, start), self._arguments.get(component, {})
        label = self._component_label(component)
        for name in placeholders(spec.command):
            if name.startswith(GIVEN) and name.removeprefix(GIVEN) not in arguments:
                raise ConfigError(
                    f"{label}: {{{name}}} is not set", hint=f"a request to start {component} must set it"
                )
        port = render(spec.port, values, where=label)
        cwd_owner = component if "cwd" in spec.model_fields_set else self._environment_owner(component, files)
        launch = Launch(
            argv=render_arguments(spec.command, values, where=label),
            cwd=render(self._layout[cwd_owner].cwd, self._values_of(cwd_owner, files, start), where=label),
            env=self._environment(component, files, start),
            ready=_render_probe(spec.ready, values, label) if spec.ready is not None else None,
            port=_port_number(port, label) if port else None,
            ports=self._ports(component, values),
            metrics=_checked_address("metrics", render(spec.metrics, values, where=label), label) or None,
            gpus=self.gpus(component, files),
            gpu_memory=self._gpu_memory(component, files),
            check=render_arguments(spec.check, values, where=label),
            given=arguments,
            host=self._host(component, values),
        )
        return self._with_terminal(launch) if spec.tty else launch

    def _with_terminal(self, launch: Launch) -> Launch:
        """The command that leads to a node or into a pod gets the terminal here, and is the component."""
        host = launch.host
        reach = None if host is None else terminal_reach(host)
        if host is None or reach is None:
            return launch
        env = {**host["env"], **launch.env}
        argv = terminal_argv(reach, launch.argv, cwd=launch.cwd, env=env, login=host["login"])
        return replace(launch, argv=argv, cwd=self._record.workspace, env={}, port=None, ports=(), host=None)

    def _ports(self, component: str, values: Mapping[str, TemplateValue]) -> tuple[int, ...]:
        label = self._component_label(component)
        port_texts = render_arguments(self._layout[component].ports, values, where=label)
        return tuple(_port_number(text, label) for text in port_texts if text)

    def _host(self, component: str, values: Mapping[str, TemplateValue]) -> Mapping[str, Any] | None:
        host = self._layout.host(component)
        if host is None:
            return None
        spec = self._layout[component]
        label = f"{self._component_label(component)}: {host.kind}"
        entry = filled_entry(host, lambda value: _render_all(value, values, label))
        forward = render_arguments(spec.forward, values, where=label)
        return {**entry, "forward": forward, "wait_s": spec.wait_s}

    def resolutions(
        self, component: str, files: ConfigFiles, *, resume_step: int | None, run_id: str
    ) -> Sequence[Resolution]:
        """The resolutions of the config that `component` needs before its launch."""
        spec = self._layout[component]
        names = placeholders((*spec.command, *spec.env.values(), spec.cwd))
        names_wanted = [name.removeprefix(CONFIG) for name in names if name.startswith(CONFIG)]
        context = self._context(files, _Start(resume_step, run_id))
        return [
            resolution
            for resolution in self._framework.launch.resolutions(files, context)
            if resolution.makes(names_wanted)
        ]

    def passed(
        self, component: str, files: ConfigFiles, *, resume_step: int | None, run_id: str
    ) -> Mapping[str, Mapping[str, KnobValue]]:
        """Role → dotted key → value that `component` gets in place of what `files` say; `None`: without it.

        Passed by options on its command line, or in the copies of the config that are made for it.
        """
        context = self._context(files, _Start(resume_step, run_id))
        by_role: dict[str, dict[str, KnobValue]] = {}
        for name in placeholders(self._layout[component].command):
            for role, values in self._framework.launch.passed(name, files, context).items():
                by_role.setdefault(role, {}).update(values)
        resolutions = self.resolutions(component, files, resume_step=resume_step, run_id=run_id)
        launcher_resolutions = [
            resolution
            for resolution in self._framework.launch.resolutions(files, context)
            if "launcher" in resolution.outputs
        ]
        # only the launcher's has the real folders
        for resolution in (*resolutions, *(launcher_resolutions if resolutions else ())):
            for role, values in resolution.edits.items():
                by_role.setdefault(role, {}).update(values)
        return {
            role: self._without_defaults(role, values, files)
            for role, values in by_role.items()
            if role in files
        }

    def _without_defaults(
        self, role: str, values: Mapping[str, KnobValue], files: ConfigFiles
    ) -> Mapping[str, KnobValue]:
        """Drop values that equal the file or the default, compared as absolute paths."""
        knobs = {knob.key: knob for knob in self._framework.config.knobs(files) if knob.file == role}
        effective = self._framework.config.values_of(knobs.values(), files)
        data = files[role].data
        real = {key: value for key, value in values.items() if "{scratch}" not in str(value)}
        changes = changed_keys(deep_leaves(data), deep_leaves(apply_edits(data, real)))
        differing = {}
        for key, (set_value, value) in changes.items():
            intended = effective[knobs[key].name] if set_value is None and key in knobs else set_value
            if intended is None and key == "output_dir":
                intended = self._framework.run.output_dir(files)
            if isinstance(value, str) and isinstance(intended, str) and value.startswith("/"):
                intended = os.path.normpath(Path(self._record.workspace) / intended)
            if intended != value:
                differing[key] = value
        return differing

    def service_calls(self, files: ConfigFiles, *, resume_step: int | None) -> Sequence[ServiceCall]:
        """Calls to running services before jobs start against them."""
        return self._framework.launch.service_calls(files, self._context(files, _Start(resume_step)))

    def context(self, files: ConfigFiles) -> RunContext:
        return self._context(files, _Start())

    def missing_value(self, component: str, files: ConfigFiles) -> Missing | None:
        """The reason why its command cannot be built on this box, whatever is resolved from the config."""
        values = self._values(files, _Start())
        names = sorted(placeholders(self._layout[component].command))
        used = (
            values.get(name)
            for name in names
            if name != _PROGRAMS and not name.startswith(_START_PLACEHOLDERS)
        )
        return next((value for value in used if isinstance(value, Missing)), None)

    def port(self, component: str, files: ConfigFiles) -> int | None:
        text = self._render(component, self._layout[component].port, files)
        return _port_number(text, self._component_label(component)) if text else None

    def node_requirements(
        self, component: str, files: ConfigFiles
    ) -> tuple[Mapping[str, str], tuple[int, ...], tuple[str, ...]]:
        """Requirements of a component on a node, as far as they are known before a start.

        Returns:
            Variables to add to its environment, its ports, and the program of its command.
        """
        values = self._values_of(component, files, _Start())
        host = self._host(component, values) or {"env": {}}
        ports = self._ports(component, values)
        port = self.port(component, files)
        env = {**host["env"], **self._environment(component, files, _Start())}
        program: tuple[str, ...] = ()
        with contextlib.suppress(ConfigError):  # something of this machine is missing: a start says what
            program = render_arguments(
                self._layout[component].command[:1], values, where=self._component_label(component)
            )
        return env, ports if port is None else (port, *ports), program[:1]

    def gpus(self, component: str, files: ConfigFiles) -> GpuChoice:
        """The devices of this machine that it is assigned: the layout's `gpus`, else its
        `CUDA_VISIBLE_DEVICES`.
        """
        spec = self._layout[component]
        if spec.is_remote:
            return ""
        if text := self._render(component, spec.gpus, files):
            return text
        if spec.like:
            return ""
        return self._environment(component, files, _Start()).get(VISIBLE_DEVICES, "")

    def devices(self, component: str, files: ConfigFiles) -> tuple[GpuDevice, ...]:
        """The component's devices on this machine, as last read, in its own order."""
        return tuple(self._choose(self.gpus(component, files)))

    def engine(self, component: str, files: ConfigFiles) -> EngineMemory | None:
        """The memory use of an inference engine on this machine's devices; `None` for another component."""
        if self._layout[component].is_remote:
            return None
        configured = self._engine_memory(files)
        fraction = self._gpu_memory(component, files)
        if configured is not None and configured.component == component:
            return configured if fraction is None else replace(configured, utilization=fraction)
        if configured is not None and fraction is not None and component == SERVER:
            model = self._arguments.get(component, {}).get("model")
            return replace(
                configured, component=component, utilization=fraction, model=str(model or "") or None
            )
        return (
            None
            if fraction is None
            else EngineMemory(component, fraction, rules=self._framework.engine.memory)
        )

    def gpu_sources(self, files: ConfigFiles) -> tuple[GpuCommand, ...]:
        """The commands that read other machines' GPUs: the layout's own, of nodes, of other hosts."""
        sources = self._layout.gpu_source
        on_hosts = [spec for spec in self._layout.component if shows_gpus(self._layout.host(spec.id))]
        values = self._values(files, _Start()) if sources or on_hosts else {}
        label, tag = f"{self._record.layout_file}: gpu_source", self._record.tag
        commands = [
            GpuCommand(
                source.name, render_arguments(source.command, values, where=f"{label} {source.name!r}")
            )
            for source in sources
        ]
        names = {source.name for source in sources}
        for node in self._layout.node:
            if node.gpus and node.name not in names:
                arguments = gpu_command(node.reach, python=node.python, login=node.login, tag=tag)
                commands.append(GpuCommand(node.name, *arguments))
        hosts = [host for spec in on_hosts if (host := self._host(spec.id, values)) is not None]
        for name, host in {host["name"]: host for host in hosts}.items():  # once, whatever runs in it
            arguments = gpu_command(host["reach"], python=host["python"], login=False, tag=tag)
            commands.append(GpuCommand(name, *arguments))
        return tuple(commands)

    def creates(self, component: str, files: ConfigFiles) -> Path | None:
        """The path that this job creates, `None` for any other component."""
        text = self._layout[component].creates
        if not text:
            return None
        return Path(self._record.workspace) / self._render(component, text, files)

    def _gpu_memory(self, component: str, files: ConfigFiles) -> float | None:
        if self._layout[component].is_remote:
            return None
        text = self._render(component, self._layout[component].gpu_memory, files)
        return _fraction(text, self._component_label(component))

    def _environment(self, component: str, files: ConfigFiles, start: _Start) -> dict[str, str]:
        """Variables of framework and layout, the layout last. Devices are numbered as by NVML."""
        label, model = self._component_label(component), self._environment_owner(component, files)
        variables = {**self._framework.launch.environment(model, files, self._context(files, start))}
        if self._layout[component].is_remote:  # it knows of the devices of this machine alone
            variables.pop(VISIBLE_DEVICES, None)
        elif self._record.devices == NO_DEVICES:
            variables[VISIBLE_DEVICES] = ""
        for name in dict.fromkeys((model, component)):
            values = self._values_of(name, files, start)
            env = self._layout[name].env
            variables |= {key: render(value, values, where=label) for key, value in env.items()}
        if (order := variables.setdefault(DEVICE_ORDER, BY_BUS)) != BY_BUS:
            raise ConfigError(
                f"{label}: env sets {DEVICE_ORDER} to {order!r}",
                hint=f"remove it: rltui numbers GPUs as nvidia-smi does ({BY_BUS})",
            )
        return variables

    def _environment_owner(self, component: str, files: ConfigFiles) -> str:
        """The component in whose environment it runs: mostly itself."""
        owner = self._render(component, self._layout[component].like, files) or component
        if all(spec.id != owner for spec in self._layout.component):
            raise ConfigError(
                f"{self._component_label(component)}: like names {owner!r}, which is not a component"
            )
        return owner

    def _render(self, component: str, text: str, files: ConfigFiles) -> str:
        if not text:
            return ""
        return render(
            text, self._values_of(component, files, _Start()), where=self._component_label(component)
        )

    def _values_of(self, component: str, files: ConfigFiles, start: _Start) -> Mapping[str, TemplateValue]:
        """Values of the config and given arguments; these are empty if missing, as before the first start."""
        values = {**self._values(files, start), **self._layout.node_values(component)}
        names = [name for name in placeholders(self._layout[component].templates) if name.startswith(GIVEN)]
        if not names:
            return values
        arguments = self._arguments.get(component, {})
        return {**values, **{name: arguments.get(name.removeprefix(GIVEN), "") for name in names}}

    def _values(self, files: ConfigFiles, start: _Start) -> Mapping[str, TemplateValue]:
        return self._template_cache(files, start, self._visible_devices())

    def _context(self, files: ConfigFiles, start: _Start) -> RunContext:
        return self._run_contexts(files, start, self._visible_devices())

    def _visible_devices(self) -> _Devices:
        devices = self._choose(self._record.devices or os.environ.get(VISIBLE_DEVICES))
        return _Devices(
            tuple(device.uuid or device.label for device in devices),
            tuple(device.as_choice for device in devices),
        )

    def _template_values(
        self, files: ConfigFiles, start: _Start, visible: _Devices
    ) -> Mapping[str, TemplateValue]:
        return self._framework.launch.template_values(files, self._run_contexts(files, start, visible))

    def _run_context(self, files: ConfigFiles, start: _Start, visible: _Devices) -> RunContext:
        spec, record = self._framework.checkout, self._record
        checkout = (
            None
            if spec is None
            else NearbyCheckout(spec, workspace=Path(record.workspace), config_files=record.config_paths)
        )
        return RunContext(
            submits=self._layout.submits,
            workspace=record.workspace,
            output_dir=record.output_dir,
            run_dir=record.run_dir,
            name=record.name,
            python=OWN_PYTHON,
            run=checkout.run_prefix() if checkout else (),
            traits=checkout.traits() if checkout else None,
            run_id=start.run_id,
            resolved=dict(start.resolved),
            made={name: _read_resolved(Path(path)) for name, path in start.resolved},
            resume_step=start.resume_step,
            overrides=standing(self._framework.launch.ports(files), record.overrides, record.overridden),
            cuda_devices=visible.by_uuid if visible.by_uuid and uses_cuda(OWN_PYTHON) else (),
            devices=visible.by_number,
        )

    def _component_label(self, component: str) -> str:
        return f"{self._record.layout_file}: component {component!r}"


def takes_options(layout: Layout, item: PortKnob) -> bool:
    """True if every component that needs the option gets it, or none needs it."""
    if not item.by_option:  # a launcher may choose all ports itself
        return any(spec.port for spec in layout.automatic)
    readers = [spec for spec in layout.automatic if {spec.id, *spec.launches}.intersection(item.readers)]
    return bool(readers) and all(_OVERRIDES in spec.command for spec in readers)


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


def _port_number(text: str, label: str) -> int:
    """A port from a filled-in layout value.

    Raises:
        ConfigError: if it is none.
    """
    if (port := parse_whole_number(text)) is not None and 0 < port <= LAST_PORT:
        return port
    raise ConfigError(f"{label}: port is {text!r}, which is not a port number", hint="use 1 to 65535")
