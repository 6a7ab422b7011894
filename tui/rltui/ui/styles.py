"""The theme's variables for the style roles of `core/experiment/states.py`, and view cells in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.content import Content

from rltui.core.experiment.states import SEVERITIES, Role
from rltui.ui.text import clean
from rltui.views.table import Cell

FAINT = "$foreground 60%"
SEPARATOR = (" · ", FAINT)
CURSOR_SIGN = "▸"
"""Marks what is chosen, for terminals without colours."""
CURSOR = f"{CURSOR_SIGN} "
"""Stands before it; blanks before the rest."""
STYLES: Mapping[Role, str] = {
    "good": "$text-success",
    "busy": "$text-warning",
    "bad": "$text-error",
    "faint": FAINT,
    "key": "$text-primary",
    "head": "bold",
    "added": "$text-success",
    "removed": "$text-error",
}


SEVERITY_MARKS: Mapping[str, tuple[str, str]] = {
    severity: (badge.sign, STYLES[badge.role]) for severity, badge in SEVERITIES.items()
}
"""Severity → its sign and style, the worst first."""


def styled(cells: Iterable[Cell], *, prefix: str = "") -> Content:
    """Cells one behind the other, each in the style of its role, on one line; behind a bold `prefix`."""
    spans = ((clean(cell.text).replace("\n", " "), cell.role) for cell in cells)
    return Content.assemble((prefix, "bold"), *((text, STYLES[role] if role else "") for text, role in spans))
