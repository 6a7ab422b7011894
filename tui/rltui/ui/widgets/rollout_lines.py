"""How batches, samples and groups of rollouts are drawn, a line each. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content

from rltui.core.rollouts import Batch, BatchSummary, Sample, SampleGroup
from rltui.core.text import truncate
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.views.rollout import histogram_blocks

BINS = 8
"""Of the histogram in a batch's line."""
FLAT = "="
"""Stands behind the name of a group without spread, and before the samples of one."""
MARK = "✓"
_LABEL, _COUNT = 9, 5
_FIGURE, _TOKENS, _TURNS, _GROUP = 7, 7, 4, 9
_WIDE = 76
"""From here on a sample's line has its advantage and its environment too."""


def figure(value: float) -> str:
    """Three digits that count, at most six cells; a dot where it is not told."""
    if not math.isfinite(value):
        return "·"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def batch_line(batch: Batch, summary: BatchSummary | None, counts: Sequence[int]) -> Content:
    """Step, mean reward, histogram, samples."""
    label = clean_line(batch.key.label)
    if batch.key.step < 0 and batch.key.kind == "eval":
        label = truncate(label, _LABEL + _FIGURE)
        return Content.assemble(label, (f" {_samples(batch)}", FAINT))
    line = f"{truncate(label, _LABEL):<{_LABEL}}"
    if summary is None or not summary.count:
        return Content.assemble(line, (f"{'·':>{_FIGURE}} {'':{BINS}}{_samples(batch):>{_COUNT}}", FAINT))
    return Content.assemble(
        line,
        f"{figure(summary.mean):>{_FIGURE}} ",
        (histogram_blocks(counts), "$text-success"),
        (f"{_samples(batch):>{_COUNT}}", FAINT),
    )


def _samples(batch: Batch) -> str:
    if batch.samples is not None:
        return str(batch.samples)
    return f"{batch.size_bytes / 1e6:.0f} MB" if batch.size_bytes >= 1e6 else "…"


def sample_heading(width: int) -> Content:
    parts = [f"{'':3}", "reward".rjust(_FIGURE)]
    if width >= _WIDE:
        parts.append("advant.".rjust(_FIGURE + 1))
    parts += ["tokens".rjust(_TOKENS), "turn".rjust(_TURNS + 1), f"  {'group':<{_GROUP}}", "  ended"]
    return Content.styled(truncate("".join(parts), width), FAINT)


def sample_line(sample: Sample, width: int, *, is_flat: bool, is_marked: bool) -> Content:
    tokens = "·" if sample.output_tokens < 0 else str(sample.output_tokens)
    turns = "·" if sample.turns < 0 else str(sample.turns)
    group = truncate(clean_line(sample.group), _GROUP)
    parts: list[str | tuple[str, str]] = [
        (MARK if is_marked else " ", "bold $accent"),
        (FLAT if is_flat else " ", "$text-warning"),
        " ",
        figure(sample.reward).rjust(_FIGURE),
    ]
    if width >= _WIDE:
        parts.append((figure(sample.advantage).rjust(_FIGURE + 1), FAINT))
    parts += [tokens.rjust(_TOKENS), turns.rjust(_TURNS + 1), (f"  {group:<{_GROUP}}  ", FAINT)]
    if sample.failed:
        parts.append(("✗ ", "bold $text-error"))
    if sample.truncated:
        parts.append(("✂ ", "$text-warning"))
    parts.append(clean_line(sample.stop))
    if width >= _WIDE and sample.env:
        parts.append((f"  {clean_line(sample.env)}", FAINT))
    return Content.assemble(*parts)


def group_heading(width: int) -> Content:
    return Content.styled(truncate(f"{'':3}{'reward':>7}{'spread':>8}{'n':>5}  group", width), FAINT)


def group_line(group: SampleGroup) -> Content:
    """Mean, spread, and whether it teaches anything."""
    return Content.assemble(
        (f" {FLAT if group.is_flat else ' '} ", "$text-warning"),
        figure(group.mean).rjust(_FIGURE),
        figure(group.spread).rjust(_FIGURE + 1),
        f"{len(group.places):>5}  ",
        clean_line(group.name),
        ("  no spread: teaches nothing" if group.is_flat else "", "$text-warning"),
    )


def summary_parts(summary: BatchSummary) -> list[str]:
    """A batch in a few words: `128 samples`, `reward 0.62 ± 0.21`."""
    parts = [_counted(summary.count, "sample")]
    if math.isfinite(summary.mean):
        parts.append(f"reward {figure(summary.mean)} ± {figure(summary.spread)}")
    if summary.groups:
        flat = f", {summary.flat_groups} without spread ({FLAT})" if summary.flat_groups else ""
        parts.append(f"{_counted(summary.groups, 'group')}{flat}")
    if summary.truncated:
        parts.append(f"{summary.truncated} truncated ✂")
    if summary.failed:
        parts.append(f"{summary.failed} failed ✗")
    return parts


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count:,} {what}s"


_STEPS = " ▁▂▃▄▅▆▇█"


def histogram_rows(counts: Sequence[int], rows: int, low: float, high: float) -> list[Content]:
    """Columns of two cells, so many rows high, and the scale below."""
    most = max(counts, default=0) or 1
    lines = []
    for row in range(rows - 1, -1, -1):
        cells = []
        for count in counts:
            eighths = math.ceil(count / most * rows * 8) - row * 8
            cells.append(_STEPS[max(0, min(8, eighths))] * 2)
        note = f"  {most}" if row == rows - 1 else ""
        lines.append(Content.assemble((" ".join(cells), "$text-success"), (note, FAINT)))
    left, right = f"{low:g}", f"{high:g}"
    width = len(counts) * 3 - 1
    return [*lines, Content.styled(f"{left}{right:>{max(1, width - len(left))}}", FAINT)]
