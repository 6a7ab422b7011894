"""Values for the placeholders of a layout that runs tinyrl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from rltui.core.gpu.budget import EngineMemory
from rltui.core.knobs import KnobValue
from rltui.core.template import Missing, TemplateValue
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import ConfigFiles, PortKnob, RunContext
from rltui.frameworks.tinyrl.configs import CONFIGS

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104

_PORT = "inference.server.port"
UTILIZATION = "inference.gpu_memory_utilization"
_USED = ("ckpt.resume_step", "model.name", _PORT, "inference.server.host", UTILIZATION)


def template_values(files: ConfigFiles, context: RunContext) -> Mapping[str, TemplateValue]:
    """`config.rl`, `config.sft`, `model_path`, `port.inference`, `gpus.<id>`, `gpu_memory.<id>`, `resume` …

    Every program of the engine computes on the first device that torch sees, and the orchestrator on none.
    """
    values = {name: CONFIGS.sound_value(files, name) for name in _USED} | dict(context.overrides)
    resume = _resume(values["ckpt.resume_step"], context)
    return {
        "python": context.python,
        "workspace": context.workspace,
        "output_dir": context.output_dir,
        "resume": () if resume is None else ("--ckpt.resume-step", str(resume)),
        "overrides": tuple(
            word for name, value in context.overrides.items() for word in (f"--{name}", str(value))
        ),
        "model_path": _model_path(values["model.name"], context.workspace),
        "port.inference": str(values[_PORT]),
        "host.inference": _reachable(values["inference.server.host"]),
        "gpus.orchestrator": "",
        **dict.fromkeys(("gpus.inference", "gpus.trainer", "gpus.sft"), "".join(context.cuda_devices[:1])),
        "gpu_memory.inference": str(values[UTILIZATION]) if context.cuda_devices else "",
        "config.rl": files["rl"].path,
        "config.sft": _sft_config(files),
    }


def passed(
    placeholder: str, files: ConfigFiles, context: RunContext
) -> Mapping[str, Mapping[str, KnobValue]]:
    """What the options behind a placeholder set in `rl.toml`."""
    named = CONFIGS.sound_value(files, "ckpt.resume_step")
    values: Mapping[str, Mapping[str, KnobValue]] = {
        "output_dir": {"output_dir": context.output_dir},
        "overrides": context.overrides,
        "resume": {"ckpt.resume_step": _resume(named, context)},
    }
    return {"rl": values[placeholder]} if placeholder in values and "rl" in files else {}


def _resume(named: TomlValue, context: RunContext) -> int | None:
    """The checkpoint to continue from; a step that the config names is only overruled by another, or by 0."""
    if context.resume_step is None and named is not None:
        return 0
    return context.resume_step


def engine_memory(files: ConfigFiles) -> EngineMemory | None:
    """What the inference server takes on a CUDA device, where it follows vLLM; `None` for faulty values."""
    names = (UTILIZATION, "inference.model.max_model_len", "inference.max_num_seqs")
    utilization, max_model_len, max_num_seqs = (CONFIGS.sound_value(files, name) for name in names)
    if utilization is None or max_model_len is None or max_num_seqs is None:
        return None
    return EngineMemory(
        "inference",
        utilization,
        utilization_knob=UTILIZATION,
        model=CONFIGS.sound_value(files, "model.name"),
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        dtype="float32",
        enforce_eager=True,
    )


def ports(files: ConfigFiles) -> tuple[PortKnob, ...]:
    """The port of the inference server, unless the config gives its address a second time."""
    port = CONFIGS.sound_value(files, _PORT)
    if port is None or CONFIGS.values(files).get("orchestrator.client.base_url") is not None:
        return ()
    return (PortKnob("inference", _PORT, port, CONFIGS.overlay.readers_of(_PORT)),)


def _sft_config(files: ConfigFiles) -> TemplateValue:
    if "sft" in files:
        return files["sft"].path
    return Missing(
        "there is no sft.toml to make the model with",
        hint="add sft.toml beside the config, or let model.name point to a model that exists",
    )


def _model_path(name: TomlValue, workspace: str) -> TemplateValue:
    if not isinstance(name, str) or not name:
        return Missing("the config names no model", hint='set [model] name = "outputs/reverse-text-sft"')
    return str(PurePath(workspace) / name)


def _reachable(host: TomlValue) -> str:
    """An address at which a server that listens on `host` answers."""
    return _EVERY_INTERFACE.get(host or "", f"[{host}]" if ":" in str(host) else str(host))
