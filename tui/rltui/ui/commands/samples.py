"""Commands on samples of rollouts: searched, read one beside another, written into a file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rltui.base.text import count_text
from rltui.core.logs.query import Query
from rltui.core.rollouts.batches import BatchKey, Sample, Transcript
from rltui.errors import RltuiError
from rltui.ui.actions import key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import BaseScreen
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.base import ChoiceMenu
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.found_prompts import FindPrompts, FoundPrompt, FoundPrompts
from rltui.ui.rollout_listing import RolloutListing
from rltui.ui.text import clean_line
from rltui.ui.widgets.virtual_list import VirtualList

_SEARCH = "search"
"""Group of the worker that reads the samples."""
_FORMATS = {
    "jsonl": ("JSONL", "Raw records, one per line"),
    "md": ("Markdown", "Conversations, to read or share"),
}


class SampleSearch:
    """Lists the samples of the chosen batch in which what a person types occurs."""

    def __init__(
        self,
        screen: BaseScreen,
        listing: RolloutListing,
        samples: VirtualList,
        *,
        say: Callable[[str], None],
        lay_out: Callable[[int | None], None],
    ) -> None:
        """`say` tells how far it has come; empty: it is done. `lay_out` shows the list anew, with the cursor
        at that index, or on the same sample.
        """
        self._screen = screen
        self._listing = listing
        self._samples = samples
        self._report, self._lay_out = say, lay_out
        self._query = ""
        """Text of the search whose matches are listed."""
        self._progress = ""

    def begin(self) -> None:
        listing, samples, index = self._listing, self._samples, self._samples.cursor_index
        self._screen.app.push_screen(
            SearchLine(
                self._query if listing.matches is not None else "",
                "text or regular expression, in the samples of this step",
                show=self._search_for,
                status=lambda: self._progress or count_text(len(listing.matches or ()), "sample"),
                move=lambda step: samples.go_to(samples.cursor_index + step),
                go_back=lambda: samples.go_to(index),
            )
        )

    def cancel(self) -> None:
        self._screen.workers.cancel_group(self._screen, _SEARCH)
        if self._progress:
            self._say("")

    def _say(self, progress: str) -> None:
        self._progress = progress
        self._report(progress)

    def _search_for(self, text: str) -> None:
        self._query = text
        self.cancel()
        if not text:
            self._listing.matches = None
            self._lay_out(None)
            return
        try:
            pattern = Query.from_text(text).pattern
        except RltuiError as error:
            self._say(error.title)
            return
        in_background(self._screen, partial(self._find, pattern), group=_SEARCH)

    async def _find(self, pattern: re.Pattern[str]) -> None:
        listing, count = self._listing, len(self._listing.table)
        match_count = -1
        try:
            async for searched in listing.search(pattern):
                if len(listing.matches or ()) != match_count:
                    match_count = len(listing.matches or ())
                    self._lay_out(None if searched else 0)
                if searched:
                    self._say(f"searched {searched} of {count}: esc cancels")
        except RltuiError as error:
            await self._screen.show_error(error)
        self._say("")


class SampleComparison:
    """Finds what the sample that is read is compared with: the marked ones, or its prompt elsewhere."""

    def __init__(
        self,
        screen: BaseScreen,
        listing: RolloutListing,
        find: FindPrompts,
        *,
        say: Callable[[str], None],
        show: Callable[[FoundPrompt, Transcript], None],
    ) -> None:
        """`say` tells how far it has come; empty: it is done."""
        self._screen = screen
        self._listing = listing
        self._find = find
        self._say, self._show = say, show
        self._prompts = FoundPrompts()
        self._in_turn = asyncio.Lock()
        """Each key goes on from the prompt that the one before has come to."""

    def begin(self, transcript: Transcript) -> None:
        """`transcript`: of a sample of the chosen batch."""
        key, listing = self._listing.key, self._listing
        assert key is not None, "a sample of it was read"
        marked = [
            FoundPrompt(listing.source, batch, sample)
            for (batch, where), sample in listing.marked.items()
            if (batch, where) != (key, transcript.sample.where)
        ]
        self._prompts = FoundPrompts(marked, None if marked else self._find(key, transcript))
        in_background(self._screen, lambda: self._go_on(0), group="compare")

    def go_on(self, places: int) -> None:
        """To the next one, so many further on."""
        in_background(self._screen, lambda: self._go_on(places), group="compare", exclusive=False)

    async def _go_on(self, places: int) -> None:
        async with self._in_turn:
            async with self._screen.waiting("Looking for the prompt"):
                async for prompt in self._prompts.look(places):
                    run_text = f" of {prompt.run}" if prompt.run else ""
                    self._say(f"looking for the prompt at {prompt.key.label}{run_text}: esc cancels")
            self._say("")
            if not self._prompts.move(places):
                key = key_of("mark")
                text = f"No other step has this prompt. To compare with any sample, mark it with {key}"
                self._screen.notify(text, markup=False)
                return
            current = self._prompts.shown
            if current is None or current.sample is None:
                return
            try:
                async with self._screen.waiting("Reading the other sample"):
                    transcript = await asyncio.to_thread(current.source.open, current.key, current.sample)
            except RltuiError as error:
                await self._screen.show_error(error)
                return
            self._show(current, transcript)


class SampleExport:
    """Writes the marked samples, or else the one under the cursor."""

    def __init__(
        self, frontend: Frontend, listing: RolloutListing, selected: Callable[[], Sample | None]
    ) -> None:
        self._frontend = frontend
        self._listing = listing
        self._selected = selected

    def write(self) -> None:
        self._frontend.work(self._write(), changes=False)

    async def _write(self) -> None:
        samples = [(key, sample) for (key, _), sample in self._listing.marked.items()]
        if not samples and self._listing.key is not None and (sample := self._selected()) is not None:
            samples = [(self._listing.key, sample)]
        if not samples:
            self._frontend.notify("No sample selected", markup=False)
            return
        count = count_text(len(samples), "sample")
        ending = await self._frontend.prompt(ChoiceMenu(f"Write {count} as", _FORMATS))
        if ending is None:
            return
        async with self._frontend.waiting(f"Writing {count}"):
            path = await asyncio.to_thread(self._export, samples, ending)
        self._frontend.notify(f"Written: {clean_line(str(path))}", timeout=15, markup=False)

    def _export(self, samples: list[tuple[BatchKey, Sample]], ending: str) -> Path:
        source = self._listing.source
        return source.keep([source.open(key, sample) for key, sample in samples], ending)
