"""The dialog for the columns of the list of runs: which, and in what order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from rltui.base.text import truncate
from rltui.errors import UsageError
from rltui.ui.actions import KeyContext, Scope
from rltui.ui.dialogs.base import DialogBase, KeyHint
from rltui.ui.key_bindings import keys, own
from rltui.ui.styles import CURSOR_SIGN, FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.row_list import Row, RowList
from rltui.views.run import DEFAULT_COLUMNS, RunColumn, column_of, known_columns

_ID_CELLS = 18


class ColumnDialog(DialogBase[tuple[str, ...]]):
    """Visible columns stand first, in their order. The answer is `None` where it is cancelled."""

    CSS_PATH: ClassVar = ["dialogs.tcss", "columns.tcss"]
    BINDINGS = keys(
        KeyContext.COLUMNS,
        own("columns.toggle", "space", "show_column", "toggle", "Show or hide the column",
            Scope.COLUMNS),
        own("columns.left", "shift+up", "carry(-1)", "left", "Move the column left", Scope.COLUMNS),
        own("columns.right", "shift+down", "carry(1)", "right", "Move the column right", Scope.COLUMNS),
        own("columns.usual", "backspace", "usual", "reset", "Reset to the default columns", Scope.COLUMNS),
        own("columns.field", "tab,shift+tab", "other_field", "add",
            "Add a metric or config key by name", Scope.COLUMNS),
        own("columns.keep", "enter", "keep", "apply", "Apply these columns", Scope.COLUMNS),
        own("columns.cancel", "escape", "cancel", "cancel", "Leave the columns unchanged", Scope.COLUMNS),
        own("columns.down", "down,j", "moved_list.move(1)", "down", "Move down", Scope.COLUMNS),
        own("columns.up", "up,k", "moved_list.move(-1)", "up", "Move up", Scope.COLUMNS),
        own("columns.page-down", "pagedown", "moved_list.move_pages(1)", "page down",
            "Move down by a page", Scope.COLUMNS),
        own("columns.page-up", "pageup", "moved_list.move_pages(-1)", "page up",
            "Move up by a page", Scope.COLUMNS),
    )  # fmt: skip

    def __init__(self, column_ids: Sequence[str]) -> None:
        super().__init__()
        self._column_ids = list(column_ids)
        self._columns = {column.id: column_of(column.id) for column in known_columns()}
        self._columns |= {name: column_of(name) for name in column_ids if name not in self._columns}
        self.moved_list = RowList(self._rows, id="columns-list")
        self._field = Input(placeholder="add a metric or a config key", id="columns-field", compact=True)
        self._field.cursor_blink = False
        self._trouble = Static(id="columns-trouble", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box columns") as box:
            box.border_title = "Columns"
            yield self.moved_list
            yield self._field
            yield self._trouble

    def footer_hints(self) -> Sequence[KeyHint]:
        move_hint = ("columns.left columns.right", "move")
        first, last = ("columns.keep", "columns.toggle"), ("columns.field", "columns.cancel", "columns.usual")
        return *((id_, "") for id_ in first), move_hint, *((id_, "") for id_ in last)

    def on_mount(self) -> None:
        self.moved_list.focus()

    def _rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        unlisted = [id_ for id_ in self._columns if id_ not in self._column_ids]
        return tuple(self._row(self._columns[id_], width, selected) for id_ in (*self._column_ids, *unlisted))

    def _row(self, column: RunColumn, width: int, selected: str | None) -> Row:
        is_shown = column.id in self._column_ids
        sign = "✓" if is_shown else " "
        text = f"{CURSOR_SIGN if column.id == selected else ' '}{sign} {clean_line(column.id):{_ID_CELLS}} "
        description = truncate(clean_line(column.about), max(0, width - len(text)))
        line = Content.assemble((text, "bold" if is_shown else ""), (description, FAINT))
        return Row(column.id, (line,))

    def action_show_column(self) -> None:
        """Show it, behind the others, or show it no more. One stays."""
        if (id_ := self.moved_list.key) is None:
            return
        if id_ not in self._column_ids:
            self._column_ids.append(id_)
        elif len(self._column_ids) > 1:
            self._column_ids.remove(id_)
        self.moved_list.reload()
        self.moved_list.refresh()

    def action_carry(self, places: int) -> None:
        id_ = self.moved_list.key
        if id_ in self._column_ids:
            index = self._column_ids.index(id_)
            self._column_ids.insert(max(0, index + places), self._column_ids.pop(index))
            self.moved_list.reload()

    def action_usual(self) -> None:
        self._column_ids = list(DEFAULT_COLUMNS)
        self.moved_list.reload()

    def action_other_field(self) -> None:
        (self.moved_list if self._field.has_focus else self._field).focus()

    @on(Input.Submitted)
    def _add(self, event: Input.Submitted) -> None:
        event.stop()
        if not (name := event.value.strip()):
            self.moved_list.focus()
            return
        try:
            column = column_of(name)
        except UsageError as error:
            self._trouble.update(Content.styled(f"✗ {clean_line(error.title)}", "$text-error"))
            return
        self._trouble.update("")
        self._columns.setdefault(column.id, column)
        if column.id not in self._column_ids:
            self._column_ids.append(column.id)
        self._field.value = ""
        self.moved_list.focus()
        self.moved_list.reload()
        self.moved_list.go_to(column.id)

    def action_keep(self) -> None:
        self.dismiss(tuple(self._column_ids))
