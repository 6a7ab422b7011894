"""Dialogs before checkpoints are deleted, brought back or uploaded, and what may be kept."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from rltui.base.text import size_text
from rltui.core.experiment.api import Publication
from rltui.core.runs.checkpoints import CheckpointReport, Retention
from rltui.ui.dialogs.base import ButtonDialog, button
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.views.checkpoint import publication_text

_LABEL = 10


class RowsDialog(ButtonDialog[bool]):
    """Shows a plan in rows and asks whether to carry it out; *no* is the default."""

    def __init__(self, title: str, rows: Sequence[tuple[str, str]], verb: str, *, is_danger: bool) -> None:
        lines = [
            Content.assemble((label.ljust(_LABEL), FAINT), (clean_line(text), _ROW_STYLES.get(label, "")))
            for label, text in rows
        ]
        super().__init__(
            title,
            Content("\n").join(lines),
            [button(verb, "yes", "error" if is_danger else "primary"), button("Cancel", "no")],
            {"yes": True},
            is_danger=is_danger,
        )


class PublishDialog(ButtonDialog[bool]):
    """Says what would be uploaded. Whether to a private repository; `None`: not at all, the default."""

    def __init__(self, published: Publication) -> None:
        note = "A missing repository is created."
        lines = [clean_line(line) for line in (*publication_text(published).splitlines(), "", note)]
        super().__init__(
            f"Upload to {published.repo}?",
            Content("\n".join(lines)),
            [button("Private", "private", "primary"), button("Public", "public"), button("Cancel", "no")],
            {"private": True, "public": False, "yes": True},
            yes="Upload as private",
        )


_ROW_STYLES = dict.fromkeys(("delete", "free", "restore"), "bold")


def retentions(report: CheckpointReport) -> dict[str, tuple[Retention, str, str]]:
    """The choices of a dialog: a retention by id, with its label."""
    always = "and the best, and those that the config names"
    choices = {
        "3": (Retention(), "Keep the newest 3", always),
        "1": (Retention(keep_last=1), "Keep only the newest", always),
    }
    complete = [checkpoint.step for checkpoint in report.complete]
    if len(complete) > len(choices):
        every = 10 * max(1, complete[1] - complete[0])
        retention = Retention(keep_every=every)
        choices["every"] = (retention, f"Keep the newest 3 and one every {every} steps", always)
    if report.archive_bytes:
        freed = f"{size_text(report.archive_bytes)} in {report.archive}"
        retention = Retention(keep=tuple(checkpoint.step for checkpoint in report.checkpoints), archive=True)
        choices["aside"] = (retention, "Delete only what restarts set aside", freed)
    return choices
