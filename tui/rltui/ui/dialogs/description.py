"""Describes a component or a run, its command first; each line can be copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.base import Dialog, KeyHint
from rltui.ui.key_bindings import bind, keys
from rltui.ui.paragraphs import hanging, labelled
from rltui.ui.text import clean_line
from rltui.ui.widgets.row_list import Row, RowList, list_keys, note_row
from rltui.views.description import Fact

_GAP = 2


class DescriptionDialog(Dialog[None]):
    """Lines of a label and a text; the one under the cursor is copied without its label."""

    BINDINGS: ClassVar = keys(
        KeyContext.DESCRIPTION, *list_keys("moved_list."),
        bind(verbs.OPEN, "copy", "Copy the line", footer=Footer.YES, palette=InPalette.NO),
        bind(verbs.COPY, "copy", "Copy the line", palette=InPalette.NO),
        bind(verbs.DESCRIBE, "no", palette=InPalette.NO),
    )  # fmt: skip

    def __init__(self, title: str, parts: Sequence[tuple[str, Sequence[Fact]]]) -> None:
        """`parts`: headings, the first of them empty, with what stands below each."""
        super().__init__()
        self._title = title
        self._parts = parts
        self._facts = {f"{part}:{at}": fact for part, facts in parts for at, fact in enumerate(facts)}
        self.moved_list = RowList(self._rows, id="description-list")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box messages") as box:
            box.border_title = clean_line(self._title)
            yield self.moved_list

    def footer_hints(self) -> Sequence[KeyHint]:
        return ("open", "copy the line"), ("dialog.no", "close")

    def on_mount(self) -> None:
        self.moved_list.focus()

    def _rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        label_cells = max((len(fact.label) for fact in self._facts.values()), default=0) + _GAP
        label_cells = min(label_cells, width // 3)
        rows: list[Row] = []
        for part, facts in self._parts:
            if part and facts:
                rows += [Row(None, (Content(""),)), Row(None, (Content.styled(part, "bold"),))]
            label = ""
            for at, fact in enumerate(facts):
                key = f"{part}:{at}"
                style = "bold" if key == selected else ""
                text = clean_line(fact.text.removeprefix(f"{fact.label} = "))
                lines = hanging(text, width - label_cells, style)
                name = "" if fact.label == label else clean_line(fact.label)
                rows.append(Row(key, tuple(labelled(name, lines, label_cells))))
                label = fact.label
        return tuple(rows) or (note_row("No description yet", width),)

    def action_copy(self) -> None:
        if (fact := self._facts.get(self.moved_list.key or "")) is not None:
            self.post_message(CopyRequested(fact.text, f"the {fact.label}"))
