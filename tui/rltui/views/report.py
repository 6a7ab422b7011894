"""The report of a run as Markdown, to be read on GitHub. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rltui.base.markdown import fenced, plain, table
from rltui.base.text import duration, group_digits, size_text, steps_text, value_text
from rltui.base.times import date_text
from rltui.core.experiment.events import first_line
from rltui.core.metrics.annotations import Annotation, AnnotationKind
from rltui.core.metrics.series import SeriesSource
from rltui.core.runs.compare import Comparison
from rltui.core.runs.row import RunRow
from rltui.views.comparison import compared_rows, markdown_table

FILE_NAME = "report.md"
_MOST_MARKS = 40
"""Lines of the journal in the report; the file has all."""
_LONGEST_DIFF = 200
"""Lines of a diff in the report itself."""
_QUIET = (AnnotationKind.CHECKPOINT, AnnotationKind.ALERT)
"""Annotations that are left out first if there are many."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    title: str
    path: str
    """Path relative to the report."""
    text: str = ""


Draw = Callable[[SeriesSource, str, tuple[Annotation, ...]], Sequence[ReportFile]]
"""Makes the curves of a run from its series, its name and its annotations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    run: RunRow
    parent: RunRow | None = None
    comparison: Comparison
    """The parent first, if there is one, then the run."""
    made_at: float
    curves: Sequence[ReportFile] = ()
    configs: Sequence[ReportFile] = ()
    diffs: Sequence[ReportFile] = ()
    rollouts: Sequence[ReportFile] = ()
    evaluations: Sequence[Sequence[str]] = ()
    """A row per evaluation: target, environment, number of prompts, reward, time."""
    annotations: Sequence[Annotation] = ()
    journal: ReportFile | None = None

    def text(self) -> str:
        sections = [
            *self._title_section(),
            *self._metrics_section(),
            *self._config_section(),
            *self._results_section(),
            *self._journal_section(),
            *self._footer(),
        ]
        return "\n\n".join(section.strip("\n") for section in sections if section) + "\n"

    def _title_section(self) -> Iterator[str]:
        run = self.run
        yield f"# {plain(run.name)}"
        if run.note:
            yield plain(run.note)
        yield table(("", ""), [(label, text) for label, text in _details(run, self.parent) if text])

    def _metrics_section(self) -> Iterator[str]:
        yield "## Figures"
        yield markdown_table(self.comparison)
        for curve in self.curves:
            yield f"![{plain(curve.title)}]({curve.path})"

    def _config_section(self) -> Iterator[str]:
        yield "## Config"
        against = "the defaults" if self.parent is None else plain(self.parent.name)
        if self.run.changed:
            yield f"Keys that differ from {against}:"
            rows = [(key, _value(old), _value(new)) for key, (old, new) in sorted(self.run.changed.items())]
            yield table(("key", "default" if self.parent is None else "parent", "this run"), rows)
        else:
            yield f"No keys differ from {against}."
        yield _links(self.configs)
        for diff in self.diffs:
            lines = diff.text.splitlines()
            more = f"\n\nand {len(lines) - _LONGEST_DIFF} more lines" if len(lines) > _LONGEST_DIFF else ""
            excerpt = fenced("\n".join(lines[:_LONGEST_DIFF]), "diff")
            title = f"[{plain(diff.title)}]({diff.path})"
            summary = f"<details><summary>{escape(diff.title, quote=False)}</summary>"
            yield f"{summary}\n\n{title}\n\n{excerpt}{more}\n\n</details>"

    def _results_section(self) -> Iterator[str]:
        if self.run.checkpoints:
            yield "## Checkpoints"
            folder = plain(self.run.run_dir or self.run.folder)
            yield f"Steps {steps_text(self.run.checkpoints)}, in {folder}."
        if self.evaluations:
            yield "## Evaluations"
            yield table(("what", "env", "examples", "reward", "when"), self.evaluations)
        if self.rollouts:
            yield "## Rollouts"
            yield _links(self.rollouts)

    def _journal_section(self) -> Iterator[str]:
        if self.journal is None:
            return
        yield "## Events"
        annotations = list(self.annotations)
        if len(annotations) > _MOST_MARKS:
            annotations = [annotation for annotation in annotations if annotation.kind not in _QUIET][
                -_MOST_MARKS:
            ]
        rows = []
        for annotation in annotations:
            step = "" if annotation.step is None else str(annotation.step)
            rows.append((date_text(annotation.at), step, annotation.kind.value, first_line(annotation.text)))
        yield table(("when", "step", "", "what"), rows) if rows else ""
        yield _links([self.journal])

    def _footer(self) -> Iterator[str]:
        has_better = any(row.best for row in compared_rows(self.comparison))
        better = "; ▲ is better than the first run on the same evaluation examples" if has_better else ""
        yield f"Written by rltui on {date_text(self.made_at)}{better}."


def _details(run: RunRow, parent: RunRow | None) -> Iterator[tuple[str, str]]:
    end_text = "" if run.ended_at is None else f", to {date_text(run.ended_at)}"
    step = (
        "" if run.step is None else f"{run.step}" + ("" if run.max_steps is None else f" of {run.max_steps}")
    )
    from_step = "" if run.parent_step is None else f", from its step {run.parent_step}"
    yield "state", run.state + (f": {run.reason.text}" if run.reason.text else "")
    yield "steps", step
    yield "when", "" if run.started_at is None else f"{date_text(run.started_at)}{end_text}"
    yield "took", duration(run.seconds) + (f", {run.attempts} starts" if run.attempts > 1 else "")
    yield "GPU hours", group_digits(run.gpu_seconds / 3600) if run.gpu_seconds else ""
    yield "parent", (run.parent if parent is None else parent.name) + from_step if run.parent else ""
    yield "group", run.group
    yield "tags", " ".join((*(("best",) if run.is_best else ()), *run.tags))
    yield "framework", f"{run.framework} {run.generation}".strip()
    yield (
        "commit",
        run.commit + (" with uncommitted changes" if run.commit and run.is_dirty else ""),
    )
    yield "versions", ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    yield "machine", ", ".join(name_ for name_ in (run.host, *run.gpus) if name_)
    yield "folder", run.folder
    yield "on disk", "" if run.disk_bytes is None else size_text(run.disk_bytes)
    yield "id", run.id


def _links(files: Sequence[ReportFile]) -> str:
    return "\n".join(f"- [{plain(file.title)}]({file.path})" for file in files)


def _value(value: object) -> str:
    return "—" if value is None else value_text(value)
