"""Rollouts: batches of them, groups of one prompt, single samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rltui.base.text import BLOCKS, count_text, truncate
from rltui.core.rollouts.batches import Batch, BatchKey, BatchSummary, Sample, SampleGroup
from rltui.frameworks.rollouts import ELSEWHERE
from rltui.views.table import Cell, Column, View

GROUP_WIDTH = 16
UNKNOWN = "·"
FLAT = "="
"""Stands behind the name of a group without spread, and before the samples of one."""
FAILED, TRUNCATED = Cell("✗", "bad"), Cell("✂", "busy")


def histogram_blocks(counts: Sequence[int]) -> str:
    """A cell per count, as high as the count beside the largest one; where there is none, a dot."""
    highest, top = max(counts, default=0), len(BLOCKS) - 1
    return "".join(UNKNOWN if not count else BLOCKS[round(count / highest * top)] for count in counts)


def no_rollouts_text(framework: str) -> str:
    """The reason why there are none, by the id of the framework."""
    return ELSEWHERE.get(framework, "No rollouts yet; they appear with the first step.")


def reward_text(value: float) -> str:
    """Three digits that count, at most six cells; a dot where it is not told."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def exact_text(value: float) -> str:
    """Three digits behind the point; empty where it is not told."""
    return f"{value:.3f}" if math.isfinite(value) else ""


# --- batches ----------------------------------------------------------------------------------------------


class ListedBatch(NamedTuple):
    key: BatchKey
    summary: BatchSummary
    counts: Sequence[int]
    """Histogram of its rewards; all batches of the list share the scale."""


def _number_text(count: int) -> str:
    """Empty where there are none."""
    return str(count or "")


BATCHES: View[ListedBatch] = View(
    key=lambda batch: batch.key.label,
    columns=(
        Column("step", lambda batch, _: batch.key.label),
        Column("samples", lambda batch, _: str(batch.summary.count), is_right=True),
        Column("reward", lambda batch, _: exact_text(batch.summary.mean), is_right=True),
        Column("std", lambda batch, _: exact_text(batch.summary.spread), is_right=True, goes=2),
        Column("rewards", lambda batch, _: histogram_blocks(batch.counts), goes=1),
        Column("groups", lambda batch, _: _number_text(batch.summary.groups), is_right=True, goes=3),
        Column("zero std", lambda batch, _: _number_text(batch.summary.flat_groups), is_right=True, goes=4),
        Column("truncated", lambda batch, _: _number_text(batch.summary.truncated), is_right=True, goes=5),
        Column("failed", lambda batch, _: _number_text(batch.summary.failed), is_right=True, goes=6),
    ),
)


def size_text(batch: Batch) -> str:
    """The number of samples; while they are not counted, the size of the file."""
    if batch.samples is not None:
        return str(batch.samples)
    return f"{batch.size_bytes / 1e6:.0f} MB" if batch.size_bytes >= 1e6 else "…"


def summary_texts(summary: BatchSummary) -> list[str]:
    """A batch in a few words: `128 samples`, `reward 0.62 ± 0.21`."""
    texts = [count_text(summary.count, "sample", is_grouped=True)]
    if math.isfinite(summary.mean):
        texts.append(f"reward {reward_text(summary.mean)} ± {reward_text(summary.spread)}")
    if summary.groups:
        flat = f", {summary.flat_groups} zero std ({FLAT})" if summary.flat_groups else ""
        texts.append(f"{count_text(summary.groups, 'group', is_grouped=True)}{flat}")
    if summary.truncated:
        texts.append(f"{summary.truncated} truncated {TRUNCATED.text}")
    if summary.failed:
        texts.append(f"{summary.failed} failed {FAILED.text}")
    return texts


# --- samples ----------------------------------------------------------------------------------------------


class ListedSample(NamedTuple):
    position: int
    """Position in the batch, from 0."""
    sample: Sample
    is_flat: bool
    """All rewards of its group are alike."""


