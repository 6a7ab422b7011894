"""med-lm-train of MedARC: prime-rl of spring 2026 inside a project with a launcher, `medarc_train`.

Its config files are prime-rl's, and only their location, or that of the run, tells them apart. By parts it is
run like prime-rl, in the environment of the project; the layouts `medarc-train` and `medarc-train-sft` run
the launcher. Its behaviour is described in `facts/prime-rl.md`, med-lm-train.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rltui.base.template import Missing, TemplateValue
from rltui.frameworks.answers import no
from rltui.frameworks.base import Checkout
from rltui.frameworks.inputs import ConfigFiles, RunContext
from rltui.frameworks.prime_rl import configs, framework, generation, ports
from rltui.frameworks.prime_rl.values import count, is_table

_OPTION, _READS_DUMP, _HAS_DUMP = "--config", "launcher reads dump_config", "config has dump_config"
_MOST_TRAIN, _MOST_INFER, _MOST = 4, 7, 8
"""GPUs that the launcher takes for RL; for SFT up to `_MOST`."""
_BY_PARTS = "leave out --layout; rltui then runs the parts itself"

CHECKOUT = Checkout(
    project="medarc-rl",
    variable="RLTUI_MEDARC",
    programs=("medarc_train", "inference", "orchestrator", "sft", "torchrun"),
    generations=(
        (f"prime-rl/{generation.CHECKOUT.generations[0][0]}", configs.CURRENT),
        ("medarc_rl/medarc_train.py", "medarc"),
    ),
    merges_tables=f"prime-rl/{generation.CHECKOUT.merges_tables}",
    traits=(
        (_OPTION, "medarc_rl/medarc_train.py", '"--config"'),
        (_READS_DUMP, "medarc_rl/launchers/rl_local.py", "config.dump_config"),
        (_HAS_DUMP, "prime-rl/src/prime_rl/configs/rl.py", "dump_config"),
    ),
)
_NO_CHECKOUT = Missing(
    "no checkout of med-lm-train found: how medarc_train reads a config depends on the release",
    hint=f"name its folder: --workspace FOLDER, or export {CHECKOUT.variable}=FOLDER",
)
_BROKEN = Missing(
    "medarc_train rl of this checkout cannot start: it reads dump_config, which its pinned prime-rl no"
    " longer has (AttributeError)",
    hint=f"{_BY_PARTS}; or update med-lm-train",
)
_NO_SERVER = Missing(
    "medarc_train reserves a GPU for inference although the config has no [inference] table, and exits",
    hint=_BY_PARTS,
)
_NCCL = Missing(
    "medarc_train --single-gpu rejects weights over NCCL",
    hint=f'set weight_broadcast.type = "filesystem", or {_BY_PARTS}',
)


def _values(
    files: ConfigFiles, context: RunContext, values: Mapping[str, TemplateValue]
) -> Mapping[str, TemplateValue]:
    """`gpu_count.sft`; and for medarc_train `medarc.option`, which precedes the config file in some releases,
    and `medarc.gpus`, its options for devices.
    """
    if "sft" not in files:
        return {"medarc.gpus": _rl_gpus(files["rl"].data, values), **_option(context, is_rl=True)}
    requested = max(1, count(files["sft"].data, "deployment.num_gpus", 1))
    devices = context.devices[:requested]
    lack = None
    if devices and len(devices) != requested:
        lack = Missing(
            f"the config asks for {requested} GPUs; available: {len(devices)}",
            hint="lower deployment.num_gpus, or make more GPUs visible with CUDA_VISIBLE_DEVICES",
        )
    gpus = lack or _not_the_first(devices) or _too_many(requested, _MOST) or ("--gpus", str(requested))
    return {"gpu_count.sft": lack or str(requested), "medarc.gpus": gpus, **_option(context)}


def _option(context: RunContext, *, is_rl: bool = False) -> Mapping[str, TemplateValue]:
    traits = context.traits
    if traits is None:
        return {"medarc.option": _NO_CHECKOUT}
    if is_rl and _READS_DUMP in traits and _HAS_DUMP not in traits:
        return {"medarc.option": _BROKEN}
    return {"medarc.option": ("--config",) if _OPTION in traits else ()}


def _rl_gpus(data: Mapping[str, Any], values: Mapping[str, TemplateValue]) -> TemplateValue:
    """Device options that match prime-rl's own split."""
    inference, trainer = values["gpus.inference"], values["gpus.trainer"]
    if isinstance(inference, Missing) or isinstance(trainer, Missing):
        return inference
    if not is_table(data, "inference"):
        return _NO_SERVER
    if trainer and inference == trainer:
        is_nccl = ports.transport(_GENERATION, data, ports.WEIGHTS) == "nccl"
        return _NCCL if is_nccl else _not_the_first([str(trainer)]) or ("--single-gpu",)
    counts = {role: count(data, f"deployment.num_{role}_gpus", 1) for role in ("train", "infer")}
    devices = [name for name in f"{inference},{trainer}".split(",") if name]
    return (
        _not_the_first(devices)
        or _too_many(counts["train"], _MOST_TRAIN)
        or _too_many(counts["infer"], _MOST_INFER)
        or _too_many(sum(counts.values()), _MOST)
        or tuple(argument for role, number in counts.items() for argument in (f"--{role}-gpus", str(number)))
    )


def _not_the_first(devices: Sequence[str]) -> Missing | None:
    """The launcher overwrites CUDA_VISIBLE_DEVICES, so only the first devices are possible."""
    if list(devices) == [str(number) for number in range(len(devices))]:
        return None
    return Missing(
        f"medarc_train cannot use GPU {', '.join(devices)}: it always takes the first"
        f" {len(devices)} of the machine, whatever is visible",
        hint=_BY_PARTS,
    )


def _too_many(requested: int, most: int) -> Missing | None:
    return (
        None
        if requested <= most
        else Missing(f"medarc_train uses at most {most} GPUs there, not {requested}", _BY_PARTS)
    )


_GENERATION = replace(
    generation.MERGED,
    id="medarc",
    title="med-lm-train (prime-rl of spring 2026)",
    schemas_until="2026-05",
    is_contained=True,
    layouts={"rl": "prime-rl-merged", "sft": "medarc-sft"},
    cluster_layouts={"rl": "medarc-slurm", "sft": "medarc-sft-slurm"},
    signs=(),
    checkout=CHECKOUT,
    models=replace(
        generation.MERGED.models,
        sources=tuple(f"prime-rl/{pattern}" for pattern in generation.MERGED.models.sources),
    ),
    job_on_one_gpu=("--single-gpu",),
    further_values=_values,
    merges_deeply=no,
)
MEDARC = framework(_GENERATION)
