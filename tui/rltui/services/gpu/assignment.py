"""The GPUs of a start: a component's devices, its engine, and the commands that read GPUs elsewhere."""

from __future__ import annotations

from dataclasses import replace

from rltui.base.template import render_arguments
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.report import GpuDevice
from rltui.core.runs.evals import SERVER
from rltui.services.experiment.launch import LaunchContext
from rltui.services.gpu.other_hosts import GpuCommand
from rltui.services.hosts.nodes import gpu_command


def assigned_devices(component: str, context: LaunchContext) -> tuple[GpuDevice, ...]:
    """The component's devices on this machine, as last read, in its own order."""
    return tuple(context.choose(context.gpus(component)))


def engine_of(component: str, context: LaunchContext) -> EngineMemory | None:
    """The memory use of an inference engine on this machine's devices; `None` for another component."""
    if not context.uses_devices_here(component):
        return None
    configured = context.configured_engine
    fraction = context.gpu_memory(component)
    if configured is not None and configured.component == component:
        return configured if fraction is None else replace(configured, utilization=fraction)
    if configured is not None and fraction is not None and component == SERVER:
        model = context.arguments.get(component, {}).get("model")
        return replace(configured, component=component, utilization=fraction, model=str(model or "") or None)
    if fraction is None:
        return None
    model = context.arguments.get(component, {}).get("model")
    return EngineMemory(
        component, fraction, rules=context.framework.engine.memory, model=str(model or "") or None
    )


def gpu_sources(context: LaunchContext) -> tuple[GpuCommand, ...]:
    """The commands that read other machines' GPUs: the layout's own, of nodes, of other hosts."""
    layout, tag = context.layout, context.record.tag
    label = f"{context.record.layout_file}: gpu_source"
    commands = [
        GpuCommand(
            source.name,
            render_arguments(source.command, context.values, where=f"{label} {source.name!r}"),
        )
        for source in layout.gpu_source
    ]
    names = {source.name for source in layout.gpu_source}
    for node in layout.node:
        if node.gpus and node.name not in names:
            arguments = gpu_command(node.reach, python=node.python, login=node.login, tag=tag)
            commands.append(GpuCommand(node.name, *arguments))
    on_hosts = [spec.id for spec in layout.component if spec.own_host and spec.own_host.shows_gpus]
    hosts = [host for component in on_hosts if (host := context.host(component)) is not None]
    for name, host in {host["name"]: host for host in hosts}.items():  # once, whatever runs in it
        arguments = gpu_command(host["reach"], python=host["python"], login=host["login"], tag=tag)
        commands.append(GpuCommand(name, *arguments))
    return tuple(commands)
