"""Rules between knobs: prime-rl's messages, both values, and the nearest that would do."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from rltui.tinyrl.config import OrchestratorSection, RlConfig
    from rltui.tinyrl.sft_config import SftConfig


def nearest_multiples(value: int, divisor: int) -> str:
    """`96 or 112`: the multiples of `divisor` around `value`, none below `divisor`."""
    below = value // divisor * divisor
    return f"{below} or {below + divisor}" if below else str(divisor)


def _batching_problems(orchestrator: OrchestratorSection) -> list[str]:
    batch, tokens = orchestrator.batch_size, orchestrator.token_batch_size
    factor, inflight = orchestrator.oversampling_factor, orchestrator.max_inflight_rollouts
    group = orchestrator.rollouts_per_example
    problems = []
    if batch is not None and tokens is not None:
        problem = (
            "Set exactly one of batch_size or token_batch_size: orchestrator.batch_size"
            f" = {batch} and orchestrator.token_batch_size = {tokens} are both set; remove one"
        )
        return [problem]
    if tokens is not None:
        if factor is not None:
            problems.append(
                "oversampling_factor can only be set when batch_size is set: orchestrator.oversampling_factor"
                f" = {factor} with orchestrator.token_batch_size = {tokens};"
                " use max_inflight_rollouts instead"
            )
        if inflight is None:
            problems.append(
                "max_inflight_rollouts must be set when token_batch_size is set:"
                f" orchestrator.token_batch_size = {tokens} needs orchestrator.max_inflight_rollouts >="
                f" {group}"
            )
    else:
        batch = 128 if batch is None else batch
        if batch % group:
            problems.append(
                "Batch size must be divisible by the number of samples per problem: orchestrator.batch_size"
                f" = {batch} is no multiple of orchestrator.rollouts_per_example = {group};"
                f" nearest batch_size: {nearest_multiples(batch, group)}"
            )
        if factor is not None and inflight is not None and inflight != int(batch * factor):
            problems.append(
                "max_inflight_rollouts conflicts with oversampling_factor * batch_size:"
                f" orchestrator.max_inflight_rollouts = {inflight}, orchestrator.oversampling_factor ="
                f" {factor}"
                f" * batch_size {batch} = {int(batch * factor)}; set one of them, or"
                f" max_inflight_rollouts = {int(batch * factor)}"
            )
    if inflight is not None and inflight < group:
        problems.append(
            "max_inflight_rollouts must be at least the number of rollouts per example:"
            f" orchestrator.max_inflight_rollouts = {inflight} < orchestrator.rollouts_per_example = {group};"
            f" set max_inflight_rollouts >= {group}"
        )
    return problems


def _length_problems(config: RlConfig) -> list[str]:
    rollout = config.orchestrator.seq_len or config.seq_len
    packed = config.trainer.model.seq_len or config.seq_len
    completion = config.orchestrator.sampling.max_tokens
    window = config.inference.model.max_model_len
    args = config.orchestrator.env[0].args
    problems = []
    if packed < rollout:
        problems.append(
            f"Trainer model seq_len ({packed}) must be >= orchestrator seq_len ({rollout}). Raise"
            f" trainer.model.seq_len to {rollout} or lower orchestrator.seq_len to {packed}"
        )
    if completion >= rollout:
        problems.append(
            f"orchestrator.sampling.max_tokens = {completion} leaves no room for a prompt in"
            f" orchestrator.seq_len = {rollout}; set max_tokens <= {rollout - 1}, or seq_len > {completion}"
        )
    if completion >= window:
        problems.append(
            f"orchestrator.sampling.max_tokens = {completion} leaves no room for a prompt in"
            f" inference.model.max_model_len = {window}; set max_tokens <= {window - 1}, or"
            f" max_model_len > {completion}"
        )
    if args.min_chars > args.max_chars:
        problems.append(
            f"orchestrator.env args: min_chars = {args.min_chars} is above max_chars = {args.max_chars};"
            f" set min_chars <= {args.max_chars}"
        )
    return problems


def rl_problems(config: RlConfig) -> list[str]:
    """Everything wrong between knobs of `rl.toml`; empty where all is well."""
    problems = _batching_problems(config.orchestrator) + _length_problems(config)
    levels = {
        "orchestrator.max_async_level": config.orchestrator.max_async_level,
        "trainer.max_async_level": config.trainer.max_async_level,
    }
    own, theirs = (config.max_async_level if level is None else level for level in levels.values())
    if own != theirs:
        problems.append(
            f"Trainer max_async_level ({theirs}) and orchestrator max_async_level ({own}) are not the same."
            " Set the shared max_async_level and remove the other two"
        )
    low, high = config.trainer.loss.mask_ratio_low, config.trainer.loss.mask_ratio_high
    if low >= high:
        problems.append(
            f"trainer.loss.mask_ratio_low = {low} must be below trainer.loss.mask_ratio_high = {high};"
            " a ratio of 1 is an unchanged policy, so low < 1 < high"
        )
    url, port = config.orchestrator.client.base_url, config.inference.server.port
    if url is not None and url_port(url) != port:
        problems.append(
            f"orchestrator.client.base_url = {url!r} does not name the port of inference.server.port ="
            f" {port};"
            f" use {port} in both, or remove base_url"
        )
    env = config.orchestrator.env[0]
    if env.id != "reverse-text":
        problems.append(f"orchestrator.env id = {env.id!r} is not installed; use 'reverse-text'")
    return problems


def url_port(url: str) -> int | None:
    """The port an address names or implies; None where it is no address."""
    try:
        parts = urlsplit(url)
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


def sft_problems(config: SftConfig) -> list[str]:
    """Everything wrong between knobs of `sft.toml`; empty where all is well."""
    data, model = config.data, config.model
    problems = []
    if data.batch_size < data.micro_batch_size:
        problems.append(
            "Batch size must be greater than or equal to micro batch size: data.batch_size ="
            f" {data.batch_size}"
            f" < data.micro_batch_size = {data.micro_batch_size}; set micro_batch_size <= {data.batch_size}"
        )
    elif data.batch_size % data.micro_batch_size:
        problems.append(
            f"Batch size must be divisible by micro batch size: data.batch_size = {data.batch_size} is no"
            f" multiple of data.micro_batch_size = {data.micro_batch_size}; nearest batch_size:"
            f" {nearest_multiples(data.batch_size, data.micro_batch_size)}"
        )
    if model.hidden_size % (2 * model.num_attention_heads):
        problems.append(
            f"model.hidden_size = {model.hidden_size} must be a multiple of twice model.num_attention_heads"
            f" = {model.num_attention_heads}; nearest hidden_size:"
            f" {nearest_multiples(model.hidden_size, 2 * model.num_attention_heads)}"
        )
    if data.min_chars > data.max_chars:
        problems.append(
            f"data.min_chars = {data.min_chars} is above data.max_chars = {data.max_chars};"
            f" set min_chars <= {data.max_chars}"
        )
    needed = 2 * data.max_chars + 4
    if data.seq_len < needed:
        problems.append(
            f"data.seq_len = {data.seq_len} is too short for data.max_chars = {data.max_chars}: a prompt, its"
            f" reversal and four special tokens need {needed}; set seq_len >= {needed}"
        )
    if model.max_position_embeddings < data.seq_len:
        problems.append(
            f"model.max_position_embeddings = {model.max_position_embeddings} < data.seq_len ="
            f" {data.seq_len};"
            f" set seq_len <= {model.max_position_embeddings}"
        )
    return problems
