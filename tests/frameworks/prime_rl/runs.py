"""Configs and surroundings for the tests of how each generation is run."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltui.base.template import render, render_arguments
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, RunContext
from rltui.services.experiment import layout_files

DATA = Path(__file__).parents[2] / "data" / "prime_rl"
CONTEXT = RunContext("/w", "/w/out", "/py", name="one", run=("uv", "run"), run_id="abc")


def files(generation: str, **named: str) -> ConfigFiles:
    """The example files `role="name.toml"` of a generation."""
    tables = {role: tomllib.loads((DATA / generation / name).read_text()) for role, name in named.items()}
    return of(**tables)


def of(**data: dict[str, Any]) -> ConfigFiles:
    """Files of these contents, by role."""
    return {role: ConfigFile(role, f"/c/{role}.toml", content) for role, content in data.items()}


def of_text(text: str) -> ConfigFiles:
    """A merged file of that content."""
    return of(rl=tomllib.loads(text))


def with_devices(*devices: str) -> RunContext:
    return replace(CONTEXT, devices=devices)


def commands(framework: Framework, layout: str, configs: ConfigFiles, context: RunContext) -> dict[str, str]:
    """The shipped layout with every placeholder filled, by component; also ports, probes, URLs."""
    spec_file = layout_files.find(layout)
    filled = layout_files.with_instances(
        layout_files.load(spec_file), framework.launch.instances(configs), spec_file
    )
    made = {
        name: f"/m/{name}"
        for resolution in framework.launch.resolutions(configs, context)
        for output in resolution.outputs
        for name in ([f"{output}.reverse-text"] if resolution.is_many(output) else [output])
    }
    values = framework.launch.template_values(configs, replace(context, resolved=made))
    for spec in filled.automatic:
        for text in (
            spec.port,
            spec.gpus,
            spec.gpu_memory,
            spec.metrics,
            (spec.ready and spec.ready.http) or "",
        ):
            render(text, values, where=spec.id)
    return {
        spec.id: " ".join(render_arguments(spec.command, values, where=spec.id)) for spec in filled.automatic
    }
