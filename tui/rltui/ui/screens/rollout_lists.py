"""The lists of the rollout screen: steps, samples, groups. They grow while the run goes on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from rltui.core.rollouts import (
    ALL,
    NO_STEP,
    ONLY,
    ORDERS,
    Batch,
    BatchKey,
    BatchSummary,
    Only,
    Order,
    Sample,
    SampleGroup,
    SampleTable,
    filter_samples,
    histogram,
    sort_samples,
)
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.shared import AppState, ExperimentState
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets import rollout_lines
from rltui.ui.widgets.virtual_list import VirtualList
from rltui.views.rollout import no_rollouts_text, summary_texts

_LOOK_S = 1.0
"""Between two looks, once all is read."""
_BUDGET_S = 0.08
_READ_AHEAD_BYTES = 8 << 20
"""A file up to this size is read for its line in the list of steps; a larger one when it is chosen."""
_TALL_BINS, _TALL_ROWS = 9, 4
_ORDER_WORDS: dict[Order, str] = {
    "arrival": "by arrival",
    "worst": "worst first",
    "best": "best first",
    "advantage": "largest advantage first",
    "longest": "longest first",
    "group": "by group",
}
_ONLY_WORDS: dict[Only, str] = {
    "": "",
    "truncated": "only truncated",
    "failed": "only failed",
    "flat": "only groups without spread",
}


@dataclass(frozen=True, slots=True)
class _Figures:
    count: int
    summary: BatchSummary
    table: SampleTable


@dataclass(frozen=True, slots=True)
class _News:
    is_behind: bool
    batches: list[Batch]
    table: SampleTable
    """Of the batch under the cursor."""
    figures: dict[BatchKey, _Figures]


class RolloutLists(BaseScreen):
    """The lists of steps and samples, which grow while the run goes on."""

    def __init__(self, home: AppState, folder: str = "", *, shared: ExperimentState | None = None) -> None:
        """`folder`: as `open_rollouts`."""
        super().__init__(home, shared)
        self._source = self.experiment.open_rollouts(folder)
        self._reader = ThreadPoolExecutor(1, "rollouts")
        """One thread, whose memory is used again: each of several keeps some tens of megabytes."""
        self._batches: list[Batch] = []
        self._figures: dict[BatchKey, _Figures] = {}
        self._key: BatchKey | None = None
        """Of the batch under the cursor."""
        self._table = SampleTable()
        self._laid_out = 0
        """Samples of it that the list knows."""
        self._places: list[int] = []
        """In the table, of what the list shows."""
        self._groups: list[SampleGroup] | None = None
        """What the list shows instead, where it shows groups."""
        self._flat: set[str] = set()
        self._order: Order = "arrival"
        self._only: Only = ""
        self._group = ""
        """Only samples of this one."""
        self._wants_all = False
        self._found: list[int] | None = None
        """Places that matched a search."""
        self._follows_newest = True
        """Until a person moves."""
        self._marked: dict[tuple[BatchKey, int], Sample] = {}
        self._steps = VirtualList(self._batch_line, id="rollout-steps")
        self._samples = VirtualList(self._sample_line, id="rollout-samples")
        self._heading = VirtualList(self._heading_line, id="rollout-heading", count=1, has_cursor=False)
        self._summary = Static(id="rollout-summary", markup=False)
        self._histogram = Static(id="rollout-histogram", markup=False)
        self._steps_box = Vertical(id="rollout-steps-box")
        self._samples_box = Vertical(id="rollout-samples-box")

    # news

    def on_screen_resume(self) -> None:
        in_background(self, self._follow, group="rollouts")

    def left(self) -> None:
        self.workers.cancel_group(self, "rollouts")
        self.workers.cancel_group(self, "search")

    def on_unmount(self) -> None:
        """The thread ends with what it is reading."""
        self._reader.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        """Read what there is in small pieces, the newest first; then look now and then."""
        while True:
            key, top = self._key, self._steps.scroll_offset.y
            in_view = self._batches[top : top + max(1, self._steps.size.height)]
            known = {each: figures.count for each, figures in self._figures.items()}
            news = await asyncio.get_running_loop().run_in_executor(
                self._reader, self._look, key, in_view, known
            )
            if key == self._key:
                self._show_news(news)
            if not news.is_behind:
                await asyncio.sleep(_LOOK_S)

    def _look(self, key: BatchKey | None, in_view: Sequence[Batch], known: Mapping[BatchKey, int]) -> _News:
        """In a thread: read some, of a batch in view whose figures are not known where all else is read."""
        source = self._source
        is_behind = source.poll(key, _BUDGET_S)
        unread = [
            each.key for each in in_view if each.samples is None and each.size_bytes <= _READ_AHEAD_BYTES
        ]
        if not is_behind and unread:
            source.poll(unread[0], _BUDGET_S)
            is_behind = True
        batches = source.batches()
        seen = {each.key for each in in_view} | {key}
        figures = {}
        for batch in batches:
            if batch.key in seen and batch.samples and known.get(batch.key) != batch.samples:
                table = source.table(batch.key)
                figures[batch.key] = _Figures(batch.samples, BatchSummary.of(table), table)
        return _News(is_behind, batches, SampleTable() if key is None else source.table(key), figures)

    def _show_news(self, news: _News) -> None:
        has_changed = bool(news.figures)
        self._figures.update(news.figures)
        keys = {batch.key for batch in news.batches}
        shown = [batch for batch in news.batches if self._is_wanted(batch.key, keys)]
        if shown != self._batches:
            shown_keys = [batch.key for batch in shown]
            is_there = self._key in shown_keys and not self._follows_newest
            at = shown_keys.index(self._key) if self._key and is_there else _newest(shown)
            self._batches = shown
            self._steps.show(len(shown), at)
            if shown and shown[at].key != self._key:
                self._choose(shown[at].key)
                return
        if len(news.table) != self._laid_out or _differ(news.table, self._table):
            self._table, has_changed = news.table, True
            self._lay_out()
        if has_changed or self._source.problem or not shown:
            self._steps.refresh()
            self._update_words()

    def _is_wanted(self, key: BatchKey, keys: Collection[BatchKey]) -> bool:
        """Of a step's parts, one: all that came in, or what the batch took."""
        if key.kind == "live" or key.step == NO_STEP or key.part not in ("", ALL):
            return True
        other = key._replace(part="" if key.part == ALL else ALL)
        return (key.part == ALL) is self._wants_all or other not in keys

    @property
    def _scale(self) -> tuple[float, float]:
        """Of all histograms: 0 to 1, and further where a reward is."""
        known = [figures.summary for figures in self._figures.values()]
        lows = [each.low for each in known if math.isfinite(each.low)]
        highs = [each.high for each in known if math.isfinite(each.high)]
        return min([0.0, *lows]), max([1.0, *highs])

    # lists

    @on(VirtualList.CursorMoved, "#rollout-steps")
    def _chose_step(self) -> None:
        self._follows_newest = False
        self._choose(self._batches[self._steps.at].key)

    def _choose(self, key: BatchKey) -> None:
        """Show its samples, as soon as they are read."""
        self._key, self._found, self._group = key, None, ""
        known = self._figures.get(key)
        self._table = SampleTable() if known is None else known.table
        self._lay_out(0)
        in_background(self, self._follow, group="rollouts")

    def _lay_out(self, at: int | None = None) -> None:
        """The list anew, with the cursor on the same sample, or at `at`."""
        before, self._laid_out = self._sample, len(self._table)
        groups = self._table.groups()
        self._flat = {group.name for group in groups if group.is_flat}
        if self._groups is not None:
            self._groups = sorted(groups, key=lambda group: (not group.is_flat, group.mean))
            self._samples.show(len(self._groups), at)
        else:
            self._places = sort_samples(self._table, self._order, self._wanted_places())
            if at is None and before is not None:
                where = self._table.columns["where"]
                at = next((at for at, each in enumerate(self._places) if where[each] == before.where), None)
            self._samples.show(len(self._places), at)
        self._update_words()
        self.look_at_sample()

    def _wanted_places(self) -> list[int]:
        places = filter_samples(self._table, self._only)
        if self._found is not None:
            allowed = set(places)
            places = [each for each in self._found if each in allowed]
        if self._group:
            places = [each for each in places if self._table.text("group", each) == self._group]
        return places

    @on(VirtualList.CursorMoved, "#rollout-samples")
    def _moved(self) -> None:
        self._follows_newest = False
        self.look_at_sample()

    def look_at_sample(self) -> None:
        raise NotImplementedError

    @property
    def _sample(self) -> Sample | None:
        """Under the cursor; of a group, its first."""
        at = self._samples.at
        if self._groups is not None:
            place = self._groups[at].places[0] if at < len(self._groups) else len(self._table)
        else:
            place = self._places[at] if at < len(self._places) else len(self._table)
        return self._table[place] if place < len(self._table) else None

    def _batch_line(self, at: int, width: int) -> Content:
        del width
        batch = self._batches[at]
        known = self._figures.get(batch.key)
        if known is None:
            return rollout_lines.batch_line(batch, None, ())
        counts = histogram(known.table.columns["reward"], rollout_lines.BINS, *self._scale)
        return rollout_lines.batch_line(batch, known.summary, counts)

    def _sample_line(self, at: int, width: int) -> Content:
        if self._groups is not None:
            return rollout_lines.group_line(self._groups[at])
        sample = self._table[self._places[at]]
        is_marked = self._key is not None and (self._key, sample.where) in self._marked
        is_flat = sample.group in self._flat
        return rollout_lines.sample_line(sample, width, is_flat=is_flat, is_marked=is_marked)

    def _heading_line(self, at: int, width: int) -> Content:
        del at
        is_grouped = self._groups is not None
        return (rollout_lines.group_heading if is_grouped else rollout_lines.sample_heading)(width)

    def _update_words(self) -> None:
        self._heading.refresh()
        label = "" if self._key is None else clean_line(self._key.label)
        words = [_ONLY_WORDS[self._only], f"group {clean_line(self._group)}" if self._group else ""]
        words += [f"{len(self._found)} match" if self._found is not None else "", _ORDER_WORDS[self._order]]
        shown = "Samples" if self._groups is None else "Groups"
        more = "" if self._groups is not None else "".join(f" · {word}" for word in words if word)
        step = "" if not label else f" of step {label}" if label[:1].isdigit() else f" of {label}"
        self._samples_box.border_title = Content.assemble((f"{shown}{step}", "bold"), (more, FAINT))
        low, high = self._scale
        self._steps_box.border_title = Content.assemble(
            ("Steps", "bold"), (f" · reward {low:g} … {high:g}", FAINT)
        )
        known = None if self._key is None else self._figures.get(self._key)
        text = " · ".join(summary_texts(known.summary)) if known else self._nothing_text()
        self._summary.update(Content(text))
        counts = histogram(self._table.columns["reward"], _TALL_BINS, low, high)
        rows = rollout_lines.histogram_rows(counts, _TALL_ROWS, low, high) if known else []
        self._histogram.update(Content("\n").join(rows))

    def _nothing_text(self) -> str:
        if self._source.problem:
            return f"⚠ {clean_line(self._source.problem)}"
        if self._key is not None:
            return "reading…"
        status = self.shared.status
        return no_rollouts_text("" if status is None else status.framework)

    # keys

    def action_sort(self, orders: int) -> None:
        self._follows_newest = False
        self._order = ORDERS[(ORDERS.index(self._order) + orders) % len(ORDERS)]
        self._groups = None
        self._lay_out(0)

    def action_narrow(self) -> None:
        self._follows_newest = False
        self._only = ONLY[(ONLY.index(self._only) + 1) % len(ONLY)]
        self._groups = None
        self._lay_out(0)

    def action_toggle_groups(self) -> None:
        self._follows_newest = False
        self._groups = [] if self._groups is None else None
        self._group = ""
        self._lay_out(0)

    def action_toggle_all(self) -> None:
        self._follows_newest = False
        self._wants_all = not self._wants_all
        if self._key is not None and self._key.step != NO_STEP and self._key.part in ("", ALL):
            self._key = self._key._replace(part=ALL if self._wants_all else "")
        self.notify("All that came in" if self._wants_all else "What the batches took", markup=False)
        in_background(self, self._follow, group="rollouts")


def _differ(one: SampleTable, other: SampleTable) -> bool:
    """In what may change without the number of samples: a file written anew, rollouts under way."""
    return one is not other and any(one.columns[name] != other.columns[name] for name in _TELLING)


_TELLING = ("where", "turns", "output_tokens")


def _newest(batches: Sequence[Batch]) -> int:
    """Place of the newest one that is whole; else of the first."""
    whole = (at for at, batch in enumerate(batches) if batch.key.kind == "train" and not batch.key.part)
    return next(whole, 0)
