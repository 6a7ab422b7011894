"""What stands below the log of a component that ran out of device memory. Pure."""

from __future__ import annotations

from textual.content import Content

from rltui.core.api import ComponentStatus
from rltui.core.gpu.out_of_memory import verdict
from rltui.ui.states import LOOKS
from rltui.ui.text import clean_line


def told_of_memory(status: ComponentStatus, *, readonly: bool = False) -> Content:
    """What ran out, with the figures, and what would help first, with its key; empty where nothing ran out.

    It stands in place of the reason, which has the same figures and general advice.
    """
    if status.out_of_memory is None:
        return Content("")
    look = LOOKS[status.state]
    lines = [Content.styled(f"{look.symbol} {verdict(status.out_of_memory)}", look.style)]
    if status.remedies:
        first, *others = (clean_line(remedy.title) for remedy in status.remedies)
        key = "" if readonly else " F"
        more = f" · or {len(others)} more" if others else ""
        lines.append(Content.assemble((f"→{key} ", "bold"), (first, ""), (more, "$foreground 60%")))
    return Content("\n").join(lines)
