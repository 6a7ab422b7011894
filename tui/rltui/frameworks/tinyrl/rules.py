"""Rules between knobs of a tinyrl config, in the words of prime-rl's validators plus a way out."""

from __future__ import annotations

from rltui.frameworks.base import BatchKnobs
from rltui.frameworks.batch_rules import batching, micro_batches
from rltui.frameworks.rule_makers import (
    Values,
    at_least,
    nearest_multiples,
    room_for_prompts,
    same,
    same_port,
)
from rltui.frameworks.schemas import Rule

BATCH = BatchKnobs(
    batch_size="orchestrator.batch_size",
    token_batch_size="orchestrator.token_batch_size",  # noqa: S106
    group_size="orchestrator.rollouts_per_example",
    seq_len="orchestrator.seq_len",
    inflight="orchestrator.max_inflight_rollouts",
    oversampling="orchestrator.oversampling_factor",
    token_metric="train/agg/effective/agent/num_total_tokens/mean",  # noqa: S106
)

_O_SEQ_LEN = BATCH.seq_len
_T_SEQ_LEN = "trainer.model.seq_len"
_MAX_TOKENS = "orchestrator.sampling.max_tokens"
_MODEL_LEN = "inference.model.max_model_len"
_LOW = "trainer.loss.mask_ratio_low"
_HIGH = "trainer.loss.mask_ratio_high"
_MIN_CHARS = "sft.data.min_chars"
_MAX_CHARS = "sft.data.max_chars"
_SFT_SEQ_LEN = "sft.data.seq_len"
_HIDDEN = "sft.model.hidden_size"
_HEADS = "sft.model.num_attention_heads"
_SPECIAL_TOKENS = 4


def _low_below_high(v: Values) -> str | None:
    if v[_LOW] < v[_HIGH]:
        return None
    return f"{_LOW} ({v[_LOW]:g}) must be below {_HIGH} ({v[_HIGH]:g}): an unchanged policy has ratio 1"


def _named_model(v: Values) -> str | None:
    return None if v["model.name"] else 'model.name must name a folder, such as "outputs/reverse-text-sft"'


def _sft_text_lengths(v: Values) -> str | None:
    if v[_MIN_CHARS] <= v[_MAX_CHARS]:
        return None
    return f"{_MIN_CHARS} ({v[_MIN_CHARS]}) must be at most {_MAX_CHARS} ({v[_MAX_CHARS]})"


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


RL_RULES = (
    Rule("model.name", ("model.name",), _named_model),
    *batching(BATCH, also=("seq_len",)),
    at_least(_T_SEQ_LEN, _O_SEQ_LEN, also=("seq_len",)),
    room_for_prompts(_MAX_TOKENS, _O_SEQ_LEN, _MODEL_LEN, also=("seq_len",)),
    same("orchestrator.max_async_level", "trainer.max_async_level", shared="max_async_level"),
    Rule(_LOW, (_LOW, _HIGH), _low_below_high),
    same_port("orchestrator.client.base_url", "inference.server.port"),
)
SFT_RULES = (
    micro_batches("sft.data.batch_size", "sft.data.micro_batch_size"),
    Rule(_MIN_CHARS, (_MIN_CHARS, _MAX_CHARS), _sft_text_lengths),
    Rule(_SFT_SEQ_LEN, (_SFT_SEQ_LEN, _MAX_CHARS), _sft_room),
    at_least("sft.model.max_position_embeddings", _SFT_SEQ_LEN),
    Rule(_HIDDEN, (_HIDDEN, _HEADS), _sft_heads),
)
