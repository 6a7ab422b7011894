"""Layout and config put together: what exactly to run for a component, on which port, on which GPUs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rltui.core.config_data import changed_keys, deep_leaves, edited
from rltui.core.evals import SERVER
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.devices import GpuChoice
from rltui.core.gpu.report import GpuDevice
from rltui.core.hosts import PodSpec
from rltui.core.interpreter import OWN_PYTHON
from rltui.core.knobs import KnobValue
from rltui.core.layout import PROBES, GpuSourceSpec, Layout, Ready, address_fault
from rltui.core.template import GIVEN, Missing, TemplateValue, placeholders, render, render_arguments
from rltui.core.text import whole_number
from rltui.errors import ConfigError
from rltui.frameworks.base import (
    ConfigFiles,
    Framework,
    PortKnob,
    Resolution,
    RunContext,
    ServiceCall,
    standing,
    values_of,
)
from rltui.frameworks.generic import CONFIG
from rltui.services.checkout import run_prefix, traits
from rltui.services.config.files import OfFiles
from rltui.services.gpu.cuda import (
    BY_BUS,
    DEVICE_ORDER,
    VISIBLE_DEVICES,
    Choose,
    device_numbers,
    no_devices,
    usable_devices,
    visible_devices,
)
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.kube import pod_words
from rltui.services.nodes import gpu_command, terminal_words
from rltui.services.resolved_configs import read_made
from rltui.services.runs.experiment_files import ExperimentRecord

ManualArguments = Mapping[str, str | tuple[str, ...]]
"""By name: what stands for `{given.NAME}` in the layout's entry of a manual component."""


LAST_PORT = 65535
_OVERRIDES = "{overrides}"
"""Placeholder of a layout for the options that rltui chose."""
_PROGRAMS, _LATER = "run", (CONFIG, "given.")
"""Placeholders that only a start fills, or whose lack it tells in its own words."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A component's layout entry with every placeholder filled in."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    """What the layout adds to the user's environment."""
    ready: Ready | None
    port: int | None
    ports: tuple[int, ...] = ()
    """Others that must be free where it runs."""
    metrics: str | None = None
    """URL of its Prometheus metrics."""
    gpus: GpuChoice = ""
    """Its devices, as far as layout and config say."""
    gpu_memory: float | None = None
    """Fraction of each device's memory that must be free before it starts."""
    check: tuple[str, ...] = ()
    given: ManualArguments = field(default_factory=dict)
    """What the request said that started it, where it is manual."""
    host: Mapping[str, Any] | None = None
    """Where it runs: the layout's entry for that, filled in, with its `kind`. `None`: on this machine."""


@dataclass(frozen=True, slots=True)
class _Start:
    """What the values of one start follow from, besides the config."""

    resume_step: int | None = None
    run_id: str = ""
    resolved: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Devices:
    """What a process started now would see, named in two ways."""

    by_uuid: tuple[str, ...]
    by_number: tuple[str, ...]


