from __future__ import annotations

import math

import pytest
import torch

from rltui.tinyrl.batches import LossParts, policy_loss
from rltui.tinyrl.rollouts import group_advantages


def test_advantages_are_distances_from_the_mean() -> None:
    assert group_advantages([0.0, 0.5, 1.0]) == pytest.approx([-0.5, 0.0, 0.5])


def test_a_group_of_equals_has_exactly_no_advantage() -> None:
    assert group_advantages([0.1] * 7) == [0.0] * 7


def parts(logits: torch.Tensor, old_logprob: float, advantage: float, temperature: float = 1.0) -> LossParts:
    length = len(logits)
    return policy_loss(
        logits,
        targets=torch.zeros(length, dtype=torch.long),
        loss_mask=torch.ones(length, dtype=torch.bool),
        old_logprobs=torch.full((length,), old_logprob),
        advantages=torch.full((length,), advantage),
        temperatures=torch.full((length,), temperature),
        ratio_bounds=(0.125, 8.0),
    )


def test_ratio_is_one_for_the_policy_that_drew_the_token() -> None:
    found = parts(torch.zeros(1, 4), math.log(0.25), 2.0)
    assert float(found.loss) == pytest.approx(-2.0)
    assert found.mismatch_kl == pytest.approx(0.0, abs=1e-6)
    assert found.entropy == pytest.approx(math.log(4))


def test_ratio_corrects_for_another_policy() -> None:
    assert float(parts(torch.zeros(1, 4), math.log(0.5), 2.0).loss) == pytest.approx(-1.0)


@pytest.mark.parametrize("old_logprob", [math.log(0.25 / 9), 3.0], ids=["above", "below"])
def test_tokens_out_of_bounds_are_left_out(old_logprob: float) -> None:
    found = parts(torch.zeros(1, 4, requires_grad=True), old_logprob, 2.0)
    assert float(found.loss.detach()) == 0.0
    assert found.masked == 1


def test_overflowing_ratio_gives_no_nan() -> None:
    logits = torch.zeros(1, 4, requires_grad=True)
    parts(logits, -1e4, 2.0).loss.backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_good_tokens_become_likelier() -> None:
    logits = torch.zeros(1, 4, requires_grad=True)
    parts(logits, math.log(0.25), 1.0).loss.backward()
    assert logits.grad is not None
    assert float(logits.grad[0, 0]) < 0


def test_temperature_scales_the_distribution() -> None:
    logits = torch.tensor([[2.0, 0.0]])
    expected = float(torch.log_softmax(logits / 2, -1)[0, 0])
    assert float(parts(logits, expected, 1.0, temperature=2.0).loss) == pytest.approx(-1.0)
