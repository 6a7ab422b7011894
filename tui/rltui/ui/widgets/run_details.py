"""Details of the run under the cursor, below the list of runs."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from rltui.core.runs.queue import QueueEntry
from rltui.ui.paragraphs import flow, hanging, labelled
from rltui.ui.text import clean_line
from rltui.views.queue_entry import entry_details
from rltui.views.run import run_details, sweep_details
from rltui.views.run_list import Line

_LABEL = 10
_MOST_METRICS = 6
_STYLES = {"problem": "$text-error", "why": "$text-warning", "note": "italic", "tags": "$text-accent"}


def detail_lines(line: Line | None, names: Mapping[str, str], width: int, now: float) -> list[Content]:
    """Most important first: whoever has little room shows the first of them. `names`: of all runs, by id."""
    if line is None:
        return []
    if isinstance(line, QueueEntry):
        details = entry_details(line, now)
    elif line.row is None:
        details = sweep_details(line.group, line.members)
    else:
        details = run_details(line.row, names)
    lines: list[Content] = []
    for label, texts in details:
        texts, style = [clean_line(text) for text in texts if text], _STYLES.get(label, "")
        if label == "metrics" and len(texts) > _MOST_METRICS:
            texts[_MOST_METRICS:] = [f"{len(texts) - _MOST_METRICS} more"]
        if len(texts) == 1:
            text_lines = hanging(texts[0], width - _LABEL, style)
        else:
            text_lines = flow([Content.styled(text, style) for text in texts], width - _LABEL, gap=" · ")
        lines += labelled(label, text_lines, _LABEL)
    return lines
