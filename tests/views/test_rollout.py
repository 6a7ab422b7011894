"""How rollouts are told."""

from __future__ import annotations

import math

from rltui.core.rollouts.batches import BatchSummary, Sample, SampleGroup
from rltui.views.rollout import (
    GROUPS,
    SAMPLES,
    ListedSample,
    reward_text,
    sample_figures,
    sample_summary,
    summary_texts,
)

SAMPLE = Sample(
    where=0, group="g1", env="reverse", reward=0.62, advantage=0.21, input_tokens=40, output_tokens=128,
    turns=3, stop="length", truncated=True,
)  # fmt: skip


def cells(sample: Sample, *names: str, is_flat: bool = False, is_brief: bool = False) -> list[str]:
    row = ListedSample(4, sample, is_flat)
    return [column.cell(row, 0.0).text for column in SAMPLES.named(names, is_brief=is_brief)]


def test_a_sample_is_told_in_columns_and_in_a_line() -> None:
    assert cells(SAMPLE, "#", "reward", "ended", "group") == ["4", "0.620", "length truncated", "g1"]
    assert cells(SAMPLE, "group", is_flat=True) == ["g1 ="]
    summary = "reward 0.620 · advantage 0.210 · 128 tokens · group g1 · reverse · length · truncated"
    assert sample_summary(SAMPLE) == summary
    assert (
        sample_figures(SAMPLE)
        == "reward 0.620 · advantage 0.210 · 40 → 128 tokens · 3 turns · length · truncated ✂"
    )


def test_what_is_not_told_is_empty_or_a_dot() -> None:
    bare = Sample(where=0)
    assert cells(bare, "reward", "in", "turns") == ["", "", ""]
    assert cells(bare, "reward", "out", "turns", is_brief=True) == ["·", "·", "·"]
    assert sample_summary(bare) == "reward ?"
    assert [reward_text(value) for value in (math.nan, 1234.5)] == ["·", "1.23e+03"]


def test_a_batch_and_a_group_without_spread_say_that_they_teach_nothing() -> None:
    summary = BatchSummary(
        count=1200, mean=0.5, spread=0.1, low=0.0, high=1.0, groups=8, flat_groups=1, truncated=2, failed=0
    )
    assert summary_texts(summary) == [
        "1,200 samples", "reward 0.500 ± 0.100", "8 groups, 1 zero std (=)", "2 truncated ✂"
    ]  # fmt: skip
    groups = SampleGroup("g1", (0, 1), (1.0, 1.0)), SampleGroup("g2", (2, 3), (1.0, 0.0))
    (worth,) = GROUPS.named(["worth"])
    assert [worth.cell(group, 0.0).text for group in groups] == ["zero std: no gradient", ""]
