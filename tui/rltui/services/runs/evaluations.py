"""Evaluations on disk: `<control folder>/evals/`, with a folder for each. A resume does not touch them."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from rltui.base.text import numbered, parse_whole_number, unknown_name
from rltui.base.values import InvalidValueError, Value
from rltui.core.experiment.actor import Actor
from rltui.core.rollouts.batches import ALL, BatchKey, RolloutSource, prompt_text
from rltui.core.runs.evals import (
    EvalReport,
    EvalRequest,
    EvalStatistics,
    Evaluation,
    QueuedEval,
    statistics_of,
)
from rltui.services.experiment.files import ControlFolder
from rltui.services.own_files import entry_names, make_folder, read_own, write_atomically
from rltui.services.rollouts import open_rollouts

logger = logging.getLogger(__name__)

_V = TypeVar("_V", bound=Value)
_RECORD = "evaluation.json"
_RESULTS = ("results.jsonl", "traces.jsonl")
"""Files with a line for each finished rollout."""
_DEEPEST = 6
"""Number of folders between an evaluation and its samples:
`reverse_text/outputs/evals/ENV--MODEL/1a2b3c4d`.
"""
_TAIL_BYTES = 8192
_PROGRESS = re.compile(r"(?<![\d/.])(\d{1,7})/(\d{1,7})(?![\d/.])")


class EvalQueue(Value):
    """Waiting and running evaluations, stored for the next supervisor."""

    waiting: tuple[QueuedEval, ...] = ()
    running: QueuedEval | None = None
    begun: Evaluation | None = None
    """The running evaluation once its evaluator was started, with what is known before it ends."""
    every: int = 0
    """A standing order: evaluate one of this many checkpoints; 0: none."""
    order: EvalRequest = EvalRequest()
    ordered_by: Actor | None = None
    """Who gave the standing order."""
    seen: int = 0
    """Number of checkpoints since the standing order was given."""

    @property
    def entries(self) -> tuple[QueuedEval, ...]:
        """The running one first, then the others in the order in which they will run."""
        return self.waiting if self.running is None else (self.running, *self.waiting)

    def entry(self, id_: str) -> QueuedEval:
        """The one with that id.

        Raises:
            UsageError: if there is none.
        """
        for entry in self.entries:
            if entry.id == id_:
                return entry
        raise unknown_name("evaluation in the queue", id_, [entry.id for entry in self.entries])


class EvalFolder:
    """The evaluations of one experiment. Every call may block, for some milliseconds."""

    def __init__(self, control: ControlFolder) -> None:
        self._control = control
        self.path = control.path / "evals"
        self._queue_file = self.path / "queue.json"
        self._cached: dict[Path, Evaluation] = {}

    def ended(self) -> tuple[Evaluation, ...]:
        """The finished evaluations, oldest first. One whose record is damaged is left out."""
        by_number = {}
        for number, folder in self._folders():
            if folder not in self._cached and (record := _read(folder / _RECORD, Evaluation)) is not None:
                self._cached[folder] = record
            if folder in self._cached:
                by_number[number] = self._cached[folder]
        return tuple(by_number.values())

    def queue(self) -> EvalQueue:
        """Empty if it cannot be read."""
        return _read(self._queue_file, EvalQueue) or EvalQueue()

    def report(self, experiment: str, queue: EvalQueue | None = None) -> EvalReport:
        """`queue`: the current one, if it is newer than the file."""
        queue = queue or self.queue()
        return EvalReport(
            experiment=experiment, evaluations=self.ended(), queue=queue.entries, every=queue.every
        )

    def save_queue(self, queue: EvalQueue) -> None:
        """Replace the stored queue.

        Raises:
            RltuiError: if it cannot be written.
        """
        self._make()
        write_atomically(self._queue_file, queue.to_json())

    def cancel(self, id_: str) -> None:
        """Remove one from the queue of an experiment that has no supervisor.

        Raises:
            UsageError: if there is none with that id.
        """
        queue = self.queue()
        canceled = queue.entry(id_)
        waiting = tuple(entry for entry in queue.entries if entry is not canceled)
        self.save_queue(queue.replace(waiting=waiting, running=None, begun=None))

    def save(self, evaluation: Evaluation) -> None:
        """Store a finished evaluation permanently.

        Raises:
            RltuiError: if it cannot be written.
        """
        self._make()
        make_folder(self.path / evaluation.id)
        write_atomically(self.path / evaluation.id / _RECORD, evaluation.to_json())

    def new(self, queue: EvalQueue) -> str:
        """An id that no other evaluation has or had."""
        queued_ids = (int(entry.id) for entry in queue.entries)
        return str(max([0, *queued_ids, *(number for number, _ in self._folders())]) + 1)

    def results(self, id_: str) -> Path:
        """Create an empty folder for the samples of an evaluation.

        Raises:
            RltuiError: if it cannot be created.
        """
        self._make()
        folders = (self.path / id_ / name for name in numbered("results"))
        folder = next(folder for folder in folders if not entry_names(folder))  # a try may have failed
        make_folder(folder)
        return folder

    def _folders(self) -> list[tuple[int, Path]]:
        numbers = ((parse_whole_number(name), self.path / name) for name in entry_names(self.path))
        return sorted((number, folder) for number, folder in numbers if number is not None)

    def _make(self) -> None:
        self._control.make()
        make_folder(self.path)


def _read(path: Path, model: type[_V]) -> _V | None:
    try:
        return model.from_json(read_own(path))
    except FileNotFoundError:
        return None
    except (OSError, InvalidValueError) as error:
        logger.warning("%s is left out: %s", path, error)
        return None


def read_results(results: Path) -> tuple[EvalStatistics, Path]:
    """Statistics of what an evaluator wrote, and the folder below `results` that has the samples. For a
    thread.
    """
    folders = [path.parent for path in _sample_files(results)]
    folders += [path.parents[3] for path in results.glob("**/monitors/file/traces/stream")]
    for folder in dict.fromkeys(folders):
        source = open_rollouts(folder)
        source.poll()
        keys = [batch.key for batch in source.batches() if batch.key.kind == "eval"]
        rows = [row for key in keys if key.part != ALL for row in _rows(source, key)]
        if rows:
            return statistics_of(rows), folder
    return EvalStatistics(), results


def _rows(source: RolloutSource, key: BatchKey) -> Iterator[tuple[str, float, bool, bool, int]]:
    while source.poll(key):
        continue
    digests: dict[str, str] = {}
    for sample in source.table(key):
        name = sample.group or sample.task or str(sample.where)
        if name not in digests:
            # an example is named by its prompt, since numbers depend on how many were asked
            prompt = prompt_text(source.open(key, sample)) or sample.task or sample.group
            digests[name] = hashlib.blake2b(
                f"{sample.env}\0{prompt}".encode("utf-8", "replace"), digest_size=8
            ).hexdigest()
        yield digests[name], sample.reward, sample.truncated, sample.failed, sample.input_tokens


def _sample_files(results: Path) -> list[Path]:
    files = []
    for root, folders, names in os.walk(results):
        if len(Path(root).relative_to(results).parts) >= _DEEPEST:
            folders.clear()
        files += [Path(root, name) for name in names if name in _RESULTS]
    return sorted(files)


def finished_rollouts(results: Path, log: Path | None, request: EvalRequest) -> int:
    """Number of finished rollouts: by the lines of the results, else by the printed progress (`24/60`)."""
    line_count = 0
    for path in _sample_files(results):
        try:
            with path.open("rb") as file:
                line_count += sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        except OSError:
            continue
    return line_count or (_printed_progress(log, request) if log is not None else 0)


def _printed_progress(log: Path, request: EvalRequest) -> int:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return 0
    for finished, total in reversed(_PROGRESS.findall(text)):
        if int(total) == request.rollouts:
            return int(finished)
        if int(total) == request.num_examples:  # by groups
            return int(finished) * request.rollouts_per_example
    return 0
