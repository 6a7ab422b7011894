"""Rules between knobs of `rl.toml` and `sft.toml`, for the engine's own check, and for the manager's."""

from __future__ import annotations

from rltui.base.text import did_you_mean
from rltui.core.config.batch import BatchKnobs, batching, micro_batches
from rltui.core.config.knobs import display
from rltui.core.config.rules import (
    Rule,
    Values,
    at_least,
    at_most,
    nearest_multiples,
    room_for_prompts,
    same,
    same_port,
)

BATCH = BatchKnobs(
    batch_size="orchestrator.batch_size",
    token_batch_size="orchestrator.token_batch_size",  # noqa: S106
    group_size="orchestrator.rollouts_per_example",
    seq_len="orchestrator.seq_len",
    inflight="orchestrator.max_inflight_rollouts",
    oversampling="orchestrator.oversampling_factor",
    token_metric="train/agg/effective/agent/num_total_tokens/mean",  # noqa: S106
)
SHARED = {
    "seq_len": (BATCH.seq_len, "trainer.model.seq_len"),
    "max_async_level": ("orchestrator.max_async_level", "trainer.max_async_level"),
}
"""Knob → the knobs that it fills if they are not set."""

_DEFAULT_BATCH = 128
"""Rollouts, if a batch is counted neither in rollouts nor in tokens."""
_ENVIRONMENTS = ("reverse-text",)
_SPECIAL_TOKENS = 4


def following(v: Values) -> dict[str, int]:
    """Defaults that follow from other values: rollouts of a batch, and in flight."""
    if v.get(BATCH.token_batch_size) is not None:
        return {}
    batch, factor = v.get(BATCH.batch_size) or _DEFAULT_BATCH, v.get("orchestrator.oversampling_factor") or 1
    return {BATCH.batch_size: _DEFAULT_BATCH, "orchestrator.max_inflight_rollouts": int(batch * factor)}


def rl_rules() -> tuple[Rule, ...]:
    low, high = "trainer.loss.mask_ratio_low", "trainer.loss.mask_ratio_high"
    env = "orchestrator.env.0"  # the only one that there may be

    def low_below_high(v: Values) -> str | None:
        if v[low] < v[high]:
            return None
        return f"{low} ({v[low]:g}) must be below {high} ({v[high]:g}): an unchanged policy has ratio 1"

    def known_environment(v: Values) -> str | None:
        name = v[f"{env}.id"]
        if name in _ENVIRONMENTS:
            return None
        guess = did_you_mean(name, _ENVIRONMENTS) or f"available: {', '.join(_ENVIRONMENTS)}"
        return f"{env}.id: unknown environment {display(name)}: {guess}"

    return (
        _folder_rule("output_dir", "outputs/reverse-text"),
        _folder_rule("model.name", "outputs/reverse-text-sft"),
        *batching(BATCH),
        at_least("trainer.model.seq_len", BATCH.seq_len),
        room_for_prompts("orchestrator.sampling.max_tokens", BATCH.seq_len, "inference.model.max_model_len"),
        same(*SHARED["max_async_level"], shared="max_async_level"),
        Rule(low, (low, high), low_below_high),
        same_port("orchestrator.client.base_url", "inference.server.port"),
        Rule(f"{env}.id", (f"{env}.id",), known_environment),
        at_most(f"{env}.args.min_chars", f"{env}.args.max_chars"),
    )


def sft_rules(prefix: str) -> tuple[Rule, ...]:
    """Rules of `sft.toml`; `prefix`: of the names of its keys."""
    longest, seq_len = f"{prefix}data.max_chars", f"{prefix}data.seq_len"
    width, heads = f"{prefix}model.hidden_size", f"{prefix}model.num_attention_heads"

    def room(v: Values) -> str | None:
        needed = 2 * v[longest] + _SPECIAL_TOKENS
        if v[seq_len] >= needed:
            return None
        return (
            f"{seq_len} ({v[seq_len]}) must be at least {needed} for {longest} ({v[longest]}): a text, "
            f"its reversal and {_SPECIAL_TOKENS} special tokens"
        )

    def whole_heads(v: Values) -> str | None:
        divisor = 2 * v[heads]
        if v[width] % divisor == 0:
            return None
        return (
            f"{width} ({v[width]}) must be divisible by twice {heads} ({v[heads]}): "
            f"nearest valid hidden_size is {nearest_multiples(v[width], divisor)}"
        )

    return (
        _folder_rule(f"{prefix}output_dir", "outputs/reverse-text-sft"),
        micro_batches(f"{prefix}data.batch_size", f"{prefix}data.micro_batch_size"),
        at_most(f"{prefix}data.min_chars", longest),
        Rule(seq_len, (seq_len, longest), room),
        at_least(f"{prefix}model.max_position_embeddings", seq_len),
        Rule(width, (width, heads), whole_heads),
    )


def _folder_rule(name: str, example: str) -> Rule:
    def fault(v: Values) -> str | None:
        return None if v[name] else f'{name} must name a folder, such as "{example}"'

    return Rule(name, (name,), fault)