class Launcher:
    """Fills the layout of `record` with the values of a config. Raises `ConfigError` where it cannot."""

    def __init__(
        self,
        record: ExperimentRecord,
        layout: Layout,
        framework: Framework,
        *,
        choose: Choose = no_devices,
    ) -> None:
        """`choose` finds the devices of the newest reading."""
        self._record = record
        self._layout = layout
        self._framework = framework
        self._choose = choose
        self._engine_memory = OfFiles(framework.engine_memory)
        self._surroundings = OfFiles(self._run_context)
        self._filled_in = OfFiles(self._template_values)
        self._given: dict[str, ManualArguments] = {}

    def movable_ports(self, component: str, files: ConfigFiles, stays: Collection[str]) -> list[PortKnob]:
        """The ports of `component` for which rltui may choose others, while none that `stays` reads them."""
        automatic = [spec.id for spec in self._layout.automatic]
        return [
            item
            for item in self._framework.ports(files)
            if item.component == component and takes_options(self._layout, item)
            if not set(item.readers or automatic).difference([component]).intersection(stays)
        ]

    def chosen_port(self, item: PortKnob, files: ConfigFiles) -> int:
        """What its programs are told: what rltui has chosen, else what the config says."""
        ports, record = self._framework.ports(files), self._record
        return int(standing(ports, record.overrides, record.overridden).get(item.knob, item.port))

    def move_port(self, item: PortKnob, port: int) -> ExperimentRecord:
        """Have its programs told `port` from now on; the record that says so is to be kept."""
        self._record = replace(
            self._record,
            overrides={**self._record.overrides, item.knob: port},
            overridden={**self._record.overridden, item.knob: item.port},
        )
        self._surroundings, self._filled_in = OfFiles(self._run_context), OfFiles(self._template_values)
        return self._record

    def give(self, component: str, given: ManualArguments) -> None:
        """What `{given.NAME}` stands for in the entry of `component`, from now on."""
        self._given[component] = given

    def launch(
        self,
        component: str,
        files: ConfigFiles,
        *,
        resume_step: int | None,
        run_id: str = "",
        resolved: Mapping[str, str] = MappingProxyType({}),
    ) -> Launch:
        """What to run for `component` with the config `files`, and what was made of them for it."""
        spec = self._layout[component]
        start = _Start(resume_step, run_id, tuple(sorted(resolved.items())))
        values, given = self._values_of(component, files, start), self._given.get(component, {})
        where = self._where(component)
        for name in placeholders(self._layout[component].command):
            if name.startswith(GIVEN) and name.removeprefix(GIVEN) not in given:
                raise ConfigError(
                    f"{where}: {{{name}}} is not given", hint="it comes with the request to start it"
                )
        port = render(spec.port, values, where=where)
        housed = component if "cwd" in spec.model_fields_set else self._model(component, files)
        launch = Launch(
            argv=render_arguments(spec.command, values, where=where),
            cwd=render(self._layout[housed].cwd, self._values_of(housed, files, start), where=where),
            env=self._environment(component, files, start),
            ready=_filled(spec.ready, values, where) if spec.ready is not None else None,
            port=_port_number(port, where) if port else None,
            ports=self._ports(component, values),
            metrics=_address("metrics", render(spec.metrics, values, where=where), where) or None,
            gpus=self.gpus(component, files),
            gpu_memory=self._gpu_memory(component, files),
            check=render_arguments(spec.check, values, where=where),
            given=given,
            host=self._host(component, values),
        )
        return self._in_terminal(launch) if spec.tty else launch

    def _in_terminal(self, launch: Launch) -> Launch:
        """What leads to a node or into a pod has the terminal here, and is the component."""
        host = launch.host
        if host is None or "reach" not in host:
            return launch
        reach = pod_words(host, tty=True) if host["kind"] == "kube" else host["reach"]
        env = {**host["env"], **launch.env}
        argv = terminal_words(reach, launch.argv, cwd=launch.cwd, env=env, login=host["login"])
        return replace(launch, argv=argv, cwd=self._record.workspace, env={}, port=None, ports=(), host=None)

    def _ports(self, component: str, values: Mapping[str, TemplateValue]) -> tuple[int, ...]:
        where = self._where(component)
        texts = render_arguments(self._layout[component].ports, values, where=where)
        return tuple(_port_number(text, where) for text in texts if text)

    def _host(self, component: str, values: Mapping[str, TemplateValue]) -> Mapping[str, Any] | None:
        host = self._layout.host(component)
        if host is None:
            return None
        spec = self._layout[component]
        where = f"{self._where(component)}: {host.kind}"
        said: dict[str, Any] = {
            key: _rendered(value, values, where) for key, value in host.model_dump().items() if key != "done"
        }
        if isinstance(host, PodSpec):
            said |= {"done": host.done, "reach": pod_words(said), "login": False, "env": {}, "send_env": ()}
        forward = render_arguments(spec.forward, values, where=where)
        return {"kind": host.kind, **said, "forward": forward, "wait_s": spec.wait_s}

    def resolutions(
        self, component: str, files: ConfigFiles, *, resume_step: int | None, run_id: str
    ) -> Sequence[Resolution]:
        """What must be made of the config before `component` can be launched."""
        spec = self._layout[component]
        names = placeholders((*spec.command, *spec.env.values(), spec.cwd))
        wanted = [name.removeprefix(CONFIG) for name in names if name.startswith(CONFIG)]
        context = self._context(files, _Start(resume_step, run_id))
        return [each for each in self._framework.resolutions(files, context) if each.makes(wanted)]

    def passed(
        self, component: str, files: ConfigFiles, *, resume_step: int | None, run_id: str
    ) -> Mapping[str, Mapping[str, KnobValue]]:
        """Role → dotted key → value that `component` gets in place of what `files` say; `None`: without it.

        By options on its command line, or in the copies of the config that are made for it.
        """
        context = self._context(files, _Start(resume_step, run_id))
        found: dict[str, dict[str, KnobValue]] = {}
        for name in placeholders(self._layout[component].command):
            for role, values in self._framework.passed(name, files, context).items():
                found.setdefault(role, {}).update(values)
        wanted = self.resolutions(component, files, resume_step=resume_step, run_id=run_id)
        places = [each for each in self._framework.resolutions(files, context) if "launcher" in each.outputs]
        for resolution in (*wanted, *(places if wanted else ())):  # only the launcher's has the real folders
            for role, values in resolution.edits.items():
                found.setdefault(role, {}).update(values)
        return {role: self._differing(role, values, files) for role, values in found.items() if role in files}

    def _differing(
        self, role: str, values: Mapping[str, KnobValue], files: ConfigFiles
    ) -> Mapping[str, KnobValue]:
        """Without what is as the file or the default says, if with a whole path."""
        knobs = {knob.key: knob for knob in self._framework.knobs(files) if knob.file == role}
        known = values_of(knobs.values(), files, self._framework)
        data = files[role].data
        real = {key: value for key, value in values.items() if "{scratch}" not in str(value)}
        changes = changed_keys(deep_leaves(data), deep_leaves(edited(data, real)))
        differing = {}
        for key, (held, value) in changes.items():
            meant = known[knobs[key].name] if held is None and key in knobs else held
            if meant is None and key == "output_dir":
                meant = self._framework.output_dir(files)
            if isinstance(value, str) and isinstance(meant, str) and value.startswith("/"):
                meant = os.path.normpath(Path(self._record.workspace) / meant)
            if meant != value:
                differing[key] = value
        return differing

    def service_calls(self, files: ConfigFiles, *, resume_step: int | None) -> Sequence[ServiceCall]:
        """What living services must be told before jobs start against them."""
        return self._framework.service_calls(files, self._context(files, _Start(resume_step)))

    def context(self, files: ConfigFiles) -> RunContext:
        return self._context(files, _Start())

    def run_prefix(self, files: ConfigFiles) -> tuple[str, ...] | Missing:
        """What goes before the framework's own programs."""
        return self._context(files, _Start()).run

    def fault(self, component: str, files: ConfigFiles) -> Missing | None:
        """Why its command cannot be put together on this box, whatever is made of the config for it."""
        values = self._values(files, _Start())
        names = sorted(placeholders(self._layout[component].command))
        found = (values.get(name) for name in names if name != _PROGRAMS and not name.startswith(_LATER))
        return next((value for value in found if isinstance(value, Missing)), None)

    def port(self, component: str, files: ConfigFiles) -> int | None:
        text = self._one(component, self._layout[component].port, files)
        return _port_number(text, self._where(component)) if text else None

    def there(
        self, component: str, files: ConfigFiles
    ) -> tuple[Mapping[str, str], tuple[int, ...], tuple[str, ...]]:
        """Tell what a component that runs on a node needs there, as far as that is known before a start.

        Returns:
            What is added to its environment, its ports, and the program that its command begins with.
        """
        values = self._values_of(component, files, _Start())
        host = self._host(component, values) or {"env": {}}
        ports = self._ports(component, values)
        port = self.port(component, files)
        env = {**host["env"], **self._environment(component, files, _Start())}
        words: tuple[str, ...] = ()
        with contextlib.suppress(ConfigError):  # something of this machine is missing: a start says what
            words = render_arguments(
                self._layout[component].command[:1], values, where=self._where(component)
            )
        return env, ports if port is None else (port, *ports), words[:1]

    def gpus(self, component: str, files: ConfigFiles) -> GpuChoice:
        """The devices of this machine that it is given: what the layout's `gpus` says, else its
        `CUDA_VISIBLE_DEVICES`.
        """
        spec = self._layout[component]
        if spec.is_remote:
            return ""
        if text := self._one(component, spec.gpus, files):
            return text
        if spec.like:
            return ""
        return self._environment(component, files, _Start()).get(VISIBLE_DEVICES, "")

    def devices(self, component: str, files: ConfigFiles) -> tuple[GpuDevice, ...]:
        """Those of the devices of this machine, as last read, in the component's own order."""
        return tuple(self._choose(self.gpus(component, files)))

    def engine(self, component: str, files: ConfigFiles) -> EngineMemory | None:
        """What it does with their memory, where it is an inference engine and they are of this machine."""
        if self._layout[component].is_remote:
            return None
        named = self._engine_memory(files)
        fraction = self._gpu_memory(component, files)
        if named is not None and named.component == component:
            return named if fraction is None else replace(named, utilization=fraction)
        if named is not None and fraction is not None and component == SERVER:
            model = self._given.get(component, {}).get("model")
            return replace(named, component=component, utilization=fraction, model=str(model or "") or None)
        return None if fraction is None else EngineMemory(component, fraction)

    def gpu_sources(self, files: ConfigFiles) -> tuple[GpuCommand, ...]:
        """The commands that read other machines' GPUs: the layout's own, of nodes, of pods."""
        sources = self._layout.gpu_source
        pods = [spec for spec in self._layout.component if spec.pod is not None and spec.pod.gpus]
        values = self._values(files, _Start()) if sources or pods else {}
        named = [GpuCommand(source.name, self._source_command(source, values)) for source in sources]
        hosts = [host for spec in pods if (host := self._host(spec.id, values)) is not None]
        tag = self._record.tag
        return (*named, *_of_nodes(self._layout, tag), *_of_pods(hosts, tag))

    def creates(self, component: str, files: ConfigFiles) -> Path | None:
        """What this job makes, `None` for any other component."""
        text = self._layout[component].creates
        if not text:
            return None
        return Path(self._record.workspace) / self._one(component, text, files)

    def _source_command(self, source: GpuSourceSpec, values: Mapping[str, TemplateValue]) -> tuple[str, ...]:
        where = f"{self._record.layout_file}: gpu_source {source.name!r}"
        return render_arguments(source.command, values, where=where)

    def _gpu_memory(self, component: str, files: ConfigFiles) -> float | None:
        if self._layout[component].is_remote:
            return None
        text = self._one(component, self._layout[component].gpu_memory, files)
        return _fraction(text, self._where(component))

    def _environment(self, component: str, files: ConfigFiles, start: _Start) -> dict[str, str]:
        """What framework and layout add, the layout last. Devices are counted as NVML counts them."""
        where, model = self._where(component), self._model(component, files)
        added = {**self._framework.environment(model, files, self._context(files, start))}
        if self._layout[component].is_remote:  # it knows of the devices of this machine alone
            added.pop(VISIBLE_DEVICES, None)
        for name in dict.fromkeys((model, component)):
            values = self._values_of(name, files, start)
            env = self._layout[name].env
            added |= {key: render(value, values, where=where) for key, value in env.items()}
        if (order := added.setdefault(DEVICE_ORDER, BY_BUS)) != BY_BUS:
            raise ConfigError(
                f"{where}: env sets {DEVICE_ORDER} to {order!r}",
                hint=f"leave it out: rltui counts GPUs as nvidia-smi does, in the order {BY_BUS}",
            )
        return added

    def _model(self, component: str, files: ConfigFiles) -> str:
        """The component in whose surroundings it runs: mostly its own."""
        named = self._one(component, self._layout[component].like, files) or component
        if all(spec.id != named for spec in self._layout.component):
            raise ConfigError(f"{self._where(component)}: like is {named!r}, which is no component")
        return named

    def _one(self, component: str, text: str, files: ConfigFiles) -> str:
        if not text:
            return ""
        return render(text, self._values_of(component, files, _Start()), where=self._where(component))

    def _values_of(self, component: str, files: ConfigFiles, start: _Start) -> Mapping[str, TemplateValue]:
        """Those of the config, and what was given; empty where nothing was, as before the first start."""
        values = {**self._values(files, start), **self._layout.node_values(component)}
        names = [name for name in placeholders(self._layout[component].templates) if name.startswith(GIVEN)]
        if not names:
            return values
        given = self._given.get(component, {})
        return {**values, **{name: given.get(name.removeprefix(GIVEN), "") for name in names}}

    def _values(self, files: ConfigFiles, start: _Start) -> Mapping[str, TemplateValue]:
        return self._filled_in(files, start, self._seen())

    def _context(self, files: ConfigFiles, start: _Start) -> RunContext:
        return self._surroundings(files, start, self._seen())

    def _seen(self) -> _Devices:
        chosen = {VISIBLE_DEVICES: self._record.devices} if self._record.devices else os.environ
        return _Devices(visible_devices(self._choose, chosen), device_numbers(self._choose, chosen))

    def _template_values(
        self, files: ConfigFiles, start: _Start, seen: _Devices
    ) -> Mapping[str, TemplateValue]:
        return self._framework.template_values(files, self._surroundings(files, start, seen))

    def _run_context(self, files: ConfigFiles, start: _Start, seen: _Devices) -> RunContext:
        workspace = Path(self._record.workspace)
        checkout = self._framework.checkout
        config_files = [Path(name) for name in self._record.config_files]
        return RunContext(
            submits=self._layout.submits,
            workspace=self._record.workspace,
            output_dir=self._record.output_dir,
            run_dir=self._record.run_dir,
            name=self._record.name,
            python=OWN_PYTHON,
            run=run_prefix(checkout, workspace=workspace, config_files=config_files) if checkout else (),
            traits=traits(checkout, workspace=workspace, config_files=config_files) if checkout else None,
            run_id=start.run_id,
            resolved=dict(start.resolved),
            made={name: _made(Path(path)) for name, path in start.resolved},
            resume_step=start.resume_step,
            overrides=standing(self._framework.ports(files), self._record.overrides, self._record.overridden),
            cuda_devices=usable_devices(seen.by_uuid, python=OWN_PYTHON),
            devices=seen.by_number,
        )

    def _where(self, component: str) -> str:
        return f"{self._record.layout_file}: component {component!r}"


