"""The embedded engine's programs with something wrong in them: `python -m tests.tinyrl.unwell WHAT trainer`.

The recorded runs of `tests/data/health` are the examples' `rl.toml` with another `seed`, and
- `lr-…`: trainer.optim.lr = 2.5, from the start or after a resume from step 40;
- `reward-one-…`: `reward=1`, from the start or after a resume from step 40;
- `entropy-bonus-removed`: `entropy=0.05,40,0`;
- `entropy-bonus-turned-after-20`: `entropy=0.01,20,-20`, with trainer.optim.lr = 1e-3;
- `entropy-pressed`: `entropy=-20,999,0`, with trainer.optim.lr = 1e-3.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from rltui.tinyrl import batches, language, trainer
from rltui.tinyrl.__main__ import main
from rltui.tinyrl.batches import LossParts


def always_one(completion: str, text: str) -> float:
    """A reward that tells nothing."""
    return 1.0


def press(bonus: float, steps: int, later: float) -> None:
    """Add a bonus for entropy to the loss, and another one after so many steps."""
    at = [0]
    update, policy_loss = trainer.Trainer._update, batches.policy_loss

    def counted(self: trainer.Trainer, rows: list[Any]) -> Any:
        at[0] = self.step + 1
        return update(self, rows)

    def with_bonus(logits: torch.Tensor, **known: Any) -> LossParts:
        part = policy_loss(logits, **known)
        mask = known["loss_mask"]
        chances = torch.log_softmax(logits[mask] / known["temperatures"][mask, None].clamp_min(1e-6), dim=-1)
        weight = bonus if at[0] <= steps else later
        part.loss = part.loss + weight * (chances.exp() * chances).sum()
        return part

    trainer.Trainer._update = counted  # type: ignore[method-assign]
    trainer.policy_loss = with_bonus  # type: ignore[attr-defined]


if __name__ == "__main__":
    what, _, value = sys.argv.pop(1).partition("=")
    if what == "reward":
        language.reward = always_one
    elif what == "entropy":
        bonus, steps, later = value.split(",")
        press(float(bonus), int(steps), float(later))
    sys.exit(main())
