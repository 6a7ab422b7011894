"""The dialog that asks before runs go into the trash, and how runs are named in questions."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rltui.base.text import join_first, size_text
from rltui.core import hints
from rltui.core.runs.row import RunRow
from rltui.ui.actions import key_of
from rltui.ui.dialogs.base import ButtonDialog, button
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line

_MOST_NAMED = 3
_MOST_LISTED = 10


def runs_named(rows: Sequence[RunRow]) -> str:
    """`a`, `a and b`, `a, b, c and 7 more`: in questions and messages."""
    return join_first([clean_line(row.name) for row in rows], _MOST_NAMED)


class TrashDialog(ButtonDialog[bool]):
    """Says what would go, and what that frees. *No* is the default."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        sizes = [row.disk_bytes for row in rows]
        total = sum(size for size in sizes if size is not None)
        freed = "an unknown amount" if all(size is None for size in sizes) else size_text(total)
        if None in sizes and total:
            freed = f"at least {freed}"
        lines = [clean_line(f"{row.name}  {row.folder}") for row in rows[:_MOST_LISTED]]
        lines += [f"and {len(rows) - _MOST_LISTED} more"] if len(rows) > _MOST_LISTED else []
        meaning = (
            f"The trash is on the same disk; emptying it frees {freed} "
            f"({hints.TRASH_EMPTY}). Until then {key_of('undo')} or "
            f"{hints.RESTORE(run='RUN')} undoes this."
        )
        super().__init__(
            f"Move {runs_named(rows)} to the trash?",
            Content("\n").join([*map(Content, lines), Content(""), Content.styled(meaning, FAINT)]),
            [button("Move to trash", "yes", "error"), button("Cancel", "no")],
            {"yes": True},
            is_danger=True,
        )
