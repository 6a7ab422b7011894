"""The rollout screen: reads, searches, compares and writes samples. Binds and forwards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from rltui.core.experiment.dashboard import DashboardPlace, place_of_rollout
from rltui.core.rollouts.batches import Batch, BatchKey, Sample, Transcript
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.commands.dashboard import DashboardCommands
from rltui.ui.commands.samples import SampleComparison, SampleExport, SampleSearch
from rltui.ui.copying import CopyRequested
from rltui.ui.found_prompts import FindPrompts, FoundPrompt, at_other_steps
from rltui.ui.key_bindings import bind, keys
from rltui.ui.rollout_listing import RolloutListing, RolloutUpdate
from rltui.ui.state import AppState, ExperimentState
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar, TitleLine, fitting_facts
from rltui.ui.widgets.rollout_lines import RolloutLines
from rltui.ui.widgets.row_list import list_keys
from rltui.ui.widgets.sample_panes import SamplePanes
from rltui.ui.widgets.transcript_view import TranscriptView
from rltui.ui.widgets.virtual_list import VirtualList
from rltui.views.rollout import no_rollouts_text

_ON_LISTS = frozenset(("read", "sort", "narrow", "sample_search.begin", "toggle_all"))


class RolloutScreen(BaseScreen):
    CSS_PATH: ClassVar = ["rollouts.tcss"]
    BINDINGS = keys(
        KeyContext.ROLLOUTS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "read", "Read the sample; of a group, list its samples", label="read",
             footer=Footer.YES),
        bind(verbs.FILTER, "narrow", "Filter: truncated, failed, no reward variance, or all",
             footer=Footer.YES),
        bind(verbs.SORT, "sort(1)", "Sort by arrival, reward, advantage, length or group", footer=Footer.YES),
        bind(verbs.SORT_BACK, "sort(-1)"),
        bind(verbs.SEARCH, "sample_search.begin", "Search the samples by a regular expression",
             footer=Footer.YES),
        bind(verbs.GROUP, "toggle_groups", "Fold samples into groups, with mean and std of the rewards",
             footer=Footer.YES),
        bind(verbs.GROUP, "panes.toggle_tools", "Fold tool calls and results, or show them",
             footer=Footer.YES),
        bind(verbs.COMPARE, "compare", "Compare with the marked sample, or the prompt at another step",
             footer=Footer.YES),
        bind(verbs.DASHBOARD, "dashboard.show", "Show the sample in the web dashboard of the framework"),
        bind(verbs.MARK, "mark", "Mark or unmark the sample, to compare or to write"),
        bind(verbs.COPY, "copy", "Copy the sample, not wrapped"),
        bind(verbs.WRITE, "export.write", "Write the marked samples, or this one, as JSONL or Markdown",
             footer=Footer.YES),
        bind(verbs.PANE_NEXT, "focus_adjacent(1)"),
        bind(verbs.PANE_PREVIOUS, "focus_adjacent(-1)"),
        bind(verbs.CURSOR_LEFT, "next_sample(-1)", "Move to the previous sample"),
        bind(verbs.CURSOR_RIGHT, "next_sample(1)", "Move to the next sample"),
        bind(verbs.EARLIER, "go_to_step(1)", "Go to the earlier step"),
        bind(verbs.LATER, "go_to_step(-1)", "Go to the later step"),
        bind(verbs.FIND_NEXT, "next_match(1)"),
        bind(verbs.FIND_PREVIOUS, "next_match(-1)"),
        bind(verbs.ALL, "toggle_all", "Show all samples, or only those in batches"),
        bind(verbs.WHOLE, "panes.toggle_raw", "Show the raw record, or the conversation"),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide"), (170, "-huge")]  # noqa: RUF012 - as Textual declares it
    place = KeyContext.ROLLOUTS

    def __init__(
        self,
        app_state: AppState,
        state: ExperimentState | None = None,
        *,
        folder: str = "",
        subject: str = "",
        back_to: str = "",
        prompts: FindPrompts | None = None,
    ) -> None:
        """`folder`: as `open_rollouts`; `subject` says whose they are, `back_to` which screen is below.

        `prompts`: where a sample's prompt is looked for; else at other steps.
        """
        super().__init__(app_state, state)
        self._subject, self._back_to = subject, back_to
        self._source = self.experiment.open_rollouts(folder)
        self._listing = RolloutListing(self._source)
        self._lines = RolloutLines(self._listing)
        self._steps = VirtualList(self._lines.batch, self._chose_step, id="rollout-steps")
        self._samples = VirtualList(self._lines.row, self._stop_following, id="rollout-samples", mark_at=2)
        self._heading = VirtualList(self._lines.heading, id="rollout-heading", count=1, has_cursor=False)
        self._summary = Static(id="rollout-summary", markup=False)
        self._histogram = Static(id="rollout-histogram", markup=False)
        self._steps_box = Vertical(id="rollout-steps-box")
        self._samples_box = Vertical(id="rollout-samples-box")
        self.panes = SamplePanes()
        self.export = SampleExport(self, self._listing, lambda: self._sample)
        self._comparison = SampleComparison(
            self,
            self._listing,
            prompts or at_other_steps(self._source),
            say=self.say,
            show=self._show_comparison,
        )
        self.sample_search = SampleSearch(
            self, self._listing, self._samples, say=self.say, lay_out=self._lay_out
        )
        self.dashboard = DashboardCommands(self, self.state, self.commands, self._place)
        self._title = TitleLine(id="rollout-title")
        self._progress = ""

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._summary
        with Horizontal(id="rollout-body"):
            with self._steps_box:
                yield self._histogram
                yield self._steps
            with self._samples_box:
                yield self._heading
                yield self._samples
            yield from self.panes.compose()

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

    def on_resize(self) -> None:
        self.call_after_refresh(self._update_words)

    # values in

    def on_screen_resume(self) -> None:
        in_background(self, self._follow, group="rollouts")

    def left(self) -> None:
        self.workers.cancel_group(self, "rollouts")
        self.sample_search.cancel()

    def on_unmount(self) -> None:
        self._listing.close()

    async def _follow(self) -> None:
        async for update in self._listing.updates(self._batches_in_view):
            self._show_update(update)

    def _batches_in_view(self) -> Sequence[Batch]:
        top = self._steps.scroll_offset.y
        return self._listing.batches[top : top + max(1, self._steps.size.height)]

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

    def _chose_step(self) -> None:
        self._listing.follows_newest = False
        self._choose(self._listing.batches[self._steps.cursor_index].key)

    def _choose(self, key: BatchKey) -> None:
        self._listing.choose(key)
        self._lay_out(0)
        in_background(self, self._follow, group="rollouts")

    def _lay_out(self, index: int | None = None) -> None:
        """The list anew, with the cursor on the same sample, or at `index`."""
        same = self._listing.lay_out(self._sample)
        self.set_class(self._listing.groups is not None, "-grouped")
        self._samples.show(self._listing.count, same if index is None else index)
        self._update_words()
        self.look_at_sample()

    def _stop_following(self) -> None:
        self._listing.follows_newest = False
        self.look_at_sample()

    @property
    def _sample(self) -> Sample | None:
        """A group gives its first sample."""
        return self._listing.sample(self._samples.cursor_index)

    def _update_words(self) -> None:
        self._heading.refresh()
        lines = self._lines
        title, width = lines.title, self._samples_box.outer_size.width - 2
        self._samples_box.border_title = fitting_facts(title, width) if width > 0 else title
        self._steps_box.border_title = lines.steps_title
        self._summary.update(Content(lines.summary or self._nothing_text()))
        self._histogram.update(lines.histogram)

    def _nothing_text(self) -> str:
        if self._source.problem:
            return f"⚠ {clean_line(self._source.problem)}"
        if self._listing.key is not None:
            return "reading…"
        status = self.state.status
        if status is not None and not status.alive and not self.experiment.readonly:
            keys = f"{key_of('screen.overview')} opens it, and {key_of('component.start-all')} there"
            return f"No rollouts: the run is not running. {keys} starts everything."
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
        text = "All samples" if self._listing.wants_all else "Samples in batches"
        self.notify(text, markup=False)
        in_background(self, self._follow, group="rollouts")

    # one sample in full

    def look_at_sample(self) -> None:
        if self.has_class("-comparing"):
            return
        if self._sample is None:
            self.panes.clear()
        else:
            in_background(self, self._load, group="sample")

    async def _load(self) -> None:
        key, sample = self._listing.key, self._sample
        if key is None or sample is None:
            return
        try:
            async with self.waiting("Reading the sample"):
                transcript = await asyncio.to_thread(self._source.open, key, sample)
        except RltuiError as error:
            self.panes.show_problem(clean_line(str(error).replace("\n", " ")))
            return
        title = f"Sample {self._samples.cursor_index + 1} of {self._samples.count}"
        self.panes.read(transcript, title, key, at_answer=not self.has_class("-reading"))

    def copied(self) -> CopyRequested | None:
        """A sample in full, as soon as it is read; of the other lists their line."""
        is_sample = self.has_class("-reading") or self.focused is self._samples
        return (self.panes.own.copied() if is_sample else None) or super().copied()

    async def _place(self) -> DashboardPlace:
        key, sample = self._listing.key, self._sample
        if key is None or sample is None:
            return DashboardPlace(tab="traces")
        return place_of_rollout(key, (await asyncio.to_thread(self._source.open, key, sample)).raw)

    # two side by side

    def action_compare(self) -> None:
        transcript = self.panes.own.transcript
        if transcript is None or self._listing.key is None or self._sample is None:
            self.notify("Read a sample first, then compare it", markup=False)
        else:
            self._comparison.begin(transcript)

    def _show_comparison(self, prompt: FoundPrompt, transcript: Transcript) -> None:
        if self._listing.key is None or self.panes.own.transcript is None:
            return
        self.add_class("-reading", "-comparing")
        self.panes.own.focus()
        own_title = clean_line(self.experiment.name) if prompt.run else "This sample"
        self.panes.compare(own_title, self._listing.key, prompt, transcript)

    # reading

    def action_read(self) -> None:
        if self._steps.has_focus:
            self._samples.focus()
        elif self._listing.groups is not None and self._listing.groups:
            self._listing.group, self._listing.groups = (
                self._listing.groups[self._samples.cursor_index].name,
                None,
            )
            self._lay_out(0)
        elif self._sample is not None:
            self._listing.follows_newest = False
            self.add_class("-reading")
            self.panes.own.focus()
            self.refresh_bindings()
            self.look_at_sample()

    def enabled(self, command: str, *arguments: object) -> bool:
        """Keys that change the lists work only where the lists are visible."""
        is_reading = self.has_class("-reading") or isinstance(self.focused, TranscriptView)
        if command == "panes.toggle_tools" and not is_reading:
            return False
        if command == "toggle_groups" and is_reading:
            return False
        if command in _ON_LISTS and self.has_class("-reading"):
            return False
        if command == "next_match" and self._listing.matches is None:
            return False
        return super().enabled(command, *arguments)

    def action_back(self) -> None:
        if self._progress:
            self.sample_search.cancel()
            self.workers.cancel_group(self, "compare")
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
        focused = self.focused
        return focused if isinstance(focused, VirtualList | TranscriptView) else self._samples

    def action_focus_adjacent(self, direction: int) -> None:
        visible = [
            pane for pane in (self._steps, self._samples, self.panes.own, self.panes.other) if pane.size.width
        ]
        if visible:
            index = visible.index(self.moved_list) if self.moved_list in visible else 0
            visible[(index + direction) % len(visible)].focus()

    def action_go_to_step(self, batches: int) -> None:
        if self.has_class("-comparing"):
            self._comparison.go_on(batches)
        else:
            self._steps.go_to(self._steps.cursor_index + batches)

    def show_step(self, step: int) -> None:
        steps = [batch.key.step for batch in self._listing.batches]
        if step in steps:
            self._steps.go_to(steps.index(step))
        else:
            self.notify(f"no rollouts of step {step}", severity="warning", markup=False)

    def action_next_sample(self, samples: int) -> None:
        self._samples.go_to(self._samples.cursor_index + samples)

    action_next_match = action_next_sample

    def action_mark(self) -> None:
        if self._listing.key is None or (sample := self._sample) is None:
            return
        self._listing.mark(sample)
        self._samples.refresh()
        self._update_title()
        if not self.has_class("-reading"):
            self._samples.go_to(self._samples.cursor_index + 1)
