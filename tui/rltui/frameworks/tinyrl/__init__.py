"""The embedded engine: three processes on one merged `rl.toml`, and `sft.toml` for the warm-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.core.config.batch import accumulation, batch_values
from rltui.core.config.data import value_at
from rltui.core.config.report import DerivedValue
from rltui.core.config.rules import Values, scaled
from rltui.core.config.schema import ConfigSchema
from rltui.core.logs.failure_cause import Confidence, FailurePattern
from rltui.core.metrics.bottleneck import BottleneckKnobs
from rltui.frameworks.base import Framework, Given
from rltui.frameworks.failures import COMMON
from rltui.frameworks.gpu_needs import GpuNeeds
from rltui.frameworks.inputs import ConfigFiles, Parsed
from rltui.frameworks.progress import ProgressSide, TitleFact
from rltui.frameworks.run_settings import RunFiles, RunSettings
from rltui.frameworks.schemas import Grammar, Names, Overlay, SchemaConfig
from rltui.frameworks.tinyrl.evaluation import evaluation_of
from rltui.frameworks.tinyrl.launch import PAIR, TinyRlLaunch
from rltui.tinyrl.rules import BATCH, SHARED, following, rl_rules, sft_rules

if TYPE_CHECKING:
    from pydantic import BaseModel

_PARTS = ("orchestrator", "trainer", "inference")
_SFT_DATA = frozenset({"seq_len", "batch_size", "micro_batch_size"})
_SIGNS = ("seed", "inference.max_num_seqs", "data.min_chars", "data.max_chars", "data.give_up_frac")
_ANSWER = "orchestrator.sampling.max_tokens"
_CONCEPTS = (resources.files(__package__) / "data" / "concepts.toml").read_text(encoding="utf-8")

_ENGINE = Path(__file__).parents[2] / "tinyrl"
_GRADERS = tuple(str(_ENGINE / name) for name in ("language.py", "rollouts.py", "evaluation.py"))

_REFUSALS = (
    r"^(?:[^\n:]*/)?(?P<what>(?:[\w.-]+\.toml|command line)(?::\d+:\d+)?: [^\n]+)$",
    r"^(?P<what>(?:unexpected argument `|`@|unknown program `)[^\n]+)$",
    r"^(?P<what>model\.name = [^\n]+ is not a model folder[^\n]*)$",
    r"^(?P<what>inference\.model\.max_model_len = [^\n]+)$",
    r"^(?P<what>ckpt\.resume_step = \d+: no complete checkpoint[^\n]*)$",
    r"^(?P<what>\S+: only Qwen3 models with tied embeddings[^\n]*)$",
    r"^(?P<what>the embedded engine needs [^\n]+)$",
    r"^(?P<what>the inference server on \S+ serves [^\n]*not model\.name[^\n]*)$",
)
"""Messages of one line on stderr, with exit code 1, and 2 for its usage."""
_LAST_WORDS = FailurePattern(
    "F_TINYRL",
    r"^(?!\d\d:\d\d:\d\d |usage: |\(\w+ pid=|(?:DEBUG|INFO|WARNING|ERROR)\b)(?P<what>\S[^\n]*)\Z",
    "{what}",
    weight=Confidence.GENERIC,
    last_words=True,
)
"""The last line, unless it is one of the log's: the message of `TinyrlError`."""


_FAILURES = (
    *(
        FailurePattern(
            "F_TINYRL_CONFIG", refusal, "config error: {what}", hopeless=True, code="config_rejected"
        )
        for refusal in _REFUSALS
    ),
    *COMMON,
    _LAST_WORDS,
)
_PROGRESS = ProgressSide(
    facts=(
        TitleFact("orchestrator", "time/step", "{:.1f} s/step"),
        TitleFact("orchestrator", "train/agg/effective/agent/reward/mean", "reward {:.3f}"),
        TitleFact("trainer", "loss/mean", "loss {:.3f}"),
    )
)


@cache
def _schemas() -> Mapping[str, ConfigSchema]:
    """Role → schema. The models are imported on first use: that takes a while."""
    from rltui.tinyrl.config import RlConfig, SftConfig

    models: Mapping[str, type[BaseModel]] = {"rl": RlConfig, "sft": SftConfig}
    return {role: ConfigSchema(model.model_json_schema(), none=None) for role, model in models.items()}


