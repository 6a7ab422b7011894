"""Which devices a component is given, and what its engine takes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.frameworks import answering

from rltui.base.template import Missing, TemplateValue
from rltui.core.experiment.layout import ComponentSpec, Layout
from rltui.core.gpu.budget import EngineMemory
from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.report import GpuDevice
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.engines.vllm import VLLM
from rltui.frameworks.generic import GENERIC
from rltui.frameworks.inputs import ConfigFile, ConfigFiles, RunContext
from rltui.frameworks.launch import Resolution
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launcher
from rltui.services.gpu.assignment import assigned_devices, engine_of, gpu_sources
from rltui.services.gpu.cuda import DEVICE_ORDER

DEVICES = tuple(GpuDevice(index=index, uuid=f"GPU-{index}f00", name="NVIDIA L4") for index in range(3))


def choose(choice: GpuChoice) -> Sequence[GpuDevice]:
    return chosen_devices(choice, DEVICES)


def launcher(folder: Path, **values: object) -> Launcher:
    spec = ComponentSpec.model_validate({"id": "serve", "command": ["x"], **values})
    record = ExperimentRecord("one", str(folder), str(folder), (), "parts.toml", "generic", 1.0)
    return Launcher(record, Layout(component=(spec,)), GENERIC, choose=choose)


@pytest.mark.parametrize(
    ("values", "indices"),
    [
        ({}, []),
        ({"gpus": "2,0"}, [2, 0]),
        ({"gpus": "GPU-1f"}, [1]),
        ({"env": {"CUDA_VISIBLE_DEVICES": "1"}}, [1]),
        ({"gpus": "0", "env": {"CUDA_VISIBLE_DEVICES": "1"}}, [0]),
        ({"env": {"CUDA_VISIBLE_DEVICES": ""}}, []),
        ({"gpus": "7"}, []),
    ],
)
def test_devices_are_those_of_the_layout(
    tmp_path: Path, values: dict[str, object], indices: list[int]
) -> None:
    found = assigned_devices("serve", launcher(tmp_path, **values).context({}))
    assert [device.index for device in found] == indices


def test_components_count_devices_as_nvml_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEVICE_ORDER, "FASTEST_FIRST")
    plain = launcher(tmp_path, env={"CUDA_VISIBLE_DEVICES": "0"})
    assert plain.context({}).launch("serve").env[DEVICE_ORDER] == "PCI_BUS_ID"
    assert plain.context({}).gpus("serve") == "0"
    other = launcher(tmp_path, env={DEVICE_ORDER: "FASTEST_FIRST"})
    with pytest.raises(ConfigError, match="env sets CUDA_DEVICE_ORDER to 'FASTEST_FIRST'"):
        other.context({}).launch("serve")


def test_fraction_makes_an_engine(tmp_path: Path) -> None:
    assert engine_of("serve", launcher(tmp_path, gpus="0").context({})) is None
    engine = engine_of("serve", launcher(tmp_path, gpus="0", gpu_memory="0.4").context({}))
    assert engine == EngineMemory("serve", 0.4, rules=VLLM.memory)
    with pytest.raises(ConfigError, match=r"component 'serve': gpu_memory is '1\.5'"):
        engine_of("serve", launcher(tmp_path, gpus="0", gpu_memory="1.5").context({}))


def test_commands_know_the_run_folder_and_the_name(tmp_path: Path) -> None:
    spec = ComponentSpec(id="serve", command=("x", "{run_dir}", "{name}"))
    record = ExperimentRecord(
        "one", str(tmp_path), str(tmp_path), (), "parts.toml", "generic", 1.0, run_dir=f"{tmp_path}/run"
    )
    launch = Launcher(record, Layout(component=(spec,)), GENERIC).context({}).launch("serve")
    assert launch.argv == ("x", f"{tmp_path}/run", "one")


def test_gpus_of_nodes_and_pods_are_read_unless_a_source_has_their_name(tmp_path: Path) -> None:
    reach = {"reach": ["ssh", "x"]}
    pod = {"name": "pod-0", "context": "{name}", "gpus": True}
    layout = Layout.model_validate(
        {
            "gpu_source": [{"name": "node-1", "command": ["cat", "{workspace}/report"]}],
            "node": [
                {"name": "node-1", **reach},
                {"name": "node-2", **reach},
                {"name": "node-3", **reach, "gpus": False},
            ],
            "component": [
                {"id": "a", "command": ["x"], "pod": pod},
                {"id": "b", "command": ["x"], "pod": pod},
                {"id": "c", "command": ["x"], "pod": {"name": "pod-1"}},
            ],
        }
    )
    record = ExperimentRecord("one", str(tmp_path), str(tmp_path), (), "parts.toml", "generic", 1.0)
    own, node, in_pod = gpu_sources(Launcher(record, layout, GENERIC).context({}))
    assert (own.name, own.command, own.stdin) == ("node-1", ("cat", f"{tmp_path}/report"), b"")
    assert (node.name, node.command[0]) == ("node-2", "ssh")
    assert (in_pod.name, in_pod.command[:2]) == ("pod-0", ("kubectl", "--context=one"))


def of_framework(folder: Path, framework: Framework, *command: str) -> Launcher:
    spec = ComponentSpec.model_validate({"id": "serve", "command": command, "env": {"B": "layout"}})
    record = ExperimentRecord("one", str(folder), str(folder), (), "parts.toml", "x", 1.0)
    return Launcher(record, Layout(component=(spec,)), framework, choose=choose)


def test_environment_of_the_framework_comes_before_that_of_the_layout(tmp_path: Path) -> None:
    own = answering(GENERIC, environment=lambda component, files, context: {"A": component, "B": "framework"})
    environment = of_framework(tmp_path, own, "x").context({}).launch("serve").env
    assert (environment["A"], environment["B"]) == ("serve", "layout")


def test_programs_of_their_own_get_devices_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        return {"workspace": "/", "devices": ",".join(context.devices)}

    own = answering(GENERIC, template_values=values)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert of_framework(tmp_path, own, "{devices}").context({}).launch("serve").argv == ("2,0",)


def test_a_run_without_devices_computes_on_the_cpu(tmp_path: Path) -> None:
    """`--devices none`: torch would take the first GPU where nothing hides it."""
    made = of_framework(tmp_path, GENERIC, "x")
    assert "CUDA_VISIBLE_DEVICES" not in made.context({}).launch("serve").env
    spec = ComponentSpec(id="serve", command=("x",))
    record = ExperimentRecord("one", str(tmp_path), str(tmp_path), (), "parts.toml", "x", 1.0, devices="none")
    none = Launcher(record, Layout(component=(spec,)), GENERIC, choose=choose)
    assert none.context({}).launch("serve").env["CUDA_VISIBLE_DEVICES"] == ""
    assert assigned_devices("serve", none.context({})) == ()


def test_the_embedded_engine_computes_on_the_devices_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--devices 2` was told to the account of the GPUs alone: torch took the first that it saw."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("rltui.services.experiment.launch.uses_cuda", lambda python: True)
    files = {"rl": ConfigFile("rl", str(tmp_path / "rl.toml"), {"trainer": {}})}
    spec = [
        ComponentSpec(id=name, command=("x",), gpus=f"{{gpus.{name}}}")
        for name in ("orchestrator", "trainer")
    ]
    record = ExperimentRecord("one", str(tmp_path), str(tmp_path), (), "parts.toml", "x", 1.0, devices="2")
    made = Launcher(record, Layout(component=tuple(spec)), TINYRL, choose=choose)
    trainer, orchestrator = (made.context(files).launch(name) for name in ("trainer", "orchestrator"))
    assert trainer.env["CUDA_VISIBLE_DEVICES"] == trainer.gpus == DEVICES[2].uuid
    assert orchestrator.env["CUDA_VISIBLE_DEVICES"] == orchestrator.gpus == ""


def test_only_what_the_layout_asks_for_is_resolved(tmp_path: Path) -> None:
    def resolutions(files: ConfigFiles, context: RunContext) -> tuple[Resolution, ...]:
        note = f"{context.resume_step} {context.run_id}"
        return tuple(Resolution(edits={}, outputs={name: (name,)}, notes=(note,)) for name in ("a", "b"))

    own = answering(GENERIC, resolutions=resolutions)
    found = (
        of_framework(tmp_path, own, "x", "{config.b}")
        .context({}, resume_step=3, run_id="i")
        .resolutions("serve")
    )
    assert [(list(one.outputs), one.notes) for one in found] == [(["b"], ("3 i",))]
    assert of_framework(tmp_path, own, "x").context({}).resolutions("serve") == []


@pytest.mark.parametrize(
    ("port", "file", "asked"),
    [("h:1", "", ("h:1", None)), ("", "/a/address", (None, "/a/address")), ("h:1", "/a", ("h:1", None))],
)
def test_of_several_probes_the_first_counts_that_is_filled_in(
    tmp_path: Path, port: str, file: str, asked: tuple[str | None, str | None]
) -> None:
    own = answering(
        GENERIC, template_values=lambda files, context: {"workspace": "/", "tcp": port, "file": file}
    )
    spec = ComponentSpec.model_validate(
        {"id": "serve", "command": ["x"], "ready": {"tcp": "{tcp}", "file": "{file}", "timeout_s": 7}}
    )
    record = ExperimentRecord("one", str(tmp_path), str(tmp_path), (), "parts.toml", "x", 1.0)
    ready = Launcher(record, Layout(component=(spec,)), own).context({}).launch("serve").ready
    assert ready is not None
    assert (ready.tcp, ready.file, ready.timeout_s) == (*asked, 7)


def test_framework_knows_what_was_made_for_a_start(tmp_path: Path) -> None:
    def values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        return {"workspace": "/", "where": str(context.made.get("env", {}).get("address_file"))}

    launcher = of_framework(tmp_path, answering(GENERIC, template_values=values), "{where}")
    made = tmp_path / "env.json"
    made.write_text('{"address_file": "/x/a.address"}')
    launch = launcher.context({}, resolved={"env": str(made)}).launch("serve")
    assert launch.argv == ("/x/a.address",)
    made.write_text("{")
    with pytest.raises(ConfigError, match=r"env\.json cannot be read"):
        launcher.context({}, resume_step=4, resolved={"env": str(made)}).launch("serve")


def test_a_component_runs_in_the_surroundings_of_the_one_that_it_is_like(tmp_path: Path) -> None:
    trainer = {"id": "trainer", "command": ["x"], "cwd": "/data", "gpus": "1"}
    env = {"CUDA_VISIBLE_DEVICES": "1", "A": "{name}", "B": "2"}
    shell = {"id": "shell", "command": ["{given.command}"], "start": "manual", "like": "{given.like}"}
    record = ExperimentRecord("one", str(tmp_path), str(tmp_path), (), "parts.toml", "generic", 1.0)
    layout = Layout.model_validate({"component": [{**trainer, "env": env}, {**shell, "env": {"B": "3"}}]})
    made = Launcher(record, layout, GENERIC, choose=choose)
    assert assigned_devices("shell", made.context({})) == (), "nothing was given yet"
    made.assign("shell", {"like": "trainer", "command": ("sh", "-l")})
    launch = made.context({}).launch("shell")
    assert (launch.argv, launch.cwd, launch.gpus) == (("sh", "-l"), "/data", "")
    assert launch.env == {"CUDA_VISIBLE_DEVICES": "1", "A": "one", "B": "3", DEVICE_ORDER: "PCI_BUS_ID"}
    made.assign("shell", {"like": "nobody", "command": "sh"})
    with pytest.raises(ConfigError, match="component 'shell': like names 'nobody', which is not a component"):
        made.context({}).launch("shell")


def test_devices_of_the_experiment_are_all_that_it_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--devices 2`; and why a command cannot be put together for them is known before it is."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    seen: list[tuple[str, ...]] = []

    def values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
        seen.append(context.devices)
        fault = Missing("it takes the first GPU", hint="take that") if context.devices != ("0",) else "0"
        return {"gpus": fault, "run": Missing("nowhere"), "config.x": Missing("made later")}

    framework = answering(GENERIC, template_values=values)
    spec = ComponentSpec(id="serve", command=("{run}", "{config.x}", "{gpus}"))
    record = ExperimentRecord("one", str(tmp_path), str(tmp_path), (), "parts.toml", "x", 1.0)
    for devices, first in (("", ("0", "1", "2")), ("2", ("2",)), ("0", ("0",))):
        layout, chosen = Layout(component=(spec,)), replace(record, devices=devices)
        fault = Launcher(chosen, layout, framework, choose=choose).context({}).missing_value("serve")
        assert seen[-1] == first
        assert (fault is None) == (devices == "0")