def _group_text(row: ListedSample, _: float) -> str:
    return truncate(row.sample.group, GROUP_WIDTH) + (f" {FLAT}" if row.is_flat else "")


def _endings(sample: Sample) -> list[str]:
    endings = (sample.stop, "truncated" if sample.truncated else "", "failed" if sample.failed else "")
    return [ending for ending in endings if ending]


def _figure(name: str, value: Callable[[Sample], float]) -> Column[ListedSample]:
    return Column(
        name,
        lambda row, _: exact_text(value(row.sample)),
        is_right=True,
        brief=lambda row, _: reward_text(value(row.sample)),
    )


def _count(name: str, value: Callable[[Sample], int], *, goes: int) -> Column[ListedSample]:
    """A number that is negative where it is not known."""

    def text(row: ListedSample, unknown: str) -> str:
        count = value(row.sample)
        return unknown if count < 0 else str(count)

    return Column(
        name,
        lambda row, _: text(row, ""),
        is_right=True,
        goes=goes,
        brief=lambda row, _: text(row, UNKNOWN),
    )


SAMPLES: View[ListedSample] = View(
    key=lambda row: str(row.position),
    columns=(
        Column("#", lambda row, _: str(row.position), is_right=True),
        _figure("reward", lambda sample: sample.reward),
        _figure("advantage", lambda sample: sample.advantage),
        _count("in", lambda sample: sample.input_tokens, goes=2),
        _count("out", lambda sample: sample.output_tokens, goes=1),
        _count("turns", lambda sample: sample.turns, goes=5),
        Column("ended", lambda row, _: " ".join(_endings(row.sample)), least=8),
        Column("group", _group_text, least=8, goes=3, brief=lambda row, _: row.sample.group),
        Column("env", lambda row, _: row.sample.env, least=8, goes=4),
        Column("agents", lambda row, _: row.sample.agents, least=8, goes=6),
    ),
)


def sample_summary(sample: Sample) -> str:
    """`reward 0.620 · advantage 0.210 · 128 tokens · group 7 · reverse-text · stop`, as far as known."""
    texts = [
        f"reward {exact_text(sample.reward) or '?'}",
        f"advantage {exact_text(sample.advantage)}" if math.isfinite(sample.advantage) else "",
        f"{sample.output_tokens} tokens" if sample.output_tokens >= 0 else "",
        f"group {sample.group}" if sample.group else "",
        sample.env,
        sample.agents,
        *_endings(sample),
    ]
    return " · ".join(text for text in texts if text)


def sample_figures(sample: Sample) -> str:
    """`reward 0.62 · advantage 0.21 · 40 → 128 tokens · 3 turns · stop`, above a sample that is opened."""
    texts = [f"reward {reward_text(sample.reward)}"]
    if math.isfinite(sample.advantage):
        texts.append(f"advantage {reward_text(sample.advantage)}")
    if sample.output_tokens >= 0:
        texts.append(f"{max(0, sample.input_tokens)} → {sample.output_tokens} tokens")
    if sample.turns > 1:
        texts.append(f"{sample.turns} turns")
    texts += [
        text for text in (sample.stop, f"truncated {TRUNCATED.text}" if sample.truncated else "") if text
    ]
    return " · ".join(texts)


# --- groups -----------------------------------------------------------------------------------------------

GROUPS: View[SampleGroup] = View(
    key=lambda group: group.name,
    columns=(
        Column("reward", lambda group, _: reward_text(group.mean), is_right=True),
        Column("std", lambda group, _: reward_text(group.spread), is_right=True),
        Column("n", lambda group, _: str(len(group.indices)), is_right=True),
        Column("group", lambda group, _: group.name),
        Column(
            "worth",
            lambda group, _: Cell("zero std: no gradient" if group.is_flat else "", "busy"),
            heading="",
        ),
    ),
)
