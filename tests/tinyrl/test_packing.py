from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from rltui.tinyrl.batches import pack, packed_row
from rltui.tinyrl.model import load_model
from rltui.tinyrl.weight_transfer import TrainingSequence


def sequence(length: int, seed: int) -> TrainingSequence:
    rng = random.Random(seed)
    return TrainingSequence(
        token_ids=[rng.randrange(5, 90) for _ in range(length)],
        completion_mask=[index >= length // 2 for index in range(length)],
        logprobs=[-rng.random() for _ in range(length)],
        advantage=rng.random(),
        temperature=1.0,
    )


def test_pack_keeps_every_sequence_once_and_the_limit() -> None:
    rng = random.Random(0)
    sequences = [sequence(rng.randint(1, 40), seed) for seed in range(200)]
    groups = pack(sequences, 64)
    assert sorted(id(item) for group in groups for item in group) == sorted(map(id, sequences))
    assert max(sum(len(item.token_ids) for item in group) for group in groups) <= 64
    fullness = sum(len(item.token_ids) for item in sequences) / (64 * len(groups))
    assert fullness > 0.9


def test_pack_refuses_what_cannot_fit() -> None:
    assert len(pack([sequence(64, 0)], 64)) == 1
    with pytest.raises(ValueError, match="65 tokens does not fit"):
        pack([sequence(65, 0)], 64)


def test_packed_logprobs_equal_those_of_each_sequence_alone(tiny_model: Path) -> None:
    model = load_model(tiny_model)
    group = [sequence(length, seed) for seed, length in enumerate((3, 11, 1, 7))]
    row = packed_row(group)
    packed = torch.log_softmax(model(row.token_ids[None], row.positions[None], row.mask[None])[0], -1)
    start = 0
    for item in group:
        length = len(item.token_ids)
        causal = torch.ones(1, length, length, dtype=torch.bool).tril()
        alone = model(torch.tensor([item.token_ids]), torch.arange(length)[None], causal)
        assert torch.allclose(packed[start : start + length], torch.log_softmax(alone[0], -1), atol=1e-5)
        start += length


def test_loss_entries_speak_of_the_next_token_of_the_same_sequence() -> None:
    first, second = sequence(4, 0), sequence(6, 1)
    row = packed_row([first, second])
    assert row.targets.tolist() == [*first.token_ids[1:], 0, *second.token_ids[1:], 0]
    assert row.loss_mask.tolist() == [False, True, True, False, False, False, True, True, True, False]
    assert row.logprobs.tolist()[4:9] == pytest.approx(second.logprobs[1:])
    assert row.advantages.tolist() == pytest.approx([first.advantage] * 4 + [second.advantage] * 6)
