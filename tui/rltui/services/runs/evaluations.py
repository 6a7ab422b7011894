"""Evaluations on disk: `<control folder>/evals/`, a folder for each. No resume touches them."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from rltui.core.evals import EvalReport, EvalRequest, Evaluation, Figures, QueuedEval, figures
from rltui.core.rollouts import ALL, BatchKey, RolloutSource, prompt_text
from rltui.core.text import unknown, whole_number
from rltui.core.values import Value
from rltui.services.own_files import make_folder, read_own, write_atomically
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.rollouts import open_rollouts

logger = logging.getLogger(__name__)

_RECORD = "evaluation.json"
_RESULTS = ("results.jsonl", "traces.jsonl")
"""Files with a line for each rollout that has ended."""
_DEEPEST = 6
"""Folders between an evaluation and its samples: `reverse_text/outputs/evals/ENV--MODEL/1a2b3c4d`."""
_TAIL_BYTES = 8192
_COUNTED = re.compile(r"(?<![\d/.])(\d{1,7})/(\d{1,7})(?![\d/.])")


class EvalQueue(Value):
    """What is to be evaluated, and what is being: kept for the next supervisor."""

    waiting: tuple[QueuedEval, ...] = ()
    running: QueuedEval | None = None
    begun: Evaluation | None = None
    """Of the running one, once its evaluator was started: what is known before it ends."""
    every: int = 0
    """The standing order: every so many checkpoints."""
    order: EvalRequest = EvalRequest()
    seen: int = 0
    """Checkpoints since it was given."""


class EvalFolder:
    """Of one experiment. Every call may block, for some milliseconds."""

    def __init__(self, control: ControlFolder) -> None:
        self._control = control
        self.path = control.path / "evals"
        self._queue_file = self.path / "queue.json"
        self._known: dict[Path, Evaluation] = {}

    def ended(self) -> tuple[Evaluation, ...]:
        """Those that have ended, oldest first. One whose record is damaged is left out."""
        found = {}
        for number, folder in self._folders():
            if folder not in self._known and (record := _read(folder / _RECORD)) is not None:
                self._known[folder] = record
            if folder in self._known:
                found[number] = self._known[folder]
        return tuple(found.values())

    def queue(self) -> EvalQueue:
        """As it was last kept; an empty one where it cannot be read."""
        try:
            return EvalQueue.model_validate_json(read_own(self._queue_file))
        except FileNotFoundError:
            return EvalQueue()
        except (OSError, ValidationError) as error:
            logger.warning("%s is left out: %s", self._queue_file, error)
            return EvalQueue()

    def report(self, experiment: str, queue: EvalQueue | None = None) -> EvalReport:
        """All of them. `queue`: as it is now, where somebody knows better than the file."""
        queue = queue or self.queue()
        running = () if queue.running is None else (queue.running,)
        return EvalReport(
            experiment=experiment,
            evaluations=self.ended(),
            queue=(*running, *queue.waiting),
            every=queue.every,
        )

    def keep_queue(self, queue: EvalQueue) -> None:
        """In place of the one before.

        Raises:
            RltuiError: if it cannot be written.
        """
        self._make()
        write_atomically(self._queue_file, queue.model_dump_json().encode())

    def cancel(self, id_: str) -> None:
        """Take one from the queue of an experiment that has no supervisor.

        Raises:
            UsageError: if there is none of that id.
        """
        queue = self.queue()
        queued = [each for each in (queue.running, *queue.waiting) if each is not None]
        if id_ not in (ids := [each.id for each in queued]):
            raise unknown("evaluation in the queue", id_, ids)
        waiting = tuple(each for each in queued if each.id != id_)
        self.keep_queue(queue.model_copy(update={"waiting": waiting, "running": None, "begun": None}))

    def keep(self, evaluation: Evaluation) -> None:
        """For good.

        Raises:
            RltuiError: if it cannot be written.
        """
        self._make()
        make_folder(self.path / evaluation.id)
        write_atomically(self.path / evaluation.id / _RECORD, evaluation.model_dump_json().encode())

    def new(self, queue: EvalQueue) -> str:
        """An id that no other evaluation has or had."""
        taken = [int(each.id) for each in (queue.running, *queue.waiting) if each is not None]
        return str(max([0, *taken, *(number for number, _ in self._folders())]) + 1)

    def results(self, id_: str) -> Path:
        """The folder for the samples of an evaluation, empty and there.

        Raises:
            RltuiError: if it cannot be made.
        """
        self._make()
        folder = self.path / id_ / "results"
        number = 1
        while folder.exists() and any(folder.iterdir()):  # of a try that came to nothing
            number += 1
            folder = folder.with_name(f"results-{number}")
        make_folder(folder)
        return folder

    def _folders(self) -> list[tuple[int, Path]]:
        try:
            names = os.listdir(self.path)  # noqa: PTH208 - names only
        except OSError:
            return []
        numbers = ((whole_number(name), self.path / name) for name in names)
        return sorted((number, folder) for number, folder in numbers if number is not None)

    def _make(self) -> None:
        self._control.make()
        make_folder(self.path)


def _read(path: Path) -> Evaluation | None:
    try:
        return Evaluation.model_validate_json(read_own(path))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        logger.warning("%s is left out: %s", path, error)
        return None


def measured(results: Path) -> tuple[Figures, Path]:
    """What an evaluator left there, in figures, and the folder below that has the samples. For a thread."""
    for folder in _sample_folders(results):
        source = open_rollouts(folder)
        source.look()
        found = [batch.key for batch in source.batches() if batch.key.kind == "eval"]
        rows = [row for key in found if key.part != ALL for row in _rows(source, key)]
        if rows:
            return figures(rows), folder
    return Figures(), results


def _rows(source: RolloutSource, key: BatchKey) -> Iterator[tuple[str, float, bool, bool, int]]:
    while source.look(key):
        continue
    digests: dict[str, str] = {}
    for sample in source.table(key):
        name = sample.group or sample.task or str(sample.where)
        if name not in digests:
            # an example is named by its prompt, since numbers depend on how many were asked
            told = prompt_text(source.open(key, sample)) or sample.task or sample.group
            digests[name] = hashlib.blake2b(
                f"{sample.env}\0{told}".encode("utf-8", "replace"), digest_size=8
            ).hexdigest()
        yield digests[name], sample.reward, sample.truncated, sample.failed, sample.input_tokens


def _sample_folders(results: Path) -> Iterator[Path]:
    """Where samples may be: beside their files first."""
    yield from dict.fromkeys(path.parent for path in _sample_files(results))
    yield from dict.fromkeys(path.parents[3] for path in results.glob("**/monitors/file/traces/stream"))


def _sample_files(results: Path) -> list[Path]:
    found = []
    for root, folders, names in os.walk(results):
        if len(Path(root).relative_to(results).parts) >= _DEEPEST:
            folders.clear()
        found += [Path(root, name) for name in names if name in _RESULTS]
    return sorted(found)


def done_so_far(results: Path, log: Path | None, request: EvalRequest) -> int:
    """How many rollouts have ended: by the lines of its results, else by what it prints (`24/60`)."""
    written = 0
    for path in _sample_files(results):
        try:
            with path.open("rb") as file:
                written += sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        except OSError:
            continue
    return written or (_printed(log, request) if log is not None else 0)


def _printed(log: Path, request: EvalRequest) -> int:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return 0
    for done, total in reversed(_COUNTED.findall(text)):
        if int(total) == request.rollouts:
            return int(done)
        if int(total) == request.num_examples:  # by groups
            return int(done) * request.rollouts_per_example
    return 0