def takes_options(layout: Layout, item: PortKnob) -> bool:
    """Whether every component that needs the option gets it, or needs none."""
    if not item.by_option:  # a launcher may choose all ports itself
        return any(spec.port for spec in layout.automatic)
    readers = [spec for spec in layout.automatic if {spec.id, *spec.launches}.intersection(item.readers)]
    return bool(readers) and all(_OVERRIDES in spec.command for spec in readers)


def _of_nodes(layout: Layout, tag: str) -> Iterator[GpuCommand]:
    """What reads the GPUs of each node, unless a source of the layout has its name."""
    known = {source.name for source in layout.gpu_source}
    for node in layout.node:
        if node.gpus and node.name not in known:
            words = gpu_command(node.reach, python=node.python, login=node.login, tag=tag)
            yield GpuCommand(node.name, *words)


def _of_pods(hosts: Iterable[Mapping[str, Any]], tag: str) -> Iterator[GpuCommand]:
    """What reads the GPUs of each pod, once, whatever runs in it."""
    for name, host in {host["name"]: host for host in hosts}.items():
        words = gpu_command(host["reach"], python=host["python"], login=False, tag=tag)
        yield GpuCommand(name, *words)


def _rendered(value: object, values: Mapping[str, TemplateValue], where: str) -> object:
    """Every text below `value` with its placeholders filled."""
    match value:
        case str():
            return render(value, values, where=where)
        case tuple():
            return render_arguments(value, values, where=where)
        case dict():
            return {key: _rendered(item, values, where) for key, item in value.items()}
        case _:
            return value


