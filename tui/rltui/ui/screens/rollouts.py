"""The rollout screen: reads, searches, compares and writes samples. Binds and forwards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from rltui.core.log_query import Query
from rltui.core.rollouts import BatchKey, Only, Order, Sample, Transcript, histogram
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.copying import CopyRequested
from rltui.ui.found_prompts import FoundPrompt, FoundPrompts
from rltui.ui.key_bindings import bind, keys
from rltui.ui.messages import waiting
from rltui.ui.rollout_listing import RolloutListing, RolloutUpdate
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.state import AppState, ExperimentState
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets import rollout_lines
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.row_list import list_keys
from rltui.ui.widgets.transcript_view import TranscriptView
from rltui.ui.widgets.virtual_list import VirtualList
from rltui.views.rollout import no_rollouts_text, reward_text, summary_texts

_LOOK_S = 1.0
"""The interval between two checks of the files, once all is read."""
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
_SEARCH_SLICE = 16
"""Samples read in one go: a key that ends the search waits for no more."""
_ON_LISTS = frozenset(("read", "sort", "narrow", "search", "toggle_all"))
_FORMATS = {
    "jsonl": ("JSONL", "The records as they were written, a line each"),
    "md": ("Markdown", "The conversations, to read or to send around"),
}


def _title(text: str, key: BatchKey, sample: Sample | None = None) -> Content:
    reward = "" if sample is None else f" · reward {reward_text(sample.reward)}"
    label = clean_line(key.label)
    step = f"step {label}" if label[:1].isdigit() else label
    return Content.assemble((text, "bold"), (f" · {step}{reward}", FAINT))


class RolloutScreen(BaseScreen):
    """Reads, searches, compares and writes samples. The run's is made once: it stays when it is left."""

    CSS_PATH: ClassVar = ["rollouts.tcss"]
    BINDINGS = keys(
        KeyContext.ROLLOUTS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "read", "read",
             "Read the sample under the cursor on the whole screen; of a group, list its samples",
             footer=Footer.YES),
        bind(verbs.FILTER, "narrow",
             help="Only truncated ones, only failed ones, only those of groups without spread, and all "
                  "again", footer=Footer.YES),
        bind(verbs.SORT, "sort(1)",
             help="Sort by arrival, worst or best reward, advantage, length, or group", footer=Footer.YES),
        bind(verbs.SORT_BACK, "sort(-1)"),
        bind(verbs.SEARCH, help="Only samples whose text matches a regular expression", footer=Footer.YES),
        bind(verbs.GROUP, "toggle_groups", "groups",
             "List the groups, each with the mean and spread of its rewards, or the samples",
             footer=Footer.YES),
        bind(verbs.GROUP, "toggle_tools", "tools",
             "While reading: unfold what tools got and answered, and fold it", footer=Footer.YES),
        bind(verbs.COMPARE,
             help="Read it side by side with the marked one, else with the same prompt at another step",
             footer=Footer.YES),
        bind(verbs.MARK, help="Mark the sample, to compare or to write it"),
        bind(verbs.COPY, help="Copy the sample under the cursor, not wrapped"),
        bind(verbs.WRITE, help="Write the marked samples, or this one, into a new file: JSONL or Markdown",
             footer=Footer.YES),
        bind(verbs.PANE_NEXT, "focus_beside(1)"),
        bind(verbs.PANE_PREVIOUS, "focus_beside(-1)"),
        bind(verbs.CURSOR_DOWN, "moved_list.move(1)", help="Next step, sample or line"),
        bind(verbs.CURSOR_UP, "moved_list.move(-1)", help="Previous step, sample or line"),
        bind(verbs.CURSOR_LEFT, "next_sample(-1)", help="The previous sample, also while reading"),
        bind(verbs.CURSOR_RIGHT, "next_sample(1)", help="The next sample, also while reading"),
        bind(verbs.EARLIER, "go_to_step(1)", "earlier step",
             "The same list at the next earlier step; in a comparison, the prompt at the next step beyond"),
        bind(verbs.LATER, "go_to_step(-1)", "later step", "The same list at the next later step"),
        bind(verbs.FIND_NEXT, "next_sample(1)", help="The next sample, of those found if there was a search"),
        bind(verbs.FIND_PREVIOUS, "next_sample(-1)",
             help="The previous sample, of those found if there was a search"),
        bind(verbs.ALL, "toggle_all", help="Also the samples that no batch took, and only the batch again"),
        bind(verbs.WHOLE, "toggle_raw", "raw", "The record as it was written, or the conversation"),
        bind(verbs.BACK, help="End the search, the comparison, the reading; back to the overview",
             footer=Footer.YES),
    )  # fmt: skip
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide"), (170, "-huge")]  # noqa: RUF012 - as Textual declares it
    place = KeyContext.ROLLOUTS

    def __init__(
        self,
        app_state: AppState,
        *,
        folder: str = "",
        subject: str = "",
        back_to: str = "",
        state: ExperimentState | None = None,
    ) -> None:
        """`folder`: as `open_rollouts`; `subject` says whose they are, `back_to` which screen is below."""
        super().__init__(app_state, state)
        self._subject, self._back_to = subject, back_to
        self._source = self.experiment.open_rollouts(folder)
        self._listing = RolloutListing(self._source)
        self._reader = ThreadPoolExecutor(1, "rollouts")
        """One thread, whose memory is used again: each of several keeps some tens of megabytes."""
        self._steps = VirtualList(self._batch_line, id="rollout-steps")
        self._samples = VirtualList(self._sample_line, id="rollout-samples")
        self._heading = VirtualList(self._heading_line, id="rollout-heading", count=1, has_cursor=False)
        self._summary = Static(id="rollout-summary", markup=False)
        self._histogram = Static(id="rollout-histogram", markup=False)
        self._steps_box = Vertical(id="rollout-steps-box")
        self._samples_box = Vertical(id="rollout-samples-box")
        self._reading = TranscriptView()
        self._other = TranscriptView()
        self._reading_box = Vertical(id="rollout-reading", classes="rollout-reading")
        self._other_box = Vertical(id="rollout-other", classes="rollout-reading")
        self._prompts = FoundPrompts()
        """Samples that the open one is compared with."""
        self._in_turn = asyncio.Lock()
        """Each key goes on from the prompt that the one before has come to."""
        self._title = Static(id="rollout-title", markup=False)
        self._search = Input(
            placeholder="words or a regular expression that the text has", id="rollout-search", compact=True
        )
        self._search.cursor_blink = False
        self._progress = ""

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._search
        yield self._summary
        with Horizontal(id="rollout-body"):
            with self._steps_box:
                yield self._histogram
                yield self._steps
            with self._samples_box:
                yield self._heading
                yield self._samples
            with self._reading_box:
                yield self._reading
            with self._other_box:
                yield self._other

    def on_mount(self) -> None:
        self._samples.focus()
        self._update_title()

    def say(self, progress: str) -> None:
        self._progress = progress
        self._update_title()

    def _update_title(self) -> None:
        marked_count = f"{len(self._listing.marked)} marked" if self._listing.marked else ""
        self._title.update(
            self.state.heading(
                "Rollouts", clean_line(self._subject), marked_count, clean_line(self._progress)
            )
        )

    # values in

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
        listing = self._listing
        while True:
            key, top = listing.key, self._steps.scroll_offset.y
            in_view = listing.batches[top : top + max(1, self._steps.size.height)]
            counts = {batch: metrics.count for batch, metrics in listing.figures.items()}
            update = await asyncio.get_running_loop().run_in_executor(
                self._reader, listing.read, key, in_view, counts
            )
            if key == listing.key:
                self._show_update(update)
            if not update.is_behind:
                await asyncio.sleep(_LOOK_S)

    def _show_update(self, update: RolloutUpdate) -> None:
        listing = self._listing
        index = listing.take_batches(update)
        if index is not None:
            self._steps.show(len(listing.batches), index)
            if listing.batches and listing.batches[index].key != listing.key:
                self._choose(listing.batches[index].key)
                return
        has_changed = listing.take_table(update)
        if has_changed:
            self._lay_out()
        if has_changed or update.figures or self._source.problem or not listing.batches:
            self._steps.refresh()
            self._update_words()

    # lists

    @on(VirtualList.CursorMoved, "#rollout-steps")
    def _chose_step(self) -> None:
        self._listing.follows_newest = False
        self._choose(self._listing.batches[self._steps.at].key)

    def _choose(self, key: BatchKey) -> None:
        self._listing.choose(key)
        self._lay_out(0)
        in_background(self, self._follow, group="rollouts")

    def _lay_out(self, index: int | None = None) -> None:
        """The list anew, with the cursor on the same sample, or at `index`."""
        same = self._listing.lay_out(self._sample)
        self._samples.show(self._listing.count, same if index is None else index)
        self._update_words()
        self.look_at_sample()

    @on(VirtualList.CursorMoved, "#rollout-samples")
    def _stop_following(self) -> None:
        self._listing.follows_newest = False
        self.look_at_sample()

    @property
    def _sample(self) -> Sample | None:
        """A group gives its first sample."""
        return self._listing.sample(self._samples.at)

    def _batch_line(self, index: int, width: int) -> Content:
        del width
        batch = self._listing.batches[index]
        metrics = self._listing.figures.get(batch.key)
        if metrics is None:
            return rollout_lines.batch_line(batch, None, ())
        counts = histogram(metrics.table.columns["reward"], rollout_lines.BINS, *self._listing.scale)
        return rollout_lines.batch_line(batch, metrics.summary, counts)

    def _sample_line(self, index: int, width: int) -> Content:
        listing = self._listing
        if listing.groups is not None:
            return rollout_lines.group_line(listing.groups[index])
        sample = listing.table[listing.indices[index]]
        is_marked = listing.key is not None and (listing.key, sample.where) in listing.marked
        is_flat = sample.group in listing.flat
        return rollout_lines.sample_line(sample, width, is_flat=is_flat, is_marked=is_marked)

    def _heading_line(self, index: int, width: int) -> Content:
        del index
        is_grouped = self._listing.groups is not None
        return (rollout_lines.group_heading if is_grouped else rollout_lines.sample_heading)(width)

    def _update_words(self) -> None:
        self._heading.refresh()
        listing = self._listing
        label = "" if listing.key is None else clean_line(listing.key.label)
        filters = [_ONLY_WORDS[listing.only], f"group {clean_line(listing.group)}" if listing.group else ""]
        filters.append(f"{len(listing.matches)} match" if listing.matches is not None else "")
        filters.append(_ORDER_WORDS[listing.order])
        name = "Samples" if listing.groups is None else "Groups"
        more = (
            ""
            if listing.groups is not None
            else "".join(f" · {filter_text}" for filter_text in filters if filter_text)
        )
        step = "" if not label else f" of step {label}" if label[:1].isdigit() else f" of {label}"
        self._samples_box.border_title = Content.assemble((f"{name}{step}", "bold"), (more, FAINT))
        low, high = listing.scale
        self._steps_box.border_title = Content.assemble(
            ("Steps", "bold"), (f" · reward {low:g} … {high:g}", FAINT)
        )
        metrics = None if listing.key is None else listing.figures.get(listing.key)
        text = " · ".join(summary_texts(metrics.summary)) if metrics else self._nothing_text()
        self._summary.update(Content(text))
        counts = histogram(listing.table.columns["reward"], _TALL_BINS, low, high)
        rows = rollout_lines.histogram_rows(counts, _TALL_ROWS, low, high) if metrics else []
        self._histogram.update(Content("\n").join(rows))

    def _nothing_text(self) -> str:
        if self._source.problem:
            return f"⚠ {clean_line(self._source.problem)}"
        if self._listing.key is not None:
            return "reading…"
        status = self.state.status
        return no_rollouts_text("" if status is None else status.framework)

    def action_sort(self, orders: int) -> None:
        self._listing.sort(orders)
        self._lay_out(0)

    def action_narrow(self) -> None:
        self._listing.narrow()
        self._lay_out(0)

    def action_toggle_groups(self) -> None:
        self._listing.toggle_groups()
        self._lay_out(0)

    def action_toggle_all(self) -> None:
        self._listing.toggle_all()
        text = "All that came in" if self._listing.wants_all else "What the batches took"
        self.notify(text, markup=False)
        in_background(self, self._follow, group="rollouts")

    # one sample in full

    def look_at_sample(self) -> None:
        if self.has_class("-comparing"):
            return
        if self._sample is None:
            self._reading.show(None)
            self._reading_box.border_title = None
        elif self.has_class("-reading") or not self.has_class("-narrow"):
            in_background(self, self._load, group="sample")

    async def _load(self) -> None:
        key, sample = self._listing.key, self._sample
        if key is None or sample is None:
            return
        try:
            async with waiting(self.app, "Reading the sample"):
                transcript = await asyncio.to_thread(self._source.open, key, sample)
        except RltuiError as error:
            self._reading.show(None, note=clean_line(str(error).replace("\n", " ")))
            return
        self._reading.show(transcript)
        position = f" {self._samples.at + 1} of {self._samples.count}"
        self._reading_box.border_title = _title(f"Sample{position}", key)

    def action_toggle_raw(self) -> None:
        for view in (self._reading, self._other):
            view.is_raw = not view.is_raw
            view.lay_out()

    def action_toggle_tools(self) -> None:
        for view in (self._reading, self._other):
            view.is_folded = not view.is_folded
            view.lay_out()

    def copied(self) -> CopyRequested | None:
        """A sample in full, as soon as it is read; of the other lists their line."""
        is_sample = self.has_class("-reading") or self.focused is self._samples
        return (self._reading.copied() if is_sample else None) or super().copied()

    # two side by side

    def action_compare(self) -> None:
        """The other side is the marked sample, or the prompt at another step."""
        transcript, key = self._reading.transcript, self._listing.key
        if transcript is None or key is None or self._sample is None:
            self.notify("Read a sample first, then compare it", markup=False)
            return
        current = (key, transcript.sample.where)
        marked_samples = [
            FoundPrompt(self._source, mark[0], sample)
            for mark, sample in self._listing.marked.items()
            if mark != current
        ]
        self._prompts = FoundPrompts(
            marked_samples, None if marked_samples else self.prompts_elsewhere(key, transcript)
        )
        in_background(self, partial(self._compare, 0), group="compare")

    def prompts_elsewhere(self, key: BatchKey, transcript: Transcript) -> Iterator[FoundPrompt]:
        """The prompt of a sample at other steps, the nearest first. For a thread."""
        for other, sample in self._source.same_prompt(key, transcript):
            yield FoundPrompt(self._source, other, sample)

    async def _compare(self, batches: int) -> None:
        """Show the other one, so many further on."""
        async with self._in_turn:
            await self._go_on_comparing(batches)

    async def _go_on_comparing(self, batches: int) -> None:
        async with waiting(self.app, "Looking for the prompt"):
            async for prompt in self._prompts.look(batches):
                run_text = f" of {prompt.run}" if prompt.run else ""
                self.say(f"looking for the prompt at {prompt.key.label}{run_text}: esc ends it")
        self.say("")
        if not self._prompts.move(batches):
            self.notify(
                f"No further step has this prompt. Mark a sample with {key_of('mark')} to compare with that",
                markup=False,
            )
            return
        current = self._prompts.shown
        if current is None or current.sample is None:
            return
        try:
            async with waiting(self.app, "Reading the other sample"):
                transcript = await asyncio.to_thread(current.source.open, current.key, current.sample)
        except RltuiError as error:
            await self.show_error(error)
            return
        self._show_beside(current, transcript)

    def _show_beside(self, prompt: FoundPrompt, transcript: Transcript) -> None:
        own = self._reading.transcript
        if own is None or self._listing.key is None:
            return
        self.add_class("-reading", "-comparing")
        self._reading.focus()
        self._other.show(transcript)
        this = clean_line(self.experiment.name) if prompt.run else "This one"
        self._reading_box.border_title = _title(this, self._listing.key, own.sample)
        self._other_box.border_title = _title(prompt.run or "The other one", prompt.key, transcript.sample)

    # reading

    def action_read(self) -> None:
        """A sample opens on the whole screen, a group its samples; from the steps it leads to the samples."""
        if self._steps.has_focus:
            self._samples.focus()
        elif self._listing.groups is not None and self._listing.groups:
            self._listing.group, self._listing.groups = self._listing.groups[self._samples.at].name, None
            self._lay_out(0)
        elif self._sample is not None:
            self._listing.follows_newest = False
            self.add_class("-reading")
            self._reading.focus()
            self.refresh_bindings()
            self.look_at_sample()

    def enabled(self, command: str, *arguments: object) -> bool:
        """Keys that change the lists work only where the lists are visible."""
        is_reading = self.has_class("-reading") or isinstance(self.focused, TranscriptView)
        if command == "toggle_tools" and not is_reading:
            return False
        if command == "toggle_groups" and is_reading:
            return False
        if command in _ON_LISTS and self.has_class("-reading"):
            return False
        return super().enabled(command, *arguments)

    def action_back(self) -> None:
        if self._search.has_class("-shown"):
            self._search.remove_class("-shown")
            self._samples.focus()
        elif self._progress:
            for group in ("search", "compare"):
                self.workers.cancel_group(self, group)
            self.say("")
        elif self.has_class("-comparing"):
            self.remove_class("-comparing")
            self.look_at_sample()
        elif self.has_class("-reading"):
            self.remove_class("-reading")
            self._samples.focus()
            self.refresh_bindings()
        elif self._listing.matches is not None or self._listing.group:
            self._listing.matches, self._listing.group = None, ""
            self._lay_out()
        elif self._back_to:
            self.show_screen(self._back_to)
        else:
            self.action_show_overview()

    # moving

    @property
    def moved_list(self) -> VirtualList | TranscriptView:
        """The list, or the sample in full, that the keys move."""
        focused = self.focused
        return focused if isinstance(focused, VirtualList | TranscriptView) else self._samples

    def action_focus_beside(self, direction: int) -> None:
        visible = [
            pane for pane in (self._steps, self._samples, self._reading, self._other) if pane.size.width
        ]
        if visible:
            index = visible.index(self.moved_list) if self.moved_list in visible else 0
            visible[(index + direction) % len(visible)].focus()

    def action_go_to_step(self, batches: int) -> None:
        """Up or down the list of steps; in a comparison, on to another step."""
        if self.has_class("-comparing"):
            in_background(self, partial(self._compare, batches), group="compare", exclusive=False)
        else:
            self._steps.go_to(self._steps.at + batches)

    def action_next_sample(self, samples: int) -> None:
        self._samples.go_to(self._samples.at + samples)

    # search

    def action_search(self) -> None:
        self._search.add_class("-shown")
        self._search.focus()

    @on(Input.Submitted, "#rollout-search")
    def _begin_search(self, event: Input.Submitted) -> None:
        self._search.remove_class("-shown")
        self._samples.focus()
        if not event.value:
            self._listing.matches = None
            self._lay_out()
            return
        try:
            pattern = Query.from_text(event.value).pattern
        except RltuiError as error:
            self.notify(clean_line(error.title), severity="error", markup=False)
            return
        in_background(self, partial(self._find, pattern), group="search")

    async def _find(self, pattern: re.Pattern[str]) -> None:
        key, samples = self._listing.key, list(self._listing.table)
        if key is None:
            return
        self._listing.matches, self._listing.groups = [], None
        self._lay_out(0)
        looked, count = 0, len(samples)
        search = self._source.search(key, samples, pattern)
        try:
            while results := await asyncio.to_thread(lambda: list(islice(search, _SEARCH_SLICE))):
                if key != self._listing.key or self._listing.matches is None:
                    break
                if more := [index for index, matches in enumerate(results, start=looked) if matches]:
                    self._listing.matches = [*self._listing.matches, *more]
                    self._lay_out()
                looked += len(results)
                self.say(f"searched {looked} of {count}: esc ends it")
        except RltuiError as error:
            await self.show_error(error)
        self.say("")

    # marks, and what becomes of them

    def action_mark(self) -> None:
        """Mark it, or take the mark away, and go on to the next."""
        if self._listing.key is None or (sample := self._sample) is None:
            return
        self._listing.mark(sample)
        self._samples.refresh()
        self._update_title()
        if not self.has_class("-reading"):
            self._samples.go_to(self._samples.at + 1)

    def action_write(self) -> None:
        self.work(self._write(), changes=False)

    async def _write(self) -> None:
        marked_samples = [(key, sample) for (key, _), sample in self._listing.marked.items()]
        if not marked_samples and self._listing.key is not None and self._sample is not None:
            marked_samples = [(self._listing.key, self._sample)]
        if not marked_samples:
            self.notify("There is no sample under the cursor, and none is marked", markup=False)
            return
        count = "1 sample" if len(marked_samples) == 1 else f"{len(marked_samples)} samples"
        ending = await self.app.push_screen_wait(ChoiceMenu(f"Write {count} as", _FORMATS))
        if ending is None:
            return
        try:
            async with waiting(self.app, f"Writing {count}"):
                path = await asyncio.to_thread(self._export, marked_samples, ending)
        except RltuiError as error:
            await self.show_error(error)
            return
        self.notify(f"Written: {clean_line(str(path))}", timeout=15, markup=False)

    def _export(self, marked_samples: list[tuple[BatchKey, Sample]], ending: str) -> Path:
        transcripts = [self._source.open(key, sample) for key, sample in marked_samples]
        return self._source.keep(transcripts, ending)
