"""`rltui export`: a run as a folder that can be read, kept and sent around without rltui.

It is written beside its place under another name and renamed once it is whole: a full disk leaves nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.core.annotations import marks
from rltui.core.compare import Comparison
from rltui.core.report import FILE_NAME, Draw, ReportFile, RunReport
from rltui.core.rollouts import BatchKey, RolloutSource, sort_samples
from rltui.core.runs import RunRow
from rltui.core.secrets import mask_text
from rltui.core.series import SeriesSource
from rltui.errors import ConflictError, RltuiError
from rltui.services.config.diff import text_diff
from rltui.services.own_files import read_own
from rltui.services.redaction import without_secrets
from rltui.services.runs.evaluations import EvalFolder
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.journal import read_journal
from rltui.services.runs.run_folder import next_free
from rltui.services.runs.run_row import content_file

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_READ_S = 1.0
_LONGEST_READING_S = 60.0
"""For the rollouts of a step; what is read by then is chosen from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSources:
    run: RunRow
    parent: RunRow | None
    comparison: Comparison
    """As `RunReport.comparison`."""
    series: SeriesSource
    rollouts: RolloutSource


def write_report(sources: ReportSources, folder: Path | None, draw: Draw, *, samples: int) -> Path:
    """Write the report into `folder`, which must not be there yet or be empty, and return it. `None`: into a
    new one in the working folder, named like the run. `samples`: so many of the best and worst rollouts.

    Raises:
        ConflictError: if something lies there.
        RltuiError: if it cannot be written; then nothing is left of it.
    """
    target = _free_place(sources.run.name) if folder is None else folder.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConflictError(f"{target} is there already", hint="name another folder with -o, or remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as place:
            whole = Path(place, "report")
            whole.mkdir()
            _Writer(sources, whole).write(draw, samples)
            _hide_secrets(whole)
            os.rename(whole, target)  # noqa: PTH104 - over an empty folder, too
    except (OSError, RltuiError) as error:
        why = error.title if isinstance(error, RltuiError) else error.strerror
        raise RltuiError(
            f"cannot write the report {target}: {why}",
            hint="nothing of it was left; make room, or name a folder on another disk with -o",
        ) from error
    return target


def _hide_secrets(folder: Path) -> None:
    """In all that was written, whatever it was copied from."""
    for path in filter(Path.is_file, folder.rglob("*")):
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        if (told := without_secrets(text)) != text:
            path.write_bytes(told.encode("utf-8", "surrogateescape"))


def _free_place(name: str) -> Path:
    place = Path.cwd() / f"{name}-report"
    return next_free(place) if place.exists() else place


class _Writer:
    """Writes one report into a folder. Any of it may raise OSError."""

    def __init__(self, sources: ReportSources, folder: Path) -> None:
        self._sources = sources
        self._run = sources.run
        self._folder = folder
        self._control = Path(sources.run.control)

    def write(self, draw: Draw, samples: int) -> None:
        """All of it; the report itself last."""
        journal_file = self._control / "journal.jsonl"
        entries = read_journal(journal_file) if self._run.control else []
        found = marks(entries)
        told = ReportFile(f"the journal, {len(entries)} entries", "journal.jsonl")
        if entries:
            shutil.copyfile(journal_file, self._folder / told.path)
        curves = [self._put(each) for each in draw(self._sources.series, self._run.name, found)]
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
            diffs=[self._put(each) for each in self._diffs()],
            rollouts=self._rollouts(samples) if samples else (),
            evaluations=[*self._evaluations()],
            marks=found,
            journal=told if entries else None,
        )
        self._put(ReportFile("", FILE_NAME, report.text()))

    def _put(self, file: ReportFile) -> ReportFile:
        path = self._folder / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(file.text, encoding="utf-8", errors="replace")
        return file

    def _diffs(self) -> Iterator[ReportFile]:
        """Of its config files against the parent's; of a single one, whatever it was called there."""
        parent = self._sources.parent
        if parent is None:
            return
        before, after = config_texts(parent), config_texts(self._run)
        for name, text in after.items():
            other = next(iter(before.values())) if len(before) == len(after) == 1 else before.get(name, "")
            if lines := text_diff(other, text, name):
                yield ReportFile(f"{name} against {parent.name}", f"diffs/{name}.diff", lines)

    def _evaluations(self) -> Iterator[tuple[str, ...]]:
        if not self._run.control:
            return
        for each in EvalFolder(ControlFolder(self._control.parent)).ended():
            error = "" if each.stderr is None else f" ± {each.stderr:.3f}"
            reward = each.verdict if each.mean is None else f"{each.mean:.3f}{error}"
            asked = f"{each.num_examples} × {each.rollouts_per_example}"
            yield (
                each.label,
                each.env,
                asked,
                reward,
                time.strftime("%Y-%m-%d %H:%M", time.localtime(each.at)),
            )

    def _rollouts(self, count: int) -> list[ReportFile]:
        """The best and the worst of the newest step."""
        source = self._sources.rollouts
        key = _newest_batch(source)
        if key is None:
            return []
        table = source.table(key)
        found, step = [], f"step {key.step}" if key.step >= 0 else key.label
        (self._folder / "rollouts").mkdir()
        best, worst = sort_samples(table, "best")[:count], sort_samples(table, "worst")[:count]
        for word, places in (("best", best), ("worst", [at for at in worst if at not in best])):
            if places:
                file = ReportFile(f"the {word} {len(places)} of {step}", f"rollouts/{word}.md")
                opened = [source.open(key, table[at]) for at in places]
                source.export(opened, self._folder / file.path)
                source.export(opened, self._folder / "rollouts" / f"{word}.jsonl")
                found += [
                    file,
                    replace(file, title=f"{file.title}, as they were written", path=f"rollouts/{word}.jsonl"),
                ]
        return found


def config_texts(run: RunRow) -> dict[str, str]:
    """By a name for a file: each config file as the run last read it, with secrets masked. What is not kept
    any more is left out.
    """
    found: dict[str, str] = {}
    for each in run.configs:
        name = _NOT_IN_NAMES.sub("-", Path(each.path).name).strip("-.") or "config.toml"
        while name in found:
            name = f"other-{name}"
        with suppress(FileNotFoundError):
            found[name] = mask_text(read_own(content_file(each.sha256)).decode("utf-8", "replace"))
    return found


def _newest_batch(source: RolloutSource) -> BatchKey | None:
    """The newest step, else an evaluation, with its samples read."""
    until = time.monotonic() + _LONGEST_READING_S
    while source.poll(budget_s=_READ_S) and time.monotonic() < until:
        continue
    keys = [batch.key for batch in source.batches() if batch.key.kind != "live"]
    trained = [key for key in keys if key.kind == "train" and not key.part]
    key = next(iter((*trained, *keys)), None)
    while key is not None and source.poll(key, _READ_S) and time.monotonic() < until:
        continue
    return key
