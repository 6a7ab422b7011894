"""Lists of the rollout screen: batches, and the samples or groups of one, sorted and narrowed."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from rltui.core.rollouts.batches import (
    ALL,
    NO_STEP,
    ONLY,
    ORDERS,
    Batch,
    BatchKey,
    BatchSummary,
    Only,
    Order,
    RolloutSource,
    Sample,
    SampleGroup,
    SampleTable,
    filter_samples,
    sort_samples,
)

LOOK_S = 1.0
"""The interval between two checks of the files, once all is read."""
_BUDGET_S = 0.08
_READ_AHEAD_BYTES = 8 << 20
"""A file up to this size is read for its line in the list of batches; a larger one when it is chosen."""
_SEARCH_SLICE = 16
"""Samples read in one go: a key that ends the search waits for no more."""
_GROWING = ("where", "turns", "output_tokens")
"""Columns that tell whether rollouts under way have gone on."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    count: int
    summary: BatchSummary
    table: SampleTable


@dataclass(frozen=True, slots=True)
class RolloutUpdate:
    is_behind: bool
    """More can be read at once."""
    batches: list[Batch]
    table: SampleTable
    """Samples of the batch under the cursor."""
    figures: dict[BatchKey, BatchFigures]


class RolloutListing:
    """Grows while the run goes on; the screen says where its cursors are."""

    def __init__(self, source: RolloutSource) -> None:
        self.source = source
        self.batches: list[Batch] = []
        self.figures: dict[BatchKey, BatchFigures] = {}
        self.key: BatchKey | None = None
        """The batch under the cursor."""
        self.table = SampleTable()
        self.indices: list[int] = []
        """Positions in the table of the samples that are listed."""
        self.groups: list[SampleGroup] | None = None
        """Listed instead, where groups are."""
        self.flat: set[str] = set()
        """Names of the groups without spread."""
        self.order: Order = "worst"
        self.only: Only = ""
        self.group = ""
        """Samples of other groups are left out."""
        self.wants_all = False
        """Samples that no batch took are listed too."""
        self.matches: list[int] | None = None
        """Places in the table that matched a search."""
        self.follows_newest = True
        """It holds until a person moves."""
        self.marked: dict[tuple[BatchKey, int], Sample] = {}
        self._reader = ThreadPoolExecutor(1, "rollouts")
        """One thread, whose memory is used again: each of several keeps some tens of megabytes."""
        self._laid_out = 0
        """Samples of the table that the list knows."""

    def close(self) -> None:
        """The thread ends with what it is reading."""
        self._reader.shutdown(wait=False, cancel_futures=True)

    async def updates(self, in_view: Callable[[], Sequence[Batch]]) -> AsyncIterator[RolloutUpdate]:
        """Read what there is in small pieces, the newest first; then look now and then, for ever.

        `in_view`: batches whose figures are seen.
        """
        while True:
            key = self.key
            counts = {batch: metrics.count for batch, metrics in self.figures.items()}
            update = await asyncio.get_running_loop().run_in_executor(
                self._reader, self.read, key, in_view(), counts
            )
            if key == self.key:
                yield update
            if not update.is_behind:
                await asyncio.sleep(LOOK_S)

    def read(
        self, key: BatchKey | None, in_view: Sequence[Batch], counts: Mapping[BatchKey, int]
    ) -> RolloutUpdate:
        """Runs in a thread and reads a portion; metrics of batches in view come once all else is read.

        `counts`: samples that the present metrics were computed from.
        """
        source = self.source
        is_behind = source.poll(key, _BUDGET_S)
        unread = [
            batch.key for batch in in_view if batch.samples is None and batch.size_bytes <= _READ_AHEAD_BYTES
        ]
        if not is_behind and unread:
            source.poll(unread[0], _BUDGET_S)
            is_behind = True
        batches = source.batches()
        needed = {batch.key for batch in in_view} | {key}
        metrics = {}
        for batch in batches:
            if batch.key in needed and batch.samples and counts.get(batch.key) != batch.samples:
                table = source.table(batch.key)
                metrics[batch.key] = BatchFigures(batch.samples, BatchSummary.of(table), table)
        return RolloutUpdate(is_behind, batches, SampleTable() if key is None else source.table(key), metrics)

    def take_batches(self, update: RolloutUpdate) -> int | None:
        """Take over the figures and the batches; where to put the cursor, if the batches are others."""
        self.figures.update(update.figures)
        keys = {batch.key for batch in update.batches}
        batches = [batch for batch in update.batches if self._is_listed(batch.key, keys)]
        if batches == self.batches:
            return None
        batch_keys = [batch.key for batch in batches]
        stays = self.key in batch_keys and not self.follows_newest
        self.batches = batches
        return batch_keys.index(self.key) if self.key and stays else _newest(batches)

    def take_table(self, update: RolloutUpdate) -> bool:
        """Take over the samples of the chosen batch; whether they are others.

        As many as before are others where a file was rewritten, or rollouts under way have gone on.
        """
        old, new = self.table, update.table
        is_other = old is not new and any(old.columns[name] != new.columns[name] for name in _GROWING)
        if len(new) == self._laid_out and not is_other:
            return False
        self.table = new
        return True

    def _is_listed(self, key: BatchKey, keys: Collection[BatchKey]) -> bool:
        """A step has two batches, all that came in and those taken: one is listed."""
        if key.kind == "live" or key.step == NO_STEP or key.part not in ("", ALL):
            return True
        other = key._replace(part="" if key.part == ALL else ALL)
        return (key.part == ALL) is self.wants_all or other not in keys

    def choose(self, key: BatchKey) -> None:
        """List this batch's samples, as soon as they are read."""
        self.key, self.matches, self.group = key, None, ""
        metrics = self.figures.get(key)
        self.table = SampleTable() if metrics is None else metrics.table

    def lay_out(self, previous: Sample | None = None) -> int | None:
        """Sort and narrow anew; the place of the sample `previous` in the list of samples, if it is there."""
        self._laid_out = len(self.table)
        groups = self.table.groups()
        self.flat = {group.name for group in groups if group.is_flat}
        if self.groups is not None:
            self.groups = sorted(groups, key=lambda group: (not group.is_flat, group.mean))
            return None
        self.indices = sort_samples(self.table, self.order, self._matching_positions())
        if previous is None:
            return None
        where = self.table.columns["where"]
        return next(
            (index for index, position in enumerate(self.indices) if where[position] == previous.where), None
        )

    def _matching_positions(self) -> list[int]:
        positions = filter_samples(self.table, self.only)
        if self.matches is not None:
            allowed = set(positions)
            positions = [position for position in self.matches if position in allowed]
        if self.group:
            positions = [
                position for position in positions if self.table.text("group", position) == self.group
            ]
        return positions

    @property
    def count(self) -> int:
        return len(self.indices) if self.groups is None else len(self.groups)

    def sample(self, index: int) -> Sample | None:
        """A group gives its first sample."""
        if self.groups is not None:
            position = self.groups[index].indices[0] if index < len(self.groups) else len(self.table)
        else:
            position = self.indices[index] if index < len(self.indices) else len(self.table)
        return self.table[position] if position < len(self.table) else None

    @property
    def chosen_figures(self) -> BatchFigures | None:
        return None if self.key is None else self.figures.get(self.key)

    @property
    def scale(self) -> tuple[float, float]:
        """Every histogram has this scale: 0 to 1, and further where a reward is."""
        summaries = [metrics.summary for metrics in self.figures.values()]
        lows = [summary.low for summary in summaries if math.isfinite(summary.low)]
        highs = [summary.high for summary in summaries if math.isfinite(summary.high)]
        return min([0.0, *lows]), max([1.0, *highs])

    # how a person looks at it

    def sort(self, orders: int) -> None:
        self.order = ORDERS[(ORDERS.index(self.order) + orders) % len(ORDERS)]
        self.follows_newest = False
        self.groups = None

    def narrow(self) -> None:
        self.only = ONLY[(ONLY.index(self.only) + 1) % len(ONLY)]
        self.follows_newest = False
        self.groups = None

    def toggle_groups(self) -> None:
        self.follows_newest = False
        self.groups = [] if self.groups is None else None
        self.group = ""

    def toggle_all(self) -> None:
        self.follows_newest = False
        self.wants_all = not self.wants_all
        if self.key is not None and self.key.step != NO_STEP and self.key.part in ("", ALL):
            self.key = self.key._replace(part=ALL if self.wants_all else "")

    async def search(self, pattern: re.Pattern[str]) -> AsyncIterator[int]:
        """List the samples that match, as they are found; how many have been read, again and again.

        It ends where another batch is chosen, or the search given up.
        """
        key, samples = self.key, list(self.table)
        if key is None:
            return
        self.matches, self.groups = [], None
        searched = 0
        yield searched
        search = self.source.search(key, samples, pattern)
        while results := await asyncio.to_thread(lambda: list(islice(search, _SEARCH_SLICE))):
            if key != self.key or self.matches is None:
                return
            self.matches += [index for index, matches in enumerate(results, start=searched) if matches]
            searched += len(results)
            yield searched

    def mark(self, sample: Sample) -> None:
        assert self.key is not None, "it is in a batch"
        name = (self.key, sample.where)
        if name in self.marked:
            del self.marked[name]
        else:
            self.marked[name] = sample


def _newest(batches: Sequence[Batch]) -> int:
    """Place of the newest one that is whole; else of the first."""
    complete = (
        index for index, batch in enumerate(batches) if batch.key.kind == "train" and not batch.key.part
    )
    return next(complete, 0)
