"""The rollout screen: reads, searches, compares and writes samples. Binds and forwards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from rltui.core.log_query import Query
from rltui.core.rollouts import BatchKey, RolloutSource, Sample, Transcript
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS
from rltui.ui.copying import CopyRequested
from rltui.ui.key_bindings import bind, keys
from rltui.ui.messages import waiting
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.screens.rollout_lists import RolloutLists
from rltui.ui.shared import AppState, ExperimentState
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.row_list import list_keys
from rltui.ui.widgets.transcript_view import TranscriptView
from rltui.ui.widgets.virtual_list import VirtualList
from rltui.views.rollout import reward_text

_SEARCH_SLICE = 16
"""Samples read in one go: a key that ends the search waits for no more."""
_ON_LISTS = frozenset(("read", "sort", "narrow", "search", "toggle_all"))
_FORMATS = {
    "jsonl": ("JSONL", "The records as they were written, a line each"),
    "md": ("Markdown", "The conversations, to read or to send around"),
}


class FoundPrompt(NamedTuple):
    """A place that was looked at for a prompt."""

    source: RolloutSource
    key: BatchKey
    sample: Sample | None
    """`None`: it is not there, or not found yet."""
    run: str = ""
    """Of which run, where that is another one."""


class RolloutReading(RolloutLists):
    """One sample in full, or two side by side."""

    def __init__(self, home: AppState, folder: str = "", *, shared: ExperimentState | None = None) -> None:
        super().__init__(home, folder, shared=shared)
        self._reading = TranscriptView()
        self._other = TranscriptView()
        self._reading_box = Vertical(id="rollout-reading", classes="rollout-reading")
        self._other_box = Vertical(id="rollout-other", classes="rollout-reading")
        self._elsewhere: Iterator[FoundPrompt] | None = None
        """The prompt elsewhere, as far as it is not looked up yet."""
        self._compared: list[FoundPrompt] = []
        self._compared_at = 0
        self._in_turn = asyncio.Lock()
        """Each key goes on from the prompt that the one before has come to."""

    def look_at_sample(self) -> None:
        if self.has_class("-comparing"):
            return
        if self._sample is None:
            self._reading.show(None)
            self._reading_box.border_title = None
        elif self.has_class("-reading") or not self.has_class("-narrow"):
            in_background(self, self._load, group="sample")

    async def _load(self) -> None:
        key, sample = self._key, self._sample
        if key is None or sample is None:
            return
        try:
            async with waiting(self.app, "Reading the sample"):
                transcript = await asyncio.to_thread(self._source.open, key, sample)
        except RltuiError as error:
            self._reading.show(None, note=clean_line(str(error).replace("\n", " ")))
            return
        self._reading.show(transcript)
        place = f" {self._samples.at + 1} of {self._samples.count}"
        self._reading_box.border_title = _title(f"Sample{place}", key)

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
        """With the one that is marked, or with the prompt at another step."""
        transcript, key = self._reading.transcript, self._key
        if transcript is None or key is None or self._sample is None:
            self.notify("Read a sample first, then compare it", markup=False)
            return
        here = (key, transcript.sample.where)
        marked = [
            FoundPrompt(self._source, each[0], sample)
            for each, sample in self._marked.items()
            if each != here
        ]
        self._compared, self._compared_at = marked, 0
        self._elsewhere = None if marked else self.prompts_elsewhere(key, transcript)
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
        wanted = max(0, self._compared_at + batches)
        while wanted >= len(self._compared) and self._elsewhere is not None:
            async with waiting(self.app, "Looking for the prompt"):
                found = await asyncio.to_thread(next, self._elsewhere, None)
            if found is None:
                self._elsewhere = None
                break
            of = f" of {found.run}" if found.run else ""
            self.say(f"looking for the prompt at {found.key.label}{of}: esc ends it")
            if found.sample is not None:
                self._compared.append(found)
        self.say("")
        if not self._compared or wanted >= len(self._compared):
            self.notify(
                f"No further step has this prompt. Mark a sample with {key_of('mark')} to compare with that",
                markup=False,
            )
            return
        self._compared_at = wanted
        shown = self._compared[wanted]
        if shown.sample is None:
            return
        try:
            async with waiting(self.app, "Reading the other sample"):
                transcript = await asyncio.to_thread(shown.source.open, shown.key, shown.sample)
        except RltuiError as error:
            await self.show_error(error)
            return
        self._show_beside(shown, transcript)

    def _show_beside(self, shown: FoundPrompt, transcript: Transcript) -> None:
        mine = self._reading.transcript
        if mine is None or self._key is None:
            return
        self.add_class("-reading", "-comparing")
        self._reading.focus()
        self._other.show(transcript)
        this = clean_line(self.experiment.name) if shown.run else "This one"
        self._reading_box.border_title = _title(this, self._key, mine.sample)
        self._other_box.border_title = _title(shown.run or "The other one", shown.key, transcript.sample)

    def say(self, progress: str) -> None:
        """What goes on, in the title."""
        raise NotImplementedError


def _title(words: str, key: BatchKey, sample: Sample | None = None) -> Content:
    reward = "" if sample is None else f" · reward {reward_text(sample.reward)}"
    label = clean_line(key.label)
    step = f"step {label}" if label[:1].isdigit() else label
    return Content.assemble((words, "bold"), (f" · {step}{reward}", FAINT))


class RolloutScreen(RolloutReading):
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
        home: AppState,
        *,
        folder: str = "",
        of: str = "",
        back_to: str = "",
        shared: ExperimentState | None = None,
    ) -> None:
        """`folder`: as `open_rollouts`; `of` says whose they are, `back_to` which screen is below."""
        super().__init__(home, folder, shared=shared)
        self._of, self._back_to = of, back_to
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
        marked = f"{len(self._marked)} marked" if self._marked else ""
        self._title.update(
            self.shared.heading("Rollouts", clean_line(self._of), marked, clean_line(self._progress))
        )

    # reading

    def action_read(self) -> None:
        """On the whole screen; a group's samples; from the steps, to the samples."""
        if self._steps.has_focus:
            self._samples.focus()
        elif self._groups is not None and self._groups:
            self._group, self._groups = self._groups[self._samples.at].name, None
            self._lay_out(0)
        elif self._sample is not None:
            self._follows_newest = False
            self.add_class("-reading")
            self._reading.focus()
            self.refresh_bindings()
            self.look_at_sample()

    def enabled(self, command: str, *arguments: object) -> bool:
        """What changes the lists only where they are seen."""
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
        elif self._found is not None or self._group:
            self._found, self._group = None, ""
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
        seen = [each for each in (self._steps, self._samples, self._reading, self._other) if each.size.width]
        if seen:
            at = seen.index(self.moved_list) if self.moved_list in seen else 0
            seen[(at + direction) % len(seen)].focus()

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
            self._found = None
            self._lay_out()
            return
        try:
            pattern = Query.from_text(event.value).pattern
        except RltuiError as error:
            self.notify(clean_line(error.title), severity="error", markup=False)
            return
        in_background(self, partial(self._find, pattern), group="search")

    async def _find(self, pattern: re.Pattern[str]) -> None:
        key, samples = self._key, list(self._table)
        if key is None:
            return
        self._found, self._groups = [], None
        self._lay_out(0)
        looked, count = 0, len(samples)
        found = self._source.search(key, samples, pattern)
        try:
            while results := await asyncio.to_thread(lambda: list(islice(found, _SEARCH_SLICE))):
                if key != self._key or self._found is None:
                    break
                if more := [at for at, matches in enumerate(results, start=looked) if matches]:
                    self._found = [*self._found, *more]
                    self._lay_out()
                looked += len(results)
                self.say(f"searched {looked} of {count}: esc ends it")
        except RltuiError as error:
            await self.show_error(error)
        self.say("")

    # marks, and what becomes of them

    def action_mark(self) -> None:
        """Mark it, or take the mark away, and go on to the next."""
        if self._key is None or (sample := self._sample) is None:
            return
        name = (self._key, sample.where)
        if name in self._marked:
            del self._marked[name]
        else:
            self._marked[name] = sample
        self._samples.refresh()
        self._update_title()
        if not self.has_class("-reading"):
            self._samples.go_to(self._samples.at + 1)

    def action_write(self) -> None:
        self.work(self._write(), changes=False)

    async def _write(self) -> None:
        chosen = [(key, sample) for (key, _), sample in self._marked.items()]
        if not chosen and self._key is not None and self._sample is not None:
            chosen = [(self._key, self._sample)]
        if not chosen:
            self.notify("There is no sample under the cursor, and none is marked", markup=False)
            return
        count = "1 sample" if len(chosen) == 1 else f"{len(chosen)} samples"
        ending = await self.app.push_screen_wait(ChoiceMenu(f"Write {count} as", _FORMATS))
        if ending is None:
            return
        try:
            async with waiting(self.app, f"Writing {count}"):
                path = await asyncio.to_thread(self._exported, chosen, ending)
        except RltuiError as error:
            await self.show_error(error)
            return
        self.notify(f"Written: {clean_line(str(path))}", timeout=15, markup=False)

    def _exported(self, chosen: list[tuple[BatchKey, Sample]], ending: str) -> Path:
        transcripts = [self._source.open(key, sample) for key, sample in chosen]
        return self._source.keep(transcripts, ending)
