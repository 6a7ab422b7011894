"""What a batch of rollouts is called."""

from __future__ import annotations

import pytest

from rltui.core.rollouts.batches import ABANDONED, ALL, BatchKey


@pytest.mark.parametrize(
    ("key", "label"),
    [
        (BatchKey("train", 12), "12"),
        (BatchKey("train", 12, ALL), "12 all"),
        (BatchKey("train", 0, ABANDONED), "0 abandoned"),
        (BatchKey("eval", 12), "eval 12"),
        (BatchKey("eval", 12, "aime"), "eval 12 aime"),
        (BatchKey("eval", part="reverse-text--qwen/1a2b"), "reverse-text--qwen/1a2b"),
        (BatchKey("eval"), "eval"),
        (BatchKey("live"), "live"),
    ],
)
def test_a_batch_is_called_by_what_it_is_of(key: BatchKey, label: str) -> None:
    assert key.label == label
