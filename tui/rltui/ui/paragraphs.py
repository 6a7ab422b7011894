"""Texts laid out in so many cells: wrapped, side by side, behind a label. Pure functions."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from rltui.base.text import truncate
from rltui.ui.styles import FAINT


def first_that_fits(texts: Sequence[str], width: int) -> str:
    """The first of `texts` that is not wider; else the last one, cut."""
    return next((text for text in texts if len(text) <= width), truncate(texts[-1], width))


def truncate_cells(text: str, cells: int) -> str:
    """`text` as wide as there is room for on a terminal, where some characters take two cells."""
    return text if cell_len(text) <= cells else f"{set_cell_size(text, max(0, cells - 1))}…"


def flow(entries: Iterable[Content], width: int, *, gap: str = "  ", indent: int = 0) -> list[Content]:
    """Entries side by side, broken into lines between them; further lines are indented."""
    lines: list[Content] = []
    for entry in entries:
        if lines and lines[-1].cell_length + len(gap) + entry.cell_length <= width:
            lines[-1] += Content.styled(gap, FAINT) + entry
        else:
            lines.append(Content(" " * indent) + entry if lines else entry)
    return lines


def hanging(text: str, width: int, style: str) -> list[Content]:
    """Wrapped, further lines below the text behind the symbol."""
    return [
        Content.styled(line, style) for line in textwrap.wrap(text, max(8, width), subsequent_indent="  ")
    ]


def blocks(*parts: Sequence[Content]) -> Content:
    """Lines that belong together, with an empty line between the parts; those without lines are left out."""
    return Content("\n\n").join([Content("\n").join(lines) for lines in parts if lines])


def labelled(label: str, lines: Iterable[Content], cells: int) -> Iterator[Content]:
    """Set the lines in a column of their own behind the label, which takes `cells`."""
    for line in lines:
        yield Content.assemble((label.ljust(cells), FAINT), line)
        label = ""
