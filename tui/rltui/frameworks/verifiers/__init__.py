"""vf-rl of verifiers: vLLM with an endpoint for weights, and `vf.RLTrainer`, from one file. Until July 2026.

vf-rl itself only types the two commands into tmux: here they are components. Facts: `facts/verifiers.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rltui.base.toml.values import TomlValue
from rltui.core.config.batch import BatchKnobs, accumulation, batch_values, derived_value
from rltui.core.config.report import DerivedValue
from rltui.core.config.rules import Values
from rltui.core.config.schema import ConfigSchema
from rltui.core.metrics.bottleneck import BottleneckKnobs
from rltui.core.metrics.progress import MetricNames
from rltui.frameworks.base import Checkout, Converted, Framework, Given
from rltui.frameworks.config import ConfigModels
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFiles, Parsed
from rltui.frameworks.progress import ProgressSide
from rltui.frameworks.run_settings import RunFiles, RunSettings
from rltui.frameworks.schemas import Grammar, Names, Overlay, SchemaConfig
from rltui.frameworks.verifiers import files as vf_files
from rltui.frameworks.verifiers import log_lines, rules
from rltui.frameworks.verifiers.evaluation import evaluation_of
from rltui.frameworks.verifiers.files import ARGS, is_vf_rl
from rltui.frameworks.verifiers.launch import DATA, INSTEAD, VfRlLaunch

_NO_RESUME = "vf-train cannot resume from a checkpoint, which holds only weights"
_UTILIZATION = "inference.args.gpu_memory_utilization"
_BATCH = BatchKnobs(
    batch_size=rules.BATCH, token_batch_size="", group_size=rules.GROUP, seq_len=rules.LENGTH
)  # fmt: skip
_OVERLAY = Overlay.parse((DATA / "concepts.toml").read_text(encoding="utf-8"))
_LAST_WITH_VF_RL, _FIRST_WITHOUT = (0, 1, 9), (0, 2)


def lacking(installed: Mapping[str, str]) -> str:
    """Reason why vf-rl cannot run with the installed versions; empty if it can."""
    version = installed.get("verifiers")
    if version is None or "verifiers-rl" in installed:
        return ""
    release = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    fix = "uv add 'verifiers[rl]==0.1.9.post3' installs the last version that has it"
    if release >= _FIRST_WITHOUT:
        return f"verifiers {version} has no vf-rl: it was removed in July 2026; {fix}"
    if release > _LAST_WITH_VF_RL:
        return (
            f"verifiers {version} has vf-rl in a separate package, verifiers-rl, which is not installed;"
            f" {fix}"
        )
    if "vllm" not in installed:
        return f"verifiers {version} is installed without the extra rl: uv add 'verifiers[rl]=={version}'"
    return ""


_CHECKOUT = Checkout(
    project="verifiers",
    variable="RLTUI_VERIFIERS",
    programs=("vf-vllm", "vf-train"),
    dependents=("verifiers", "verifiers-rl"),
    lacking=lacking,
    instead=INSTEAD,
)
_MODELS = ConfigModels(
    {"rl": ("verifiers/rl/trainer/config.py:RLConfig", "verifiers_rl/rl/trainer/config.py:RLConfig")},
    sources=("verifiers/rl/trainer/config.py",),
    packages=("verifiers", "verifiers-rl", "transformers", "vllm"),
    tables={"rl": ARGS},
    file_schema=vf_files.file_schema_of,
)
_FILES = RunFiles(
    metrics=(),
    checkpoints="",
    checkpoint_prefix="checkpoint-",
    checkpoint_marker="trainer_state.json",
    no_resume=_NO_RESUME,
    artifacts=("checkpoint-*", "runs"),
    stale_after_resume=(),
)


def _role(_: str, data: Mapping[str, Any]) -> str | None:
    return "rl" if is_vf_rl(data) else None


def _fit(parsed: Parsed) -> int | None:
    """0 for its files: no other framework has them."""
    return 0 if [_role(path, data) for path, data in parsed] == ["rl"] else None


def _following(_: ConfigFiles, values: Values, __: Names) -> Mapping[str, TomlValue]:
    """Defaults as vf-rl and `RLConfig` compute them."""
    gpus, tensor = values.get("inference.gpus"), values.get(rules.TENSOR) or 1
    defaults: dict[str, TomlValue] = {}
    if isinstance(gpus, int) and gpus > 1:
        defaults["inference.args.data_parallel_size"] = max(1, gpus // tensor)
    if isinstance(name := values.get(f"{ARGS}.run_name"), str):
        defaults[f"{ARGS}.output_dir"] = f"outputs/{name}"
    return defaults


def _derived(_: ConfigFiles, v: Values, __: Names) -> Iterator[DerivedValue]:
    yield from batch_values(v, _BATCH, max_tokens=rules.ANSWER)
    yield accumulation(v, batch=rules.BATCH, micro=rules.MICRO, name="micro-batches per optimizer step")
    yield derived_value(
        "longest answer", v[rules.ANSWER] or v[rules.LENGTH], "tokens",
        "" if v[rules.ANSWER] else f"{rules.ANSWER} is not set, so it equals {rules.LENGTH}",
    )  # fmt: skip


def _grammar(schemas: Mapping[str, ConfigSchema]) -> Grammar:
    return Grammar(
        reader="vf-rl",
        overlay=_OVERLAY,
        namespaces={"rl": ""},
        schema=lambda file: schemas.get(file.role) or vf_files.snapshot(),  # that of the last release
        free=frozenset({"env.args"}),
        rules=lambda _: rules.rules(),
        following=_following,
        derived=_derived,
        batch_knobs=lambda *_: _BATCH,
        bottleneck_knobs=lambda *_: BottleneckKnobs(  # rollouts are always one batch ahead of the training
            in_flight=f"{ARGS}.max_concurrent",
            kv_memory=_UTILIZATION,
            sequences="inference.args.max_num_seqs",
        ),
        advice=lambda _, values: rules.advice(values),
    )


def _convert(config: SchemaConfig, files: ConfigFiles, to: Framework) -> Converted | None:
    from rltui.frameworks.verifiers.conversion import to_prime_rl  # only who converts needs it

    values = config.sound_values(files)
    return None if values is None else to_prime_rl(files["rl"], values, to)


def _make(given: Given) -> Framework:
    config = SchemaConfig(_grammar(given.schemas))
    launch, title = VfRlLaunch(config), "vf-rl (verifiers until July 2026)"
    return Framework(
        id="verifiers",
        title=title,
        layouts={"rl": "verifiers"},
        run_roles=frozenset({"trainer"}),
        checkout=_CHECKOUT,
        progress=ProgressSide(
            MetricNames(reward="reward", trainer_step="loss", tokens_per_s="", step_time="time/step"),
            log_lines.FACTS,
            log_lines.StepLines().row,
            log_marks=(log_lines.MARK,),
            log_redraws=True,
        ),
        failures=log_lines.FAILURES,
        signs=("checkpoint-*",),
        conversions=dict.fromkeys(("prime-rl", "prime-rl-merged"), partial(_convert, config)),
        config=replace(
            config.side, role=_role, fit=_fit, is_certain=True, required=(frozenset({"rl"}),), models=_MODELS
        ),
        launch=launch.side,
        run=RunSettings(
            files=lambda _: _FILES,
            output_dir=partial(config.sound_text, name=f"{ARGS}.output_dir"),
            max_steps=partial(config.sound_count, name=f"{ARGS}.max_steps"),
            checkpoint_interval=partial(config.sound_count, name=f"{ARGS}.save_steps"),
            seed_keys=(f"{ARGS}.seed",),
        ),
        gpu_needs=GpuNeeds(
            count=lambda _: 2,  # inference and trainer cannot share one
            engine=launch.engine,
        ),
        evaluation=evaluation_of(config, title),
        given=given,
        make=_make,
    )


VF_RL = _make(Given())
