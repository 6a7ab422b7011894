"""The same batch counted in rollouts or in tokens. Pure arithmetic, on values without names."""

from __future__ import annotations

from dataclasses import dataclass

MOST_DECIMALS = 6
"""Of an oversampling factor; rounded further, it would not give the same number in flight."""


@dataclass(frozen=True, slots=True)
class RolloutBatch:
    """A batch of so many rollouts."""

    size: int
    inflight: int | None = None
    """Rollouts generated at once; `None`: as many as `size` times `factor`."""
    factor: float | None = None
    """In flight = `size` * this; `None` counts as 1."""

    @property
    def at_once(self) -> int:
        """Rollouts generated at once."""
        return self.inflight if self.inflight is not None else int(self.size * (self.factor or 1.0))


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """A batch of whole rollouts that hold so many tokens."""

    tokens: int
    inflight: int | None = None
    """Rollouts generated at once; `None`: not said."""


def in_tokens(batch: RolloutBatch, *, group: int, mean_tokens: float) -> TokenBatch:
    """The batch in tokens, if a rollout has `mean_tokens`. What is in flight stays, but at least a group."""
    tokens = max(1, round(batch.size * mean_tokens))
    return TokenBatch(tokens, max(batch.at_once, group))


def in_rollouts(batch: TokenBatch, *, group: int, mean_tokens: float) -> RolloutBatch:
    """The batch in whole groups of rollouts, nearest and at least one.

    What is in flight stays: by itself, as a factor, or where no factor gives it, as a number.
    """
    size = group * max(1, round(batch.tokens / mean_tokens / group))
    if batch.inflight is None or batch.inflight == size:
        return RolloutBatch(size)
    factor = oversampling(size, batch.inflight)
    return RolloutBatch(size, inflight=batch.inflight if factor is None else None, factor=factor)


def oversampling(size: int, inflight: int) -> float | None:
    """The factor with the fewest decimals for which `int(size * factor)` is `inflight`; none is below 1."""
    if inflight < size:
        return None
    for decimals in range(MOST_DECIMALS + 1):
        unit: int = 10**decimals
        factor = -(-inflight * unit // size) / unit
        if int(size * factor) == inflight:
            return factor
    return None
