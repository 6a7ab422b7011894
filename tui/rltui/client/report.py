"""`rltui runs export` writes a run as a folder that can be read, saved and sent around without rltui.

The folder is written under another name and renamed once it is complete: a full disk leaves nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.secrets import mask_text
from rltui.base.times import date_text
from rltui.core.metrics.annotations import annotations_of
from rltui.core.metrics.series import SeriesSource
from rltui.core.rollouts.batches import BatchKey, RolloutSource, sort_samples
from rltui.core.runs.compare import Comparison
from rltui.core.runs.row import RunRow
from rltui.errors import ConflictError, RltuiError
from rltui.services.config.change import text_diff
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import read_journal
from rltui.services.experiment.recorded_config import recorded_contents
from rltui.services.own_files import free_path
from rltui.services.redaction import without_secrets
from rltui.services.runs.evaluations import EvalFolder
from rltui.views.report import FILE_NAME, Draw, ReportFile, RunReport

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_READ_S = 1.0
_LONGEST_READING_S = 60.0
"""Time limit for reading the rollouts of a step; the best and worst of those read are exported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSources:
    run: RunRow
    parent: RunRow | None
    comparison: Comparison
    series: SeriesSource
    rollouts: RolloutSource


def write_report(sources: ReportSources, folder: Path | None, draw: Draw, *, samples: int) -> Path:
    """Write the report into `folder`, which must not be there yet or be empty, and return it. `None`: into a
    new one in the working folder, named like the run. `samples`: so many of the best and worst rollouts.

    Raises:
        ConflictError: if something lies there.
        RltuiError: if it cannot be written; then nothing is left of it.
    """
    if folder is None:
        folder = Path.cwd() / f"{sources.run.name}-report"
        folder = free_path(folder)
    target = folder.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConflictError(f"{target} already exists", hint="name another folder with -o, or remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as parent:
            report_folder = Path(parent, "report")
            report_folder.mkdir()
            _Writer(sources, report_folder).write(draw, samples)
            _hide_secrets(report_folder)
            os.rename(report_folder, target)  # noqa: PTH104 - over an empty folder, too
    except (OSError, RltuiError) as error:
        reason = error.title if isinstance(error, RltuiError) else error.strerror
        raise RltuiError(
            f"cannot write the report {target}: {reason}",
            hint="no partial report was left; free disk space, or name a folder on another disk with -o",
        ) from error
    return target


def _hide_secrets(folder: Path) -> None:
    """Mask secrets in all files of the report, wherever they were copied from."""
    for path in filter(Path.is_file, folder.rglob("*")):
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        if (masked_text := without_secrets(text)) != text:
            path.write_bytes(masked_text.encode("utf-8", "surrogateescape"))


class _Writer:
    """Writes one report into a folder. Any of it may raise OSError."""

    def __init__(self, sources: ReportSources, folder: Path) -> None:
        self._sources = sources
        self._run = sources.run
        self._folder = folder
        self._control = Path(sources.run.control)

    def write(self, draw: Draw, samples: int) -> None:
        """Write all files, the report itself last."""
        journal_path = self._control / "journal.jsonl"
        entries = read_journal(journal_path) if self._run.control else []
        annotations = annotations_of(entries)
        journal_file = ReportFile(f"the journal, {len(entries)} entries", "journal.jsonl")
        if entries:
            shutil.copyfile(journal_path, self._folder / journal_file.path)
        curves = [self._put(drawing) for drawing in draw(self._sources.series, self._run.name, annotations)]
        report = RunReport(
            run=self._run,
            parent=self._sources.parent,
            comparison=self._sources.comparison,
            made_at=time.time(),
            curves=curves,
            configs=[
                self._put(ReportFile(f"{name} as it ran", f"configs/{name}", text))
                for name, text in config_texts(self._run).items()
            ],
            diffs=[self._put(drawing) for drawing in self._diffs()],
            rollouts=self._rollouts(samples) if samples else (),
            evaluations=[*self._evaluations()],
            annotations=annotations,
            journal=journal_file if entries else None,
        )
        self._put(ReportFile("", FILE_NAME, report.text()))

    def _put(self, file: ReportFile) -> ReportFile:
        path = self._folder / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(file.text, encoding="utf-8", errors="replace")
        return file

    def _diffs(self) -> Iterator[ReportFile]:
        """Diffs of its config files against the parent's; a single file matches whatever its name."""
        parent = self._sources.parent
        if parent is None:
            return
        before, after = config_texts(parent), config_texts(self._run)
        for name, text in after.items():
            earlier_text = (
                next(iter(before.values())) if len(before) == len(after) == 1 else before.get(name, "")
            )
            if lines := text_diff(earlier_text, text, name):
                yield ReportFile(f"{name} against {parent.name}", f"diffs/{name}.diff", lines)

    def _evaluations(self) -> Iterator[tuple[str, ...]]:
        if not self._run.control:
            return
        for evaluation in EvalFolder(ControlFolder(self._control.parent)).ended():
            error = "" if evaluation.stderr is None else f" ± {evaluation.stderr:.3f}"
            reward = evaluation.verdict if evaluation.mean is None else f"{evaluation.mean:.3f}{error}"
            requested_samples = f"{evaluation.num_examples} × {evaluation.rollouts_per_example}"
            yield (
                evaluation.label,
                evaluation.env,
                requested_samples,
                reward,
                date_text(evaluation.at),
            )

    def _rollouts(self, count: int) -> list[ReportFile]:
        """The best and the worst of the newest step."""
        source = self._sources.rollouts
        key = _newest_batch(source)
        if key is None:
            return []
        table = source.table(key)
        files, step = [], f"step {key.step}" if key.step >= 0 else key.label
        (self._folder / "rollouts").mkdir()
        best, worst = sort_samples(table, "best")[:count], sort_samples(table, "worst")[:count]
        for label, places in (("best", best), ("worst", [index for index in worst if index not in best])):
            if places:
                file = ReportFile(f"the {label} {len(places)} of {step}", f"rollouts/{label}.md")
                transcripts = [source.open(key, table[index]) for index in places]
                source.export(transcripts, self._folder / file.path)
                source.export(transcripts, self._folder / "rollouts" / f"{label}.jsonl")
                files += [
                    file,
                    replace(
                        file, title=f"{file.title}, as they were written", path=f"rollouts/{label}.jsonl"
                    ),
                ]
        return files


def config_texts(run: RunRow) -> dict[str, str]:
    """File name → text of each config file as the run last read it, with secrets masked. Texts that are no
    longer saved are left out.
    """
    texts: dict[str, str] = {}
    for config in run.configs:
        name = _NOT_IN_NAMES.sub("-", Path(config.path).name).strip("-.") or "config.toml"
        while name in texts:
            name = f"other-{name}"
        content = recorded_contents().content(config.sha256)
        if content is not None:
            texts[name] = mask_text(content.decode("utf-8", "replace"))
    return texts


def _newest_batch(source: RolloutSource) -> BatchKey | None:
    """The newest step, else an evaluation, with its samples read."""
    until = time.monotonic() + _LONGEST_READING_S
    while source.poll(budget_s=_READ_S) and time.monotonic() < until:
        continue
    keys = [batch.key for batch in source.batches() if batch.key.kind != "live"]
    train_batches = [key for key in keys if key.kind == "train" and not key.part]
    key = next(iter((*train_batches, *keys)), None)
    while key is not None and source.poll(key, _READ_S) and time.monotonic() < until:
        continue
    return key