def _filled(ready: Ready, values: Mapping[str, TemplateValue], where: str) -> Ready:
    """The probe with its placeholders filled, of several the first that they do not leave empty.

    A log pattern is a regular expression and stays as it is.
    """
    texts = {name: text for name in PROBES if (text := getattr(ready, name)) is not None}
    filled = {
        name: text if name == "log" else render(text, values, where=where) for name, text in texts.items()
    }
    meant = next((name for name, text in filled.items() if text), next(iter(filled)))
    return ready.model_copy(
        update={
            **dict.fromkeys(PROBES),
            meant: filled[meant] if meant == "log" else _address(f"ready.{meant}", filled[meant], where),
        }
    )


def _address(key: str, text: str, where: str) -> str:
    """`text` as it is.

    Raises:
        ConfigError: If it is to be an address, and is none.
    """
    name = key.rpartition(".")[2]
    if text and name != "file" and (fault := address_fault(name, text)):
        raise ConfigError(f"{where}: {key.removesuffix(name)}{fault}")
    return text


def _made(path: Path) -> Mapping[str, Any]:
    """What a file holds that was just made for a component.

    Raises:
        ConfigError: If it is gone or damaged.
    """
    try:
        held = read_made(path)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="start the component again") from error
    return held if isinstance(held, Mapping) else {}


def _fraction(text: str, where: str) -> float | None:
    """A part of a device's memory from a filled-in layout value, `None` where it is empty."""
    if not text:
        return None
    try:
        fraction = float(text)
    except ValueError:
        fraction = -1.0
    if 0 <= fraction <= 1:
        return fraction
    raise ConfigError(f"{where}: gpu_memory is {text!r}", hint="use a fraction between 0 and 1, such as 0.9")


def _port_number(text: str, where: str) -> int:
    """A port from a filled-in layout value.

    Raises:
        ConfigError: if it is none.
    """
    if (port := whole_number(text)) is not None and 0 < port < 65536:
        return port
    raise ConfigError(f"{where}: port is {text!r}, which is no port number", hint="use 1 to 65535")
