"""GRPO's arithmetic: advantages within a group, and a policy gradient corrected for stale weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch


def group_advantages(rewards: list[float]) -> list[float]:
    """Each reward's distance from its group's mean; exactly 0 where all are equal."""
    if min(rewards) == max(rewards):
        return [0.0] * len(rewards)
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


@dataclass(slots=True)
class LossParts:
    """Sums over the completion tokens of one micro-batch."""

    loss: torch.Tensor
    """Differentiable."""
    entropy: float
    mismatch_kl: float
    masked: float
    tokens: int


def policy_loss(
    logits: torch.Tensor,
    *,
    targets: torch.Tensor,
    loss_mask: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    temperatures: torch.Tensor,
    ratio_bounds: tuple[float, float],
) -> LossParts:
    """Minus the sum of importance ratio times advantage; `logits` is [tokens, vocabulary], all else [tokens].

    The ratio compares with the log-probabilities inference reported, not with an older trainer: that
    corrects both for asynchrony and for numerical differences. Tokens whose ratio leaves the bounds are
    left out (prime-rl's masking).
    """
    scaled = logits[loss_mask] / temperatures[loss_mask, None].clamp_min(1e-6)
    log_distribution = torch.log_softmax(scaled, dim=-1)
    logprobs = log_distribution.gather(1, targets[loss_mask, None])[:, 0]
    log_ratio = logprobs - old_logprobs[loss_mask]
    low, high = ratio_bounds
    with torch.no_grad():
        ratio = log_ratio.exp()
        keep = (ratio >= low) & (ratio <= high)
        entropy = -(log_distribution.exp() * log_distribution).sum()
        mismatch_kl = (ratio - 1 - log_ratio).sum()
    # masked before the exponential too: the gradient of one that overflowed is 0 * inf
    zeros = torch.zeros_like(log_ratio)
    kept = torch.where(keep, torch.where(keep, log_ratio, zeros).exp(), zeros)
    return LossParts(
        loss=-(kept * advantages[loss_mask]).sum(),
        entropy=float(entropy),
        mismatch_kl=float(mismatch_kl),
        masked=float((~keep).sum()),
        tokens=int(loss_mask.sum()),
    )
