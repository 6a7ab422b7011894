"""The inputs of a training step: several sequences in one row, none of which can see another, and GRPO's
policy gradient, corrected for stale weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rltui.tinyrl.weight_transfer import TrainingSequence


@dataclass(slots=True)
class PackedRow:
    """One micro-batch: tensors of length tokens, `mask` [tokens, tokens]."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    """Attention mask: block-diagonal and causal."""
    loss_mask: torch.Tensor
    logprobs: torch.Tensor
    advantages: torch.Tensor
    temperatures: torch.Tensor
    targets: torch.Tensor
    """Next token of the same sequence; 0 at each sequence's last token, where the loss mask is false."""


def pack(sequences: list[TrainingSequence], seq_len: int) -> list[list[TrainingSequence]]:
    """Groups of at most `seq_len` tokens, filled first-fit from the longest; each sequence is in exactly one.

    Raises:
        ValueError: a sequence is longer than `seq_len`.
    """
    groups: list[list[TrainingSequence]] = []
    room: list[int] = []
    for sequence in sorted(sequences, key=lambda item: len(item.token_ids), reverse=True):
        length = len(sequence.token_ids)
        if length > seq_len:
            raise ValueError(f"a sequence of {length} tokens does not fit into seq_len {seq_len}")
        for index, free in enumerate(room):
            if length <= free:
                groups[index].append(sequence)
                room[index] -= length
                break
        else:
            groups.append([sequence])
            room.append(seq_len - length)
    return groups


def packed_row(group: list[TrainingSequence]) -> PackedRow:
    """Lay sequences end to end; entry t of every loss tensor speaks of predicting token t + 1."""
    lengths = [len(sequence.token_ids) for sequence in group]
    owner = torch.repeat_interleave(torch.arange(len(group)), torch.tensor(lengths))
    total = len(owner)
    same_owner = owner[:, None] == owner[None, :]
    per_sequence = torch.tensor([[item.advantage, item.temperature] for item in group])[owner]
    return PackedRow(
        token_ids=torch.tensor([token for item in group for token in item.token_ids]),
        positions=torch.cat([torch.arange(length) for length in lengths]),
        mask=same_owner & torch.ones(total, total, dtype=torch.bool).tril(),
        loss_mask=torch.tensor([flag for item in group for flag in (*item.completion_mask[1:], False)]),
        logprobs=torch.tensor([value for item in group for value in (*item.logprobs[1:], 0.0)]),
        advantages=per_sequence[:, 0],
        temperatures=per_sequence[:, 1],
        targets=torch.tensor([token for item in group for token in (*item.token_ids[1:], 0)]),
    )


@dataclass(slots=True)
class LossParts:
    """Sums over the completion tokens of one micro-batch."""

    loss: torch.Tensor
    """Differentiable sum."""
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
    bounded_ratio = torch.where(keep, torch.where(keep, log_ratio, zeros).exp(), zeros)
    return LossParts(
        loss=-(bounded_ratio * advantages[loss_mask]).sum(),
        entropy=float(entropy),
        mismatch_kl=float(mismatch_kl),
        masked=float((~keep).sum()),
        tokens=int(loss_mask.sum()),
    )
