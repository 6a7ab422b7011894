"""Batches, samples and groups of rollouts are drawn as one line apiece. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content

from rltui.base.text import BLOCKS, truncate
from rltui.core.rollouts.batches import Batch, BatchSummary, Only, Order, Sample, SampleGroup, histogram
from rltui.ui.rollout_listing import RolloutListing
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.views.rollout import (
    FAILED,
    FLAT,
    GROUPS,
    SAMPLES,
    TRUNCATED,
    ListedSample,
    histogram_blocks,
    reward_text,
    size_text,
    summary_texts,
)
from rltui.views.table import Column

_BINS = 8
"""Bins of the histogram in a batch's line."""
MARK = "✓"
_LABEL, _COUNT = 8, 5
_FIGURE, _TOKENS, _TURNS, _GROUP = 7, 7, 4, 9
_SAMPLES = SAMPLES.named(("reward", "advantage", "out", "turns", "group", "agents"), is_brief=True)
_HEADINGS = {"advantage": "advant.", "out": "tokens", "turns": "turn"}
_MIDDLE, _WIDE, _WIDEST = 40, 60, 90
"""A sample's line of the first width has its turns and its end, too; of the second its advantage and its
environment; of the third its end and its group beside several agents.
"""


_TALL_BINS, _TALL_ROWS = 9, 4
_ORDER_WORDS: dict[Order, str] = {
    "arrival": "by arrival",
    "worst": "worst first",
    "best": "best first",
    "advantage": "largest advantage first",
    "longest": "longest first",
    "group": "by group",
}
_NOUNS: dict[Only, str] = {
    "": "Samples",
    "truncated": "Truncated samples",
    "failed": "Failed samples",
    "flat": "Zero-std samples",
}


class RolloutLines:
    """The lines of a listing, and what stands around them. A width is in cells."""

    def __init__(self, listing: RolloutListing) -> None:
        self._listing = listing

    def batch(self, index: int, width: int) -> Content:
        del width
        batch = self._listing.batches[index]
        metrics = self._listing.figures.get(batch.key)
        if metrics is None:
            return batch_line(batch, None, ())
        counts = histogram(metrics.table.columns["reward"], _BINS, *self._listing.scale)
        return batch_line(batch, metrics.summary, counts)

    def row(self, index: int, width: int) -> Content:
        """A sample or a group."""
        listing = self._listing
        if listing.groups is not None:
            return group_line(listing.groups[index], width)
        sample = listing.table[listing.indices[index]]
        is_marked = listing.key is not None and (listing.key, sample.where) in listing.marked
        return sample_line(sample, width, is_flat=sample.group in listing.flat, is_marked=is_marked)

    def heading(self, index: int, width: int) -> Content:
        del index
        if not self._listing.count:
            return Content("")
        if self._listing.groups is not None:
            return group_heading(width)
        first = self._listing.table[self._listing.indices[0]]
        return sample_heading(width, has_agents=bool(first.agents))

    @property
    def title(self) -> Content:
        """The title says which step is listed, how it is filtered and how sorted."""
        listing = self._listing
        label = "" if listing.key is None else clean_line(listing.key.label)
        step = "" if not label else f" of step {label}" if label[:1].isdigit() else f" of {label}"
        if listing.groups is not None:
            return Content.styled(f"Groups{step}", "bold")
        facts = [f"group {clean_line(listing.group)}" if listing.group else ""]
        facts.append(f"{len(listing.matches)} match" if listing.matches is not None else "")
        facts.append(_ORDER_WORDS[listing.order])
        more = "".join(f" · {fact}" for fact in facts if fact)
        return Content.assemble((f"{_NOUNS[listing.only]}{step}", "bold"), (more, FAINT))

    @property
    def steps_title(self) -> Content:
        if not self._listing.batches:
            return Content.styled("Steps", "bold")
        low, high = self._listing.scale
        return Content.assemble(("Steps", "bold"), (f" · reward {low:g} … {high:g}", FAINT))

    @property
    def summary(self) -> str:
        """The metrics of the chosen batch; empty where they are not known."""
        metrics = self._listing.chosen_figures
        return "" if metrics is None else " · ".join(summary_texts(metrics.summary))

    @property
    def histogram(self) -> Content:
        listing = self._listing
        if listing.chosen_figures is None:
            return Content("")
        counts = histogram(listing.table.columns["reward"], _TALL_BINS, *listing.scale)
        return Content("\n").join(histogram_rows(counts, _TALL_ROWS, *listing.scale))


def batch_line(batch: Batch, summary: BatchSummary | None, counts: Sequence[int]) -> Content:
    label = clean_line(batch.key.label)
    if batch.key.step < 0 and batch.key.kind == "eval":
        label = truncate(label, _LABEL + _FIGURE)
        return Content.assemble(" ", label, (f" {size_text(batch)}", FAINT))
    line = f" {truncate(label, _LABEL):<{_LABEL}}"
    if summary is None or not summary.count:
        return Content.assemble(line, (f"{'·':>{_FIGURE}} {'':{_BINS}}{size_text(batch):>{_COUNT}}", FAINT))
    return Content.assemble(
        line,
        f"{reward_text(summary.mean):>{_FIGURE}} ",
        (histogram_blocks(counts), "$text-success"),
        (f"{size_text(batch):>{_COUNT}}", FAINT),
    )


