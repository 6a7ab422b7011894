"""Rules between knobs of a tinyrl config, in the words of prime-rl's validators plus a way out, and defaults
that follow from other knobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltui.core.knobs import shown
from rltui.core.text import did_you_mean
from rltui.core.toml.values import TomlValue
from rltui.frameworks.base import BatchKnobs, ConfigFiles
from rltui.frameworks.batch_rules import batching, micro_batches
from rltui.frameworks.rule_makers import (
    Values,
    at_least,
    below,
    nearest_multiples,
    room_for_prompts,
    same,
    same_port,
)
from rltui.frameworks.schemas import Names, Rule

BATCH = BatchKnobs(
    batch_size="orchestrator.batch_size",
    token_batch_size="orchestrator.token_batch_size",  # noqa: S106
    group_size="orchestrator.rollouts_per_example",
    seq_len="orchestrator.seq_len",
    inflight="orchestrator.max_inflight_rollouts",
    oversampling="orchestrator.oversampling_factor",
    token_metric="train/agg/effective/agent/num_total_tokens/mean",  # noqa: S106
)

_ENVIRONMENTS = ("reverse-text",)
_DEFAULT_BATCH = 128
"""Rollouts, where a batch is counted neither in rollouts nor in tokens."""
_O_SEQ_LEN = BATCH.seq_len
_T_SEQ_LEN = "trainer.model.seq_len"
_MAX_TOKENS = "orchestrator.sampling.max_tokens"
_MODEL_LEN = "inference.model.max_model_len"
_LOW = "trainer.loss.mask_ratio_low"
_HIGH = "trainer.loss.mask_ratio_high"
_ENV = "orchestrator.env.0"
"""The only one that there may be."""
_MAX_CHARS = "sft.data.max_chars"
_SFT_SEQ_LEN = "sft.data.seq_len"
_HIDDEN = "sft.model.hidden_size"
_HEADS = "sft.model.num_attention_heads"
_SPECIAL_TOKENS = 4


def _low_below_high(v: Values) -> str | None:
    if v[_LOW] < v[_HIGH]:
        return None
    return f"{_LOW} ({v[_LOW]:g}) must be below {_HIGH} ({v[_HIGH]:g}): an unchanged policy has ratio 1"


def _names_folder(name: str, example: str) -> Rule:
    def fault(v: Values) -> str | None:
        return None if v[name] else f'{name} must name a folder, such as "{example}"'

    return Rule(name, (name,), fault)


def _known_environment(v: Values) -> str | None:
    name = v[f"{_ENV}.id"]
    if name in _ENVIRONMENTS:
        return None
    guess = did_you_mean(name, _ENVIRONMENTS) or f"there is {' and '.join(_ENVIRONMENTS)}"
    return f"{_ENV}.id is {shown(name)}: {guess}"


def _sft_room(v: Values) -> str | None:
    needed = 2 * v[_MAX_CHARS] + _SPECIAL_TOKENS
    if v[_SFT_SEQ_LEN] >= needed:
        return None
    return (
        f"{_SFT_SEQ_LEN} ({v[_SFT_SEQ_LEN]}) is too short for {_MAX_CHARS} ({v[_MAX_CHARS]}): a text, its "
        f"reversal and {_SPECIAL_TOKENS} special tokens need {needed}"
    )


def _sft_heads(v: Values) -> str | None:
    divisor = 2 * v[_HEADS]
    if v[_HIDDEN] % divisor == 0:
        return None
    return (
        f"{_HIDDEN} ({v[_HIDDEN]}) must be divisible by twice {_HEADS} ({v[_HEADS]}): "
        f"nearest valid hidden_size is {nearest_multiples(v[_HIDDEN], divisor)}"
    )


_RULES = (
    _names_folder("output_dir", "outputs/reverse-text"),
    _names_folder("model.name", "outputs/reverse-text-sft"),
    *batching(BATCH),
    at_least(_T_SEQ_LEN, _O_SEQ_LEN),
    room_for_prompts(_MAX_TOKENS, _O_SEQ_LEN, _MODEL_LEN),
    same("orchestrator.max_async_level", "trainer.max_async_level", shared="max_async_level"),
    Rule(_LOW, (_LOW, _HIGH), _low_below_high),
    same_port("orchestrator.client.base_url", "inference.server.port"),
    Rule(f"{_ENV}.id", (f"{_ENV}.id",), _known_environment),
    below(f"{_ENV}.args.min_chars", f"{_ENV}.args.max_chars", equal=True),
    _names_folder("sft.output_dir", "outputs/reverse-text-sft"),
    micro_batches("sft.data.batch_size", "sft.data.micro_batch_size"),
    below("sft.data.min_chars", _MAX_CHARS, equal=True),
    Rule(_SFT_SEQ_LEN, (_SFT_SEQ_LEN, _MAX_CHARS), _sft_room),
    at_least("sft.model.max_position_embeddings", _SFT_SEQ_LEN),
    Rule(_HIDDEN, (_HIDDEN, _HEADS), _sft_heads),
)


def rules(names: Names) -> tuple[Rule, ...]:
    """Those of both files: its keys are always called the same."""
    del names
    return _RULES


def defaults(files: ConfigFiles, values: Values, names: Names) -> Mapping[str, TomlValue]:
    """Rollouts of a batch, and in flight."""
    del names
    if "rl" not in files or values.get(BATCH.token_batch_size) is not None:
        return {}
    batch = values.get(BATCH.batch_size) or _DEFAULT_BATCH
    factor = values.get("orchestrator.oversampling_factor") or 1
    return {
        BATCH.batch_size: _DEFAULT_BATCH,
        "orchestrator.max_inflight_rollouts": int(batch * factor),
    }
