"""What the engine is asked for and what it gives back."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

import torch

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    token_ids: list[int]
    """Includes the end token where the model chose it."""
    logprobs: list[float]
    """Of each token under the distribution it was drawn from: after temperature, before top_p."""
    finish_reason: FinishReason


@dataclass(slots=True)
class Sequence:
    """One completion under way."""

    prompt_ids: list[int]
    params: SamplingParams
    draws: torch.Tensor
    """Uniform numbers, one per token: a seed gives the same text whatever else is in the batch."""
    future: Future[Completion] = field(default_factory=Future)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    arrived_s: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    """Set by the front where nobody waits any more; the engine drops the sequence at its next step."""


def new_sequence(prompt_ids: list[int], params: SamplingParams, index: int) -> Sequence:
    """The `index`-th of a request's `n` completions; each has its own draws."""
    generator = torch.Generator()
    if params.seed is None:
        generator.seed()
    else:
        generator.manual_seed((params.seed * 1_000_003 + index) % 2**63)
    return Sequence(prompt_ids, params, torch.rand(params.max_tokens, generator=generator))


def sample(
    logits: torch.Tensor, temperatures: torch.Tensor, top_p: torch.Tensor, draws: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Next tokens and their log-probabilities; `logits` is [rows, vocabulary], all else [rows].

    Temperature 0 takes the likeliest token, and reports its log-probability at temperature 1.
    """
    greedy = temperatures == 0
    scaled = logits / torch.where(greedy, torch.ones_like(temperatures), temperatures)[:, None]
    logprobs = torch.log_softmax(scaled.float(), dim=-1)
    ordered, order = logprobs.exp().sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    ordered = torch.where(before < top_p[:, None], ordered, torch.zeros_like(ordered))
    cumulative = ordered.cumsum(dim=-1)
    drawn = torch.where(greedy, torch.zeros_like(draws), draws)[:, None] * cumulative[:, -1:]
    place = (cumulative <= drawn).sum(dim=-1).clamp_max(logits.shape[-1] - 1)
    # rounding may put a draw behind the last allowed token
    place = torch.minimum(place, (ordered > 0).sum(dim=-1) - 1)
    tokens = order.gather(1, place[:, None])[:, 0]
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]
