"""Rules between knobs of a tinyrl config, in the words of prime-rl's validators plus a way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from rltui.frameworks.rules import Rule

Values = Mapping[str, Any]

_BATCH = "orchestrator.batch_size"
_TOKENS = "orchestrator.token_batch_size"
_GROUP = "orchestrator.rollouts_per_example"
_FACTOR = "orchestrator.oversampling_factor"
_INFLIGHT = "orchestrator.max_inflight_rollouts"
_O_SEQ_LEN = "orchestrator.seq_len"
_T_SEQ_LEN = "trainer.model.seq_len"
_MAX_TOKENS = "orchestrator.sampling.max_tokens"
_MODEL_LEN = "inference.model.max_model_len"
_URL = "orchestrator.client.base_url"
_PORT = "inference.server.port"
_SFT_BATCH = "sft.data.batch_size"
_SFT_MICRO = "sft.data.micro_batch_size"
_O_ASYNC = "orchestrator.max_async_level"
_T_ASYNC = "trainer.max_async_level"
_LOW = "trainer.loss.mask_ratio_low"
_HIGH = "trainer.loss.mask_ratio_high"
_MIN_CHARS = "sft.data.min_chars"
_MAX_CHARS = "sft.data.max_chars"
_SFT_SEQ_LEN = "sft.data.seq_len"
_POSITIONS = "sft.model.max_position_embeddings"
_HIDDEN = "sft.model.hidden_size"
_HEADS = "sft.model.num_attention_heads"
_SPECIAL_TOKENS = 4


def nearest_multiples(value: int, divisor: int) -> str:
    """The multiples of `divisor` next to `value`, in words: `96 or 112`."""
    below = value // divisor * divisor
    return f"{below} or {below + divisor}" if below else f"{divisor}"


def _one_batch_size(v: Values) -> str | None:
    if v[_BATCH] is None or v[_TOKENS] is None:
        return None
    return f"set exactly one of {_BATCH} ({v[_BATCH]}) or {_TOKENS} ({v[_TOKENS]}): remove one of them"


def _factor_needs_batch(v: Values) -> str | None:
    if v[_TOKENS] is None or v[_FACTOR] is None:
        return None
    return (
        f"{_FACTOR} ({v[_FACTOR]:g}) can only be set when {_BATCH} is set, but {_TOKENS} ({v[_TOKENS]}) is: "
        f"remove it and set {_INFLIGHT}"
    )


def _tokens_need_inflight(v: Values) -> str | None:
    if v[_TOKENS] is None or v[_INFLIGHT] is not None:
        return None
    group = v[_GROUP]
    wanted = max(group, -(-v[_TOKENS] // v[_O_SEQ_LEN]))
    return (
        f"{_INFLIGHT} must be set when {_TOKENS} ({v[_TOKENS]}) is: at least {_GROUP} ({group}), "
        f"for example {-(-wanted // group) * group}"
    )


def _batch_in_groups(v: Values) -> str | None:
    if v[_TOKENS] is not None or v[_BATCH] % v[_GROUP] == 0:
        return None
    return (
        f"{_BATCH} ({v[_BATCH]}) must be divisible by {_GROUP} ({v[_GROUP]}): "
        f"nearest valid batch_size is {nearest_multiples(v[_BATCH], v[_GROUP])}"
    )


def _inflight_as_factor_says(v: Values) -> str | None:
    if v[_TOKENS] is not None or v[_FACTOR] is None:
        return None
    wanted = int(v[_BATCH] * v[_FACTOR])
    if v[_INFLIGHT] == wanted:
        return None
    return (
        f"{_INFLIGHT} ({v[_INFLIGHT]}) conflicts with {_FACTOR} ({v[_FACTOR]:g}) * {_BATCH} ({v[_BATCH]}): "
        f"remove one of them, or set max_inflight_rollouts to {wanted}"
    )


def _inflight_holds_a_group(v: Values) -> str | None:
    if v[_INFLIGHT] is None or v[_INFLIGHT] >= v[_GROUP] or _batch_in_groups(v):
        return None
    return (
        f"{_INFLIGHT} ({v[_INFLIGHT]}) must be at least {_GROUP} ({v[_GROUP]}): "
        f"nearest valid max_inflight_rollouts is {v[_GROUP]}"
    )


def _trainer_takes_sequences(v: Values) -> str | None:
    if v[_T_SEQ_LEN] >= v[_O_SEQ_LEN]:
        return None
    return (
        f"{_T_SEQ_LEN} ({v[_T_SEQ_LEN]}) must be at least {_O_SEQ_LEN} ({v[_O_SEQ_LEN]}): "
        f"raise it to {v[_O_SEQ_LEN]}, or lower orchestrator.seq_len to {v[_T_SEQ_LEN]}"
    )


def _same_port(v: Values) -> str | None:
    if v[_URL] is None:
        return None
    try:
        url = urlsplit(v[_URL])
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return f"{_URL} ({v[_URL]}) is no address: it should look like http://localhost:{v[_PORT]}/v1"
    if url.scheme not in ("http", "https") or not url.hostname:
        return f"{_URL} ({v[_URL]}) is no address: it should look like http://localhost:{v[_PORT]}/v1"
    if port == v[_PORT]:
        return None
    return f"{_URL} ({v[_URL]}) must name the port of {_PORT} ({v[_PORT]}): use the same port in both"


def _lonely_rollouts(v: Values) -> str | None:
    if v[_GROUP] != 1:
        return None
    return f"{_GROUP} is 1: alone in its group, a rollout has advantage 0 and nothing is learnt; try 8 or 16"


def _inflight_fills_batch(v: Values) -> str | None:
    if v[_BATCH] is None or v[_INFLIGHT] is None or v[_INFLIGHT] >= v[_BATCH]:
        return None
    return (
        f"{_INFLIGHT} ({v[_INFLIGHT]}) is less than {_BATCH} ({v[_BATCH]}): "
        f"each step needs several rounds of generation"
    )


def _room_for_prompts(v: Values) -> str | None:
    for limit in (_O_SEQ_LEN, _MODEL_LEN):
        if v[_MAX_TOKENS] >= v[limit]:
            return (
                f"{_MAX_TOKENS} ({v[_MAX_TOKENS]}) leaves no room for a prompt within {limit} ({v[limit]}): "
                f"set max_tokens to {v[limit] - 1} or less, or {limit} to more than {v[_MAX_TOKENS]}"
            )
    return None


def _same_async_level(v: Values) -> str | None:
    if v[_O_ASYNC] == v[_T_ASYNC]:
        return None
    return (
        f"{_O_ASYNC} ({v[_O_ASYNC]}) and {_T_ASYNC} ({v[_T_ASYNC]}) must be the same: "
        f"remove both and set max_async_level to {v[_O_ASYNC]} or {v[_T_ASYNC]}"
    )


def _low_below_high(v: Values) -> str | None:
    if v[_LOW] < v[_HIGH]:
        return None
    return f"{_LOW} ({v[_LOW]:g}) must be below {_HIGH} ({v[_HIGH]:g}): an unchanged policy has ratio 1"


def _named_model(v: Values) -> str | None:
    return None if v["model.name"] else 'model.name must name a folder, such as "outputs/reverse-text-sft"'


def _sft_rounds(v: Values) -> str | None:
    batch, micro = v[_SFT_BATCH], v[_SFT_MICRO]
    if batch < micro:
        return (
            f"{_SFT_BATCH} ({batch}) must be at least {_SFT_MICRO} ({micro}): "
            f"lower micro_batch_size to {batch}"
        )
    if batch % micro == 0:
        return None
    return (
        f"{_SFT_BATCH} ({batch}) must be divisible by {_SFT_MICRO} ({micro}): "
        f"nearest valid batch_size is {nearest_multiples(batch, micro)}"
    )


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


def _sft_positions(v: Values) -> str | None:
    if v[_POSITIONS] >= v[_SFT_SEQ_LEN]:
        return None
    return (
        f"{_POSITIONS} ({v[_POSITIONS]}) must be at least {_SFT_SEQ_LEN} ({v[_SFT_SEQ_LEN]}): "
        f"raise it to {v[_SFT_SEQ_LEN]}, or lower data.seq_len to {v[_POSITIONS]}"
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
    Rule(_TOKENS, (_BATCH, _TOKENS), _one_batch_size),
    Rule(_FACTOR, (_TOKENS, _FACTOR), _factor_needs_batch),
    Rule(_TOKENS, (_TOKENS, _INFLIGHT, _GROUP, _O_SEQ_LEN, "seq_len"), _tokens_need_inflight),
    Rule(_BATCH, (_TOKENS, _BATCH, _GROUP), _batch_in_groups),
    Rule(_INFLIGHT, (_TOKENS, _BATCH, _FACTOR, _INFLIGHT), _inflight_as_factor_says),
    Rule(_INFLIGHT, (_TOKENS, _BATCH, _FACTOR, _INFLIGHT, _GROUP), _inflight_holds_a_group),
    Rule(_T_SEQ_LEN, (_T_SEQ_LEN, _O_SEQ_LEN, "seq_len"), _trainer_takes_sequences),
    Rule(_MAX_TOKENS, (_MAX_TOKENS, _O_SEQ_LEN, "seq_len", _MODEL_LEN), _room_for_prompts),
    Rule(_O_ASYNC, (_O_ASYNC, _T_ASYNC, "max_async_level"), _same_async_level),
    Rule(_LOW, (_LOW, _HIGH), _low_below_high),
    Rule(_URL, (_URL, _PORT), _same_port),
    Rule(_GROUP, (_GROUP,), _lonely_rollouts, "warning"),
    Rule(_INFLIGHT, (_TOKENS, _BATCH, _FACTOR, _INFLIGHT), _inflight_fills_batch, "warning"),
)
SFT_RULES = (
    Rule(_SFT_BATCH, (_SFT_BATCH, _SFT_MICRO), _sft_rounds),
    Rule(_MIN_CHARS, (_MIN_CHARS, _MAX_CHARS), _sft_text_lengths),
    Rule(_SFT_SEQ_LEN, (_SFT_SEQ_LEN, _MAX_CHARS), _sft_room),
    Rule(_POSITIONS, (_POSITIONS, _SFT_SEQ_LEN), _sft_positions),
    Rule(_HIDDEN, (_HIDDEN, _HEADS), _sft_heads),
)
