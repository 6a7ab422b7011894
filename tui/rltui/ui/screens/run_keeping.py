"""What a person does with runs in their list: tags, notes, marks, the archive, the trash; and takes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from rltui.core import hints
from rltui.core.runs import RunChange, RunRow
from rltui.core.text import join_words, size_text
from rltui.errors import RltuiError
from rltui.ui.actions import key_of
from rltui.ui.base_screen import BaseScreen
from rltui.ui.messages import waiting
from rltui.ui.screens.dialogs import ButtonDialog, NoteDialog, button
from rltui.ui.shared import AppState
from rltui.ui.text import clean_line

_MOST_UNDONE = 50
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class DoneChange:
    what: str
    """In words: `tags of a and b`."""
    back: tuple[tuple[str, RunChange], ...]
    """By id of a run: what makes it again what it was."""


def runs_named(rows: Sequence[RunRow]) -> str:
    """`a`, `a and b`, `a, b, c and 7 more`: in questions and messages."""
    names = [clean_line(row.name) for row in rows]
    more = len(names) - _MOST_NAMED
    return join_words([*names[:_MOST_NAMED], f"{more} more"] if more > 1 else names)


class TrashDialog(ButtonDialog[bool]):
    """Says what would go, and what that frees. *No* is the default."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        sizes = [row.disk_bytes for row in rows]
        known = sum(size for size in sizes if size is not None)
        freed = "an unknown size" if all(size is None for size in sizes) else size_text(known)
        if None in sizes and known:
            freed = f"at least {freed}"
        lines = [clean_line(f"{row.name}  {row.folder}") for row in rows[:10]]
        lines += [f"and {len(rows) - 10} more"] if len(rows) > 10 else []
        told = (
            f"It lies beside the folder then, on the same disk: emptying the trash frees {freed} "
            f"({hints.TRASH_EMPTY}). Until then {key_of('undo')} brings it back, "
            f"and {hints.RESTORE(run='RUN')}."
        )
        super().__init__(
            f"Put {runs_named(rows)} into the trash?",
            Content("\n").join([*map(Content, lines), Content(""), Content.styled(told, "$foreground 60%")]),
            [button("To the trash", "yes", "error"), button("Cancel", "no")],
            {"yes": True},
            is_danger=True,
        )


class OrganizeActions(BaseScreen):
    """The keys that change what is said of runs. The screen says which are meant."""

    is_of_all_runs = True

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self._done: list[DoneChange] = []

    @property
    def chosen(self) -> tuple[RunRow, ...]:
        """The marked ones, else what is under the cursor."""
        raise NotImplementedError

    async def look(self) -> None:
        raise NotImplementedError

    # keys

    def action_tag(self) -> None:
        """Those that all of them have, to be edited: what is added or removed counts for each."""
        if rows := self.chosen:
            self.work(self._tag(rows))

    async def _tag(self, rows: Sequence[RunRow]) -> None:
        common = set(rows[0].tags).intersection(*(row.tags for row in rows))
        text = await self.app.push_screen_wait(
            NoteDialog(
                "".join(f"{tag} " for tag in sorted(common)),
                title=f"Tags of {runs_named(rows)}",
                placeholder="words with spaces between them",
                done="keep them",
                may_be_empty=True,
            )
        )
        if text is None:
            return
        wanted = set(text.replace(",", " ").split())
        change = RunChange(
            add_tags=tuple(sorted(wanted - common)), remove_tags=tuple(sorted(common - wanted))
        )
        if change != RunChange():
            await self._keep(rows, change, f"tags of {runs_named(rows)}")

    def action_describe(self) -> None:
        if rows := self.chosen[:1]:
            self.work(self._describe(rows[0]))

    async def _describe(self, row: RunRow) -> None:
        text = await self.app.push_screen_wait(
            NoteDialog(
                row.note,
                title=f"What is to be said of {clean_line(row.name)}?",
                placeholder="why it was tried, what it showed",
                done="keep it",
                may_be_empty=True,
            )
        )
        if text is None:
            return
        if text != row.note:
            await self._keep([row], RunChange(note=text), f"note of {clean_line(row.name)}")

    def action_mark_best(self) -> None:
        """All of them, or none any more where all are."""
        if rows := self.chosen:
            is_best = not all(row.is_best for row in rows)
            what = f"{runs_named(rows)} {'marked as best' if is_best else 'no longer marked as best'}"
            self.work(self._keep(rows, RunChange(is_best=is_best), what))

    def action_archive(self) -> None:
        if rows := self.chosen:
            archived = not all(row.archived_at is not None for row in rows)
            what = f"{runs_named(rows)} {'archived' if archived else 'listed again'}"
            self.work(self._keep(rows, RunChange(is_archived=archived), what))

    def action_trash(self) -> None:
        """Asks, default no."""
        if rows := self.chosen:
            self.work(self._trash(rows))

    async def _trash(self, rows: Sequence[RunRow]) -> None:
        if await self.app.push_screen_wait(TrashDialog(rows)):
            await self._keep(rows, RunChange(is_trashed=True), f"{runs_named(rows)} put into the trash")

    def action_undo(self) -> None:
        if self._done:
            self.work(self._undo())

    async def _undo(self) -> None:
        last = self._done.pop()
        left = list(last.back)
        try:
            async with waiting(self.app, f"Taking back: {last.what}"):
                while left:
                    await asyncio.to_thread(self.home.runs.change, *left[0])
                    left.pop(0)
        except RltuiError as error:
            self._done.append(DoneChange(last.what, tuple(left)))
            await self.show_error(error)
        else:
            self.notify(f"Taken back: {last.what}", markup=False)
        await self.look()

    async def _keep(self, rows: Sequence[RunRow], change: RunChange, what: str) -> None:
        """One after the other; of those done until an error, each can be taken back."""
        back: list[tuple[str, RunChange]] = []
        try:
            async with waiting(self.app, f"Having it done: {what}"):
                for row in rows:
                    await asyncio.to_thread(self.home.runs.change, row.id, change)
                    back.append((row.id, change.inverse(row)))
        except RltuiError as error:
            await self.show_error(error)
        else:
            self.notify(f"Done: {what}. {key_of('undo')} takes it back", markup=False)
        if back:
            self._done = [*self._done, DoneChange(what, tuple(back))][-_MOST_UNDONE:]
        await self.look()

    @property
    def can_undo(self) -> bool:
        return bool(self._done)
