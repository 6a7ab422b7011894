"""The rollouts of a run or a folder behind one interface, whichever generation wrote them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path
from re import Pattern

from rltui.base import markdown
from rltui.base.times import stamp_text
from rltui.core.logs.query import Query
from rltui.core.rollouts.batches import (
    NO_STEP,
    Batch,
    BatchKey,
    Message,
    RolloutSource,
    Sample,
    SampleTable,
    Transcript,
)
from rltui.errors import ConflictError, RltuiError
from rltui.services.redaction import without_secrets
from rltui.services.rollouts.files import BatchFiles, Evaluations, StepFiles
from rltui.services.rollouts.stream import TraceStream


def open_rollouts(folder: Path) -> RolloutSource:
    """The rollouts in the folder of a run, of an evaluation, or in a single file. Reads nothing yet."""
    return _Rollouts(folder)


class _Rollouts:
    """Reads more on request. One thread at a time: the others wait, which is never long."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._stream = TraceStream(folder)
        self._files = (StepFiles(folder), Evaluations(folder))
        self._readers: tuple[BatchFiles | TraceStream, ...] = (*self._files, self._stream)
        self.problem = ""

    def poll(self, displayed: BatchKey | None = None, budget_s: float = 0.05) -> bool:
        """Check for changes, and read on in the batch `displayed`, for about this long."""
        until = time.monotonic() + budget_s
        while True:
            with self._lock:
                is_behind = max(reader.poll(displayed) for reader in self._readers)
                self.problem = self._stream.problem
            if not is_behind or time.monotonic() >= until:
                return is_behind

    def batches(self) -> list[Batch]:
        """Live batches first, then the newest step; evaluations without a step last."""
        with self._lock:
            batches = [batch for reader in self._readers for batch in reader.batches()]
        return sorted(batches, key=_rank)

    def table(self, key: BatchKey) -> SampleTable:
        with self._lock:
            tables = (reader.table(key) for reader in self._readers)
            return next((table for table in tables if table is not None), SampleTable())

    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        with self._lock:
            for reader in self._readers:
                if reader.table(key) is not None:
                    return reader.open(key, sample)
        raise RltuiError(f"the rollouts of {key.label} are gone", hint="a restart moved them aside")

    def search(self, key: BatchKey, samples: Iterable[Sample], pattern: Pattern[str]) -> Iterator[bool]:
        """Yield for each of the samples whether its text matches. Only records that contain the pattern's
        literals are parsed.
        """
        candidates = Query(pattern, pattern.pattern).candidates
        samples, same = tee(samples)
        for sample, line in zip(samples, self._lines(key, same), strict=True):
            may_match = line is None or candidates.may_be_in(line)
            yield may_match and pattern.search(self._as_written(key, sample).text) is not None

    def _lines(self, key: BatchKey, samples: Iterable[Sample]) -> Iterator[bytes | None]:
        """Read the line of each sample; `None` for one in progress, which has several."""
        with self._lock:
            file_reader = next((reader for reader in self._files if reader.table(key) is not None), None)
        if file_reader is not None:
            yield from file_reader.lines(key, samples)
            return
        for sample in samples:
            with self._lock:
                line = None if key.kind == "live" else self._stream.line(sample)
            yield line

    def _as_written(self, key: BatchKey, sample: Sample) -> Transcript:
        """The transcript without annotations, which need a search through all of them."""
        with self._lock:
            if key.kind != "live" and self._stream.table(key) is not None:
                return self._stream.as_written(sample)
        return self.open(key, sample)

    def same_prompt(self, key: BatchKey, transcript: Transcript) -> Iterator[tuple[BatchKey, Sample | None]]:
        """The prompt in other batches, the nearest step first."""
        task = transcript.sample.task or self._task(key, transcript.sample)
        keys = [batch.key for batch in self.batches() if batch.key != key and batch.key.kind == key.kind]
        keys = [other_key for other_key in keys if other_key.part == key.part or other_key.step == NO_STEP]
        for other_key in sorted(keys, key=lambda other_key: abs(other_key.step - key.step)) if task else ():
            while self._read_more(other_key):
                yield other_key, None
            groups = set()
            match = None
            for sample in self.table(other_key):
                if not sample.task and sample.group in groups:
                    continue
                groups.add(sample.group)
                if (sample.task or self._task(other_key, sample)) == task:
                    match = sample
                    break
            yield other_key, match

    def _read_more(self, key: BatchKey) -> bool:
        """Read more of that batch's file, if it has one. False: all is read."""
        with self._lock:
            return any(reader.poll(key) for reader in self._files if reader.table(key) is not None)

    def _task(self, key: BatchKey, sample: Sample) -> str:
        with self._lock:
            return self._stream.task(key, sample) if self._stream.table(key) is not None else ""

    def export(self, transcripts: Sequence[Transcript], path: Path) -> None:
        export_transcripts(transcripts, path)

    def keep(self, transcripts: Sequence[Transcript], ending: str) -> Path:
        return save_transcripts(transcripts, ending)


def export_transcripts(transcripts: Sequence[Transcript], path: Path) -> None:
    """Write them to a new file: as Markdown if its name ends in `.md`, else as JSONL. Without secrets.

    Raises:
        ConflictError: if it exists.
        RltuiError: if it cannot be written.
    """
    write = _as_markdown if path.suffix == ".md" else _as_line
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.writelines(without_secrets(write(transcript)) for transcript in transcripts)
    except FileExistsError:
        raise ConflictError(f"{path} exists", hint="choose another name or remove it") from None
    except OSError as error:
        raise RltuiError(f"cannot write {path}: {error.strerror}") from error


def save_transcripts(transcripts: Sequence[Transcript], ending: str) -> Path:
    """Export to a new file in the working folder and return its path."""
    path = Path.cwd() / f"rollouts-{stamp_text(time.time())}.{ending}"
    export_transcripts(transcripts, path)
    return path


_RANKS = {"live": 0, "train": 1, "eval": 2}


def _rank(batch: Batch) -> tuple[int, int, int, str]:
    key = batch.key
    if key.kind == "live":
        return 0, 0, 0, ""
    return (2 if key.step == NO_STEP else 1), -key.step, _RANKS[key.kind], key.part


def _as_line(transcript: Transcript) -> str:
    return json.dumps(transcript.raw, ensure_ascii=False, default=str) + "\n"


def _as_markdown(transcript: Transcript) -> str:
    sample = transcript.sample
    summary = f"reward {sample.reward:g} · advantage {sample.advantage:g} · {sample.output_tokens} tokens"
    blocks = [f"## {' '.join(text for text in (sample.env, sample.group) if text) or 'sample'}", summary]
    if sample.stop or sample.truncated:
        blocks.append(f"ended: {sample.stop or 'unknown'}{', truncated' if sample.truncated else ''}")
    if transcript.facts:
        blocks.append("\n".join(f"- {name}: {value}" for name, value in transcript.facts))
    blocks += [_fenced("error", error) for error in transcript.errors]
    for conversation in transcript.conversations:
        if conversation.title:
            blocks.append(f"### {conversation.title}")
        blocks += [text for message in conversation.messages for text in _message_parts(message)]
    return "\n\n".join(blocks) + "\n\n"


def _message_parts(message: Message) -> Iterator[str]:
    if message.reasoning:
        yield _fenced(f"{message.role}, reasoning", message.reasoning)
    if message.text:
        yield _fenced(message.role, message.text)
    for call in message.calls:
        yield _fenced(f"{message.role} calls {call.name}", call.arguments)


def _fenced(title: str, text: str) -> str:
    return f"**{title}**\n\n{markdown.fenced(text)}"
