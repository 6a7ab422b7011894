"""Rollouts in a file per batch: prime-rl of spring and summer 2026, tinyrl, and the results of `vf-eval`."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from rltui.core.metrics.progress import LARGEST_STEP
from rltui.core.rollouts import rows
from rltui.core.rollouts.batches import ALL, Batch, BatchKey, BatchKind, Sample, SampleTable, Transcript
from rltui.errors import RltuiError
from rltui.services.own_files import entry_names
from rltui.services.rollouts.chunks import NewestFirst, lines_at, record

_STEP = re.compile(r"step_(\d{1,15})")
_ROOTS = ("rollouts", "run_default/rollouts")
_STEP_FILES: tuple[tuple[str, BatchKind, str], ...] = (
    ("train_rollouts.jsonl", "train", ""),
    ("eval_rollouts.jsonl", "eval", ""),
    ("train/effective/traces.jsonl", "train", ""),
    ("train/all/traces.jsonl", "train", ALL),
    ("eval/effective/traces.jsonl", "eval", ""),
    ("eval/all/traces.jsonl", "eval", ALL),
)
"""Paths in the folder of a step: prime-rl until July 2026 and tinyrl, then prime-rl until the end of
August.
"""
_EVALUATIONS = (
    "results.jsonl",
    "traces.jsonl",
    "*/traces.jsonl",
    "*/results.jsonl",
    "outputs/*/traces.jsonl",
    "evals/*/*/results.jsonl",
    "outputs/evals/*/*/results.jsonl",
    "environments/*/outputs/evals/*/*/results.jsonl",
)
"""Files that `vf-eval` saves, before 0.4 and since, below the folder that it was run in."""
_MOST_EVALUATIONS = 1000
_POLL_S = 5.0
"""Interval of the search for new evaluations."""
_GROWING_STEPS = 3
"""Number of newest steps that may get further files."""


class RolloutFile:
    """The samples of one file: flat rows or episodes, as each line says itself."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path, self.size_bytes = path, size_bytes
        self.table = SampleTable()
        self.is_read = False
        self._lines = NewestFirst(path, forward=True)

    def read(self) -> bool:
        """True if there is more still."""
        lines = self._lines.read()
        if self._lines.restarted:
            self.table = SampleTable()
        for offset, line in lines:
            if (row := record(line)) is not None:
                sample_of = rows.episode_sample if "traces" in row else rows.flat_sample
                self.table.append(sample_of(row, offset))
        self.is_read = True
        return self._lines.is_behind

    def open(self, sample: Sample) -> Transcript:
        line = next(lines_at(self.path, [sample.where]))
        row = None if line is None else record(line)
        if row is None:
            raise RltuiError(
                f"{self.path} no longer has a rollout at this position",
                hint="the file was moved aside or rewritten",
            )
        if "traces" in row:
            return rows.episode_transcript(row, sample)
        return rows.flat_transcript(row, sample)


def _open_file(path: Path) -> RolloutFile | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return RolloutFile(path, status.st_size) if stat.S_ISREG(status.st_mode) else None


class BatchFiles:
    """Batches in a file each. Only names are read until a batch is requested."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[BatchKey, RolloutFile] = {}

    def poll(self, displayed: BatchKey | None) -> bool:
        """Check for added and removed files, and read on in `displayed`. Returns True if there is more of
        it.
        """
        self._find()
        file = None if displayed is None else self._files.get(displayed)
        return file is not None and file.read()

    def _find(self) -> None:
        raise NotImplementedError

    def _add(self, key: BatchKey, path: Path) -> bool:
        """Add the file unless its key is known, or it does not exist."""
        if key in self._files or (file := _open_file(path)) is None:
            return False
        self._files[key] = file
        return True

    def batches(self) -> Iterator[Batch]:
        for key, file in self._files.items():
            yield Batch(key, len(file.table)) if file.is_read else Batch(key, None, file.size_bytes)

    def table(self, key: BatchKey) -> SampleTable | None:
        return self._files[key].table if key in self._files else None

    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        return self._files[key].open(sample)

    def lines(self, key: BatchKey, samples: Iterable[Sample]) -> Iterator[bytes | None]:
        """Read the line of each sample; the file is opened once for all."""
        return lines_at(self._files[key].path, (sample.where for sample in samples))


class StepFiles(BatchFiles):
    """Batches in `rollouts/step_<N>/` of a run's folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._steps: dict[Path, set[BatchKey]] = {}

    def _find(self) -> None:
        folders = {
            self._folder / root / name: int(match[1])
            for root in _ROOTS
            for name in entry_names(self._folder / root)
            if (match := _STEP.fullmatch(name)) and int(match[1]) <= LARGEST_STEP
        }
        for path in [path for path in self._steps if path not in folders]:
            for key in self._steps.pop(path):
                del self._files[key]
        newest = sorted(folders.values())[-_GROWING_STEPS:]
        for path, step in folders.items():
            if path not in self._steps or not self._steps[path] or step in newest:
                keys = self._steps.setdefault(path, set())
                candidates = (
                    (BatchKey(kind, step, part), path / file_path) for file_path, kind, part in _STEP_FILES
                )
                keys.update(key for key, file_path in candidates if self._add(key, file_path))


class Evaluations(BatchFiles):
    """Evaluations that `vf-eval` saved, a folder each, or one file that somebody named."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._next_poll = 0.0
        self._found_paths: set[Path] = set()

    def _find(self) -> None:
        if time.monotonic() < self._next_poll:
            return
        self._next_poll = time.monotonic() + _POLL_S
        for path in islice(self._evaluation_files(), _MOST_EVALUATIONS):
            if path not in self._found_paths:
                self._found_paths.add(path)
                name = BatchKey("eval", part=self._name(path))
                self._add(name if name not in self._files else name._replace(part=str(path)), path)

    def _evaluation_files(self) -> Iterator[Path]:
        if self._folder.is_file():
            yield self._folder
            return
        for pattern in _EVALUATIONS:
            yield from sorted(self._folder.glob(pattern))

    def _name(self, path: Path) -> str:
        """Name of the folder that the evaluation has to itself, without common parents."""
        if path == self._folder:
            return path.name
        segments = path.relative_to(self._folder).parts[:-1] or (self._folder.name,)
        if "evals" in segments:
            return "/".join(segments[segments.index("evals") + 1 :])
        return "/".join(segments[1:] if len(segments) > 1 and segments[0] == "outputs" else segments)