def sample_heading(width: int, *, has_agents: bool = False) -> Content:
    fragments = [f"{'':3}"]
    for column, cells, _ in _sample_columns(width, has_agents=has_agents):
        title = _HEADINGS.get(column.name, column.name)
        fragments.append(f"  {title:<{-cells}}  " if cells < 0 else title.rjust(cells))
    fragments += ["ended"] if width >= (_WIDEST if has_agents else _MIDDLE) else []
    return Content.styled(truncate("".join(fragments), width), FAINT)


def _sample_columns(width: int, *, has_agents: bool) -> list[tuple[Column[ListedSample], int, str]]:
    """Columns with their cells, negative where a text is aligned at the left, and their styles.

    A list of samples with several agents has them in place of the group and the end, unless it is very wide.
    """
    reward, advantage, tokens, turns, group, agents = _SAMPLES
    columns = [(reward, _FIGURE, "")]
    columns += [(advantage, _FIGURE + 1, FAINT)] if width >= _WIDE else []
    columns.append((tokens, _TOKENS, ""))
    columns += [(turns, _TURNS + 1, "")] if width >= _MIDDLE else []
    if has_agents and width < _WIDEST:
        room = width - sum(cells for _, cells, _ in columns) - 7  # signs before, spaces around it
        return [*columns, (agents, -max(_GROUP, room), "")]
    return [*columns, (group, -_GROUP, FAINT)]


def sample_line(sample: Sample, width: int, *, is_flat: bool, is_marked: bool) -> Content:
    listed = ListedSample(0, sample, is_flat)
    fragments: list[str | tuple[str, str]] = [
        (MARK if is_marked else " ", "bold $accent"),
        (FLAT if is_flat else " ", STYLES["busy"]),
        " ",
    ]
    for column, cells, style in _sample_columns(width, has_agents=bool(sample.agents)):
        text = clean_line(column.cell(listed, 0.0).text)
        if cells < 0:
            fragments.append((f"  {truncate(text, -cells):<{-cells}}  ", style))
        else:
            fragments.append((text.rjust(cells), style))
    fragments += [(f"{FAILED.text} ", f"bold {STYLES['bad']}")] if sample.failed else []
    fragments += [(f"{TRUNCATED.text} ", STYLES["busy"])] if sample.truncated else []
    fragments += [clean_line(sample.stop)] if width >= (_WIDEST if sample.agents else _MIDDLE) else []
    line = Content.assemble(*fragments)
    for text in (sample.agents, sample.env):  # the first that there is room for
        more = Content.styled(f"  {clean_line(text)}", FAINT)
        if text and line.cell_length + more.cell_length <= width:
            line += more
            break
    return line.truncate(width, ellipsis=True)


_GROUP_CELLS = (7, 8, 5)
"""Widths of a group's metrics."""


def group_heading(width: int) -> Content:
    titles = [column.title.rjust(cells) for column, cells in zip(GROUPS.columns, _GROUP_CELLS, strict=False)]
    return Content.styled(truncate(f"{'':3}{''.join(titles)}  group", width), FAINT)


def group_line(group: SampleGroup, width: int) -> Content:
    """Return the line of a group; where it has no room for the words, a sign says that its std is zero."""
    *metrics, name, value = (column.cell(group, 0.0).text for column in GROUPS.columns)
    if len(value) + len(name) + sum(_GROUP_CELLS) + 7 > width:
        value = ""
    return Content.assemble(
        (f" {FLAT if group.is_flat else ' '} ", STYLES["busy"]),
        "".join(metric.rjust(cells) for metric, cells in zip(metrics, _GROUP_CELLS, strict=True)),
        f"  {clean_line(name)}",
        (f"  {value}" if value else "", STYLES["busy"]),
    )


_STEPS = f" {BLOCKS}"


def histogram_rows(counts: Sequence[int], rows: int, low: float, high: float) -> list[Content]:
    """Columns of two cells, so many rows high, and the scale below."""
    highest = max(counts, default=0) or 1
    lines = []
    for row in range(rows - 1, -1, -1):
        cells = []
        for count in counts:
            eighths = math.ceil(count / highest * rows * 8) - row * 8
            cells.append(_STEPS[max(0, min(8, eighths))] * 2)
        note = f"  {highest}" if row == rows - 1 else ""
        lines.append(Content.assemble((" ".join(cells), "$text-success"), (note, FAINT)))
    low_label, high_label = f"{low:g}", f"{high:g}"
    width = len(counts) * 3 - 1
    return [*lines, Content.styled(f"{low_label}{high_label:>{max(1, width - len(low_label))}}", FAINT)]
