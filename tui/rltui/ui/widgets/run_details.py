"""What the list of runs tells of the one under the cursor, below the list."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from textual.content import Content

from rltui.core.queue import QueueEntry
from rltui.core.run_columns import gpus_text
from rltui.core.runs import RunRow
from rltui.core.secrets import mask_value
from rltui.core.text import duration, format_number, size_text, steps_text, value_text
from rltui.ui.paragraphs import flow, hanging, labelled
from rltui.ui.text import clean_line
from rltui.ui.widgets.run_table import Line, group_text

_LABEL = 10
_COMMIT = 9
_STYLES = {"problem": "$text-error", "waits": "$text-warning", "note": "italic", "tags": "$text-accent"}

_Fact = tuple[str, Sequence[str]]
"""A label, and what there is to say; empty texts are left out."""


def detail_lines(line: Line | None, names: Mapping[str, str], width: int, now: float) -> list[Content]:
    """Most important first: whoever has little room shows the first of them. `names`: of all runs, by id."""
    if line is None:
        return []
    if isinstance(line, QueueEntry):
        return _drawn(_of_entry(line, now), width)
    if line.row is None:
        members = sorted(row.name for row in line.members)
        return _drawn([("sweep", [line.group]), ("runs", group_text(line)), ("named", members)], width)
    row = line.row
    facts: list[_Fact] = [
        ("problem", [row.problem]),
        ("note", [row.note]),
        ("tags", row.tags),
        ("from", _origin(row, names)),
        ("changed", _changes(row)),
        ("metrics", _metrics(row)),
        ("took", _efforts(row)),
        ("code", _code(row)),
        ("when", _when(row)),
        ("folder", [row.folder]),
    ]
    return _drawn(facts, width)


def _drawn(facts: Iterable[_Fact], width: int) -> list[Content]:
    lines: list[Content] = []
    for label, texts in facts:
        texts, style = [clean_line(text) for text in texts if text], _STYLES.get(label, "")
        if len(texts) == 1:
            shown = hanging(texts[0], width - _LABEL, style)
        else:
            shown = flow([Content.styled(text, style) for text in texts], width - _LABEL, gap=" · ")
        lines += labelled(label, shown, _LABEL)
    return lines


def _of_entry(entry: QueueEntry, now: float) -> list[_Fact]:
    needs = [f"{entry.gpus} GPU{'' if entry.gpus == 1 else 's'}"] if entry.gpus else []
    needs += [f"{size_text(entry.gpu_bytes)} of each"] if entry.gpu_bytes else []
    retried = f"{entry.retries} time{'' if entry.retries == 1 else 's'}"
    needs += [f"is started again {retried} where it fails"] if entry.retries else []
    return [
        ("waits", [entry.why or entry.state]),
        ("sweep", [entry.group]),
        ("changed", [entry.told]),
        ("needs", needs),
        ("ends if", entry.stop_if),
        ("queued", [f"{duration(now - entry.added_at)} ago"]),
        ("command", [" ".join(("rltui up", *entry.words))]),
        ("folder", [entry.folder]),
    ]


def _origin(row: RunRow, names: Mapping[str, str]) -> list[str]:
    parts = []
    if row.parent:
        at = "" if row.parent_step is None else f" at step {row.parent_step}"
        parts.append(f"forked from {names.get(row.parent, row.parent)}{at}")
    if row.again:
        parts.append(f"repeats {names.get(row.again, row.again)}")
    if row.group:
        parts.append(f"sweep {row.group}")
    return parts


def _changes(row: RunRow) -> list[str]:
    """`optim.lr 1e-5 → 1e-6`."""
    return [
        f"{key} {f'{_shown(key, old)} → ' if old is not None else ''}{_shown(key, new)}"
        for key, (old, new) in row.changed.items()
    ]


def _shown(key: str, value: object) -> str:
    return mask_value(key, value) if isinstance(value, str) else value_text(value)


def _metrics(row: RunRow) -> list[str]:
    texts = []
    for name, (last, _) in row.metrics.items():
        level = row.levels.get(name)
        if level is not None and level.steps > 1:
            texts.append(f"{name} {level.text()} (last {level.steps})")
        elif last is not None:
            texts.append(f"{name} {format_number(last)}")
    return texts


def _efforts(row: RunRow) -> list[str]:
    texts = [duration(row.seconds)] if row.seconds else []
    texts += [f"{row.attempts} attempt{'' if row.attempts == 1 else 's'}"] if row.attempts else []
    texts += [f"{row.gpu_seconds / 3600:.1f} GPU hours"] if row.gpu_seconds else []
    texts += [size_text(row.disk_bytes)] if row.disk_bytes is not None else []
    if row.checkpoints:
        plural = "" if len(row.checkpoints) == 1 else "s"
        texts.append(f"checkpoint{plural} {steps_text(row.checkpoints)}")
    return texts


def _code(row: RunRow) -> list[str]:
    texts = [f"{row.framework} {row.generation}".strip()]
    if row.commit:
        texts.append(f"commit {row.commit[:_COMMIT]}{' with changes' if row.is_dirty else ''}")
    texts += [f"{name} {version}" for name, version in row.versions.items()]
    return [*texts, gpus_text(row.gpus), f"on {row.host}" if row.host else ""]


def _when(row: RunRow) -> list[str]:
    texts = [f"began {_time(row.started_at or row.created_at)}"]
    texts += [f"ended {_time(row.ended_at)}"] if row.ended_at is not None else []
    texts += [f"archived {_time(row.archived_at)}"] if row.archived_at is not None else []
    return [*texts, f"id {row.id}"]


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