_FILES = RunFiles(
    checkpoint_parts=tuple(f"checkpoints/step_{{step}}/{half}" for half in sorted(PAIR)),
    stale_after_resume=("checkpoints", "rollouts", "broadcasts", "weights"),
)


def _role(_: str, data: Mapping[str, Any]) -> str | None:
    """`rl` for a merged file, `sft` for the file of the warm-up."""
    table = data.get("data")
    if isinstance(table, dict) and _SFT_DATA & table.keys():
        return "sft"
    return "rl" if any(key in data for key in _PARTS) else None


def _fit(parsed: Parsed) -> int | None:
    """Knobs that only tinyrl has distinguish its files from those of prime-rl."""
    roles = [_role(path, data) for path, data in parsed]
    is_own = any(value_at(data, key) is not None for _, data in parsed for key in _SIGNS)
    return 0 if is_own and None not in roles and len(set(roles)) == len(roles) else None


def _derived(files: ConfigFiles, values: Values, _: Names) -> Iterator[DerivedValue]:
    if "rl" in files:
        yield from batch_values(values, BATCH, max_tokens=_ANSWER)
    if "sft" in files:
        batch, micro = "sft.data.batch_size", "sft.data.micro_batch_size"
        yield accumulation(values, batch=batch, micro=micro, name="sft micro-batches per optimizer step")


def _advice(files: ConfigFiles, values: Values) -> Mapping[str, str]:
    if "rl" not in files:
        return {}
    slower = f"in this config: {scaled('trainer.optim.lr', values, 0.5)}"
    return {
        **dict.fromkeys(("reward-collapse", "kl", "importance-ratio", "grad-norm"), slower),
        "truncation": f"in this config: {scaled(_ANSWER, values, 2)}",
    }


def _bottleneck_knobs(files: ConfigFiles, _: Names) -> BottleneckKnobs:
    """It has no KV cache that could be full."""
    if "rl" not in files:
        return BottleneckKnobs()
    return BottleneckKnobs(
        in_flight="orchestrator.max_inflight_rollouts",
        sequences="inference.max_num_seqs",
        lead="max_async_level",
    )


_GRAMMAR = Grammar(
    reader="the embedded engine",
    overlay=replace(Overlay.parse(_CONCEPTS), shared=SHARED),
    namespaces={"rl": "", "sft": "sft"},
    schema=lambda file: _schemas()[file.role],
    rules=lambda _: (*rl_rules(), *sft_rules("sft.")),
    following=lambda files, values, _: following(values) if "rl" in files else {},
    derived=_derived,
    batch_knobs=lambda files, _: BATCH if "rl" in files else None,
    bottleneck_knobs=_bottleneck_knobs,
    advice=_advice,
)
"""The grammar is that of prime-rl; keys, rules and defaults come from the engine itself."""
_CONFIG = SchemaConfig(_GRAMMAR)


def _make(given: Given) -> Framework:
    launch = TinyRlLaunch(_CONFIG, next(iter(given.servers), ""))
    return Framework(
        id="tinyrl",
        title="tinyrl (embedded)",
        layouts={"rl": "tinyrl"},
        cluster_layouts={"rl": "tinyrl-slurm"},
        run_roles=PAIR,
        own_packages=("torch", "transformers", "uvicorn"),
        signs=("control/trainer.json", "control/orchestrator.json"),
        progress=_PROGRESS,
        failures=_FAILURES,
        config=replace(
            _CONFIG.side,
            role=_role,
            fit=_fit,
            is_certain=True,
            required=(frozenset({"rl"}),),
            companions={"sft": "sft.toml"},
        ),
        launch=launch.side,
        servers=launch.servers,
        run=RunSettings(
            files=lambda _: _FILES,
            output_dir=partial(_CONFIG.sound_text, name="output_dir"),
            max_steps=partial(_CONFIG.sound_count, name="max_steps"),
            preparation_steps=_preparation_steps,
            checkpoint_interval=partial(_CONFIG.sound_count, name="ckpt.interval"),
            resume_keys=("ckpt.resume_step",),
            graders=_GRADERS,
        ),
        gpu_needs=GpuNeeds(engine=launch.engine),
        evaluation=evaluation_of(_CONFIG),
        given=given,
        make=_make,
    )


def _preparation_steps(component: str, files: ConfigFiles) -> int | None:
    """Number of steps of the warm-up."""
    return _CONFIG.sound_count(files, "sft.max_steps") if component == "sft" else None


TINYRL = _make(Given())
