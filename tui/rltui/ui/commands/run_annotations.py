"""Commands on what is said of runs: tags, notes, the best, the archive, the trash; and taking it back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rltui.client.runs import Runs
from rltui.core.runs.row import RunChange, RunRow
from rltui.errors import RltuiError
from rltui.ui.actions import key_of
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.base import NoteDialog
from rltui.ui.dialogs.trash import TrashDialog, runs_named
from rltui.ui.text import clean_line

_MOST_UNDONE = 50


@dataclass(frozen=True, slots=True)
class DoneChange:
    what: str
    """The change in words: `tags of a and b`."""
    back: tuple[tuple[str, RunChange], ...]
    """Ids of runs, each with the change that makes it again what it was."""


class RunAnnotationCommands:
    """Each change can be taken back, the last one first, until the screen goes."""

    def __init__(
        self,
        frontend: Frontend,
        runs: Runs,
        selection: Callable[[], Sequence[RunRow]],
        on_change: Callable[[], Awaitable[None]],
    ) -> None:
        """`selection` gives the chosen runs. `on_change` is awaited when the index may have changed."""
        self._frontend = frontend
        self._runs = runs
        self._selection = selection
        self._on_change = on_change
        self._changes: list[DoneChange] = []

    def allows(self, command: str, *arguments: object) -> bool:
        """Commands need enough chosen runs; an undo needs a change to take back."""
        del arguments
        match command:
            case "describe" | "rename":
                return len(self._selection()) == 1
            case "undo":
                return bool(self._changes)
            case _:
                return bool(self._selection())

    def tag(self) -> None:
        """The tags that all chosen runs share are edited: additions and removals apply to every run."""
        if rows := self._selection():
            self._frontend.work(self._tag(rows))

    async def _tag(self, rows: Sequence[RunRow]) -> None:
        common = set(rows[0].tags).intersection(*(row.tags for row in rows))
        tags_text = "".join(f"{tag} " for tag in sorted(common))
        text = await self._ask(tags_text, f"Tags of {runs_named(rows)}", "tags, separated by spaces")
        if text is None:
            return
        tags = set(text.replace(",", " ").split())
        change = RunChange(add_tags=tuple(sorted(tags - common)), remove_tags=tuple(sorted(common - tags)))
        if change != RunChange():
            await self._keep(rows, change, f"tags of {runs_named(rows)}")

    def describe(self) -> None:
        if rows := self._selection()[:1]:
            self._frontend.work(self._describe(rows[0]))

    async def _describe(self, row: RunRow) -> None:
        name = clean_line(row.name)
        text = await self._ask(row.note, f"Note for {name}", "why it was run, what it showed")
        if text not in (None, row.note):
            await self._keep([row], RunChange(note=text), f"note of {name}")

    async def _ask(self, text: str, title: str, placeholder: str) -> str | None:
        """A text to save, which may be empty; `None`: it stays as it is."""
        dialog = NoteDialog(text, title=title, placeholder=placeholder, purpose="save", may_be_empty=True)
        return await self._frontend.prompt(dialog)

    def rename(self) -> None:
        if rows := self._selection()[:1]:
            self._frontend.work(self._rename(rows[0]))

    async def _rename(self, row: RunRow) -> None:
        """Asks again where the name is refused."""
        name = row.name
        while (
            name := await self._frontend.prompt(
                NoteDialog(
                    name, title=f"Rename {clean_line(row.name)}", placeholder="new name", purpose="rename"
                )
            )
            or ""
        ):
            before = self._changes
            if name != row.name:
                await self._keep([row], RunChange(name=name), f"{row.name} renamed to {name}")
            if name == row.name or self._changes is not before:
                return

    def mark_best(self) -> None:
        """All of them, or none any more where all are."""
        if rows := self._selection():
            is_best = not all(row.is_best for row in rows)
            summary = f"{runs_named(rows)} {'starred' if is_best else 'unstarred'}"
            self._frontend.work(self._keep(rows, RunChange(is_best=is_best), summary))

    def archive(self) -> None:
        if rows := self._selection():
            archived = not all(row.archived_at is not None for row in rows)
            summary = f"{runs_named(rows)} {'archived' if archived else 'unarchived'}"
            self._frontend.work(self._keep(rows, RunChange(is_archived=archived), summary))

    def trash(self) -> None:
        """Put the chosen runs into the trash. Asks, default no."""
        if rows := self._selection():
            self._frontend.work(self._trash(rows))

    async def _trash(self, rows: Sequence[RunRow]) -> None:
        if await self._frontend.prompt(TrashDialog(rows)):
            await self._keep(rows, RunChange(is_trashed=True), f"{runs_named(rows)} moved to the trash")

    def undo(self) -> None:
        if self._changes:
            self._frontend.work(self._undo())

    async def _undo(self) -> None:
        last = self._changes.pop()
        rest = list(last.back)
        try:
            async with self._frontend.waiting(f"Undoing: {last.what}"):
                while rest:
                    await asyncio.to_thread(self._runs.change, *rest[0])
                    rest.pop(0)
        except RltuiError as error:
            self._changes.append(DoneChange(last.what, tuple(rest)))
            await self._frontend.show_error(error)
        else:
            self._frontend.notify(f"Undone: {last.what}", markup=False)
        await self._on_change()

    async def _keep(self, rows: Sequence[RunRow], change: RunChange, summary: str) -> None:
        """One after the other; of those done until an error, each can be taken back."""
        back: list[tuple[str, RunChange]] = []
        try:
            async with self._frontend.waiting(f"Saving: {summary}"):
                for row in rows:
                    await asyncio.to_thread(self._runs.change, row.id, change)
                    back.append((row.id, change.inverse(row)))
        except RltuiError as error:
            await self._frontend.show_error(error)
        else:
            self._frontend.notify(f"Done: {summary}. {key_of('undo')} undoes it", markup=False)
        if back:
            self._changes = [*self._changes, DoneChange(summary, tuple(back))][-_MOST_UNDONE:]
        await self._on_change()
