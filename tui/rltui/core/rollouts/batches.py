"""Rollouts for browsing: batches of samples, statistics of their rewards, and single transcripts.

A sample is one rollout: a prompt, the model's completion, its reward. A batch is all samples of a step, or
of an evaluation. A transcript is a sample opened. Samples are stored in columns: 100,000 of them take 8 MB.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from re import Pattern
from typing import Any, Literal, NamedTuple, Protocol, get_args

BatchKind = Literal["train", "eval", "live"]
NO_STEP = -1
ALL = "all"
"""Part of a step: every sample that was collected for it, including those that no batch took."""
ABANDONED = "abandoned"
"""Part of a step: samples of an attempt that a later one went back behind."""


class BatchKey(NamedTuple):
    kind: BatchKind
    step: int = NO_STEP
    part: str = ""
    """`ALL`, `ABANDONED`, the folder of an evaluation; empty: the samples that the step was trained or
    evaluated on.
    """

    @property
    def label(self) -> str:
        """`12`, `eval 12`, `12 all`, `reverse-text--qwen/1a2b`, `live`."""
        fields = ["" if self.kind == "train" else self.kind, "" if self.step == NO_STEP else str(self.step)]
        if self.kind == "eval" and self.part and self.step == NO_STEP:
            fields = []
        return " ".join(field for field in [*fields, self.part] if field)


class Batch(NamedTuple):
    key: BatchKey
    samples: int | None
    """Number of samples; `None` until its file was read."""
    size_bytes: int = 0
    """Bytes to read before its samples can be listed; 0 if they are known."""


class Sample(NamedTuple):
    """A rollout as it is listed. NaN and -1 stand for missing values."""

    where: int
    """Location for its reader."""
    group: str = ""
    """Samples of one group answer one prompt, and are compared with one another."""
    task: str = ""
    """Identity of the prompt at other steps; empty if only the opened sample has it."""
    env: str = ""
    reward: float = math.nan
    advantage: float = math.nan
    input_tokens: int = -1
    output_tokens: int = -1
    turns: int = -1
    stop: str = ""
    """Reason of its end; for a live one its stage."""
    truncated: bool = False
    failed: bool = False
    agents: str = ""
    """The rewards of its agents, if they are several: `proposer 0.50, solver 0.25`."""
    at: float = math.nan
    """Time of its arrival, epoch seconds."""


_NUMBERS = {"where": "q", "reward": "d", "advantage": "d", "input_tokens": "q", "output_tokens": "q",
            "turns": "i", "truncated": "b", "failed": "b", "at": "d"}  # fmt: skip
_TEXTS = ("group", "task", "env", "stop", "agents")
_FLAGS = ("truncated", "failed")
_LARGEST = (1 << 31) - 1


class SampleTable:
    """The samples of a batch in the order of their arrival."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.columns: dict[str, array[Any]] = {name: array(code) for name, code in _NUMBERS.items()}
        self.columns |= {name: array("i") for name in _TEXTS}
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._appends = tuple(self.columns[name].append for name in Sample._fields)
        for sample in samples:
            self.append(sample)

    def append(self, sample: Sample) -> None:
        numbers = self._numbers
        for text in (sample.group, sample.task, sample.env, sample.stop, sample.agents):
            if text not in numbers:
                self._texts.append(text)  # before its number is known: another thread may read
                numbers[text] = len(self._texts) - 1
        append = self._appends
        append[0](sample.where)
        append[1](numbers[sample.group])
        append[2](numbers[sample.task])
        append[3](numbers[sample.env])
        append[4](sample.reward)
        append[5](sample.advantage)
        append[6](sample.input_tokens)
        append[7](sample.output_tokens)
        append[8](sample.turns)
        append[9](numbers[sample.stop])
        append[10](sample.truncated)
        append[11](sample.failed)
        append[12](numbers[sample.agents])
        append[13](sample.at)

    @property
    def texts(self) -> Sequence[str]:
        """The texts that the text columns index; the list grows with the table."""
        return self._texts

    def extend(self, columns: Mapping[str, array[Any]], texts: Iterable[str]) -> None:
        """Append samples, as columns of one length, and new texts.

        Raises:
            ValueError: for columns of different lengths, or an index without a text. Then nothing is changed.
        """
        new = [*texts]
        count = len(self._texts) + len(new)
        lengths = {len(columns[name]) for name in self.columns}
        indices = [index for name in _TEXTS for index in columns[name]]
        if len(lengths) != 1 or not all(0 <= index < count for index in indices):
            raise ValueError("the samples are from different rollouts")
        self._numbers.update(zip(new, range(len(self._texts), count), strict=True))
        self._texts += new
        for name in Sample._fields:  # the last one counts them: another thread may read
            self.columns[name].extend(columns[name])

    def text(self, name: str, index: int) -> str:
        """Value of the text column `name` for the sample at `index`."""
        return self._texts[int(self.columns[name][index])]

    def __len__(self) -> int:
        """Number of complete ones: another thread may be about to append one."""
        return len(self.columns["at"])

    def __getitem__(self, index: int) -> Sample:
        return Sample._make(self._value(name, self.columns[name][index]) for name in Sample._fields)

    def _value(self, name: str, value: float) -> object:
        if name in _TEXTS:
            return self._texts[int(value)]
        return bool(value) if name in _FLAGS else value

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def groups(self) -> list[SampleGroup]:
        """Sorted by first sample. Samples without a group are left out."""
        members: dict[int, list[int]] = {}
        numbers = self.columns["group"]
        for index in range(len(self)):
            members.setdefault(numbers[index], []).append(index)
        rewards = self.columns["reward"]
        return [
            SampleGroup(self._texts[number], tuple(indices), [rewards[index] for index in indices])
            for number, indices in members.items()
            if self._texts[number]
        ]


def bounded(count: float) -> int:
    """A count within the range of the columns; -1 for NaN and infinities."""
    return int(max(-1, min(count, _LARGEST))) if math.isfinite(count) else -1


class SampleGroup:
    """The samples of one prompt."""

    __slots__ = ("indices", "mean", "name", "spread")

    def __init__(self, name: str, indices: tuple[int, ...], rewards: Sequence[float]) -> None:
        """`indices`: of its samples in the table. `rewards`: of these samples."""
        self.name, self.indices = name, indices
        self.mean, self.spread = mean_and_std(rewards)

    @property
    def is_flat(self) -> bool:
        """All rewards are equal: nothing is learnt from it."""
        return len(self.indices) > 1 and self.spread == 0.0


def mean_and_std(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation of the finite values; NaN if there is none.

    The deviation of equal values is exactly 0.
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan, math.nan
    mean = math.fsum(finite) / len(finite)
    if min(finite) == max(finite):
        return mean, 0.0
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / len(finite))


@dataclass(frozen=True, slots=True)
class BatchSummary:
    count: int
    mean: float
    spread: float
    low: float
    high: float
    groups: int
    flat_groups: int
    truncated: int
    failed: int

    @classmethod
    def of(cls, table: SampleTable) -> BatchSummary:
        rewards = [value for value in table.columns["reward"] if math.isfinite(value)]
        mean, spread = mean_and_std(rewards)
        groups = table.groups()
        return cls(
            count=len(table),
            mean=mean,
            spread=spread,
            low=min(rewards, default=math.nan),
            high=max(rewards, default=math.nan),
            groups=len(groups),
            flat_groups=sum(group.is_flat for group in groups),
            truncated=sum(table.columns["truncated"]),
            failed=sum(table.columns["failed"]),
        )


def histogram(rewards: Iterable[float], bins: int, low: float, high: float) -> list[int]:
    """Number of rewards in each of `bins` equal parts of `low` … `high`; outliers count at the ends."""
    counts = [0] * bins
    width = (high - low) / bins
    for reward in rewards:
        if math.isfinite(reward):
            bin_index = 0 if width <= 0 else int((reward - low) / width)
            counts[max(0, min(bins - 1, bin_index))] += 1
    return counts


Order = Literal["arrival", "worst", "best", "advantage", "longest", "group"]
ORDERS: tuple[Order, ...] = get_args(Order)
Only = Literal["", "truncated", "failed", "flat"]
ONLY: tuple[Only, ...] = get_args(Only)
"""Filters of a list; `flat`: samples of groups whose rewards are equal."""


def sort_samples(table: SampleTable, order: Order, indices: Iterable[int] | None = None) -> list[int]:
    """Indices of the table in that order; unknown values come last, equal ones in order of arrival."""
    indices = list(range(len(table))) if indices is None else list(indices)
    match order:
        case "worst":
            return sorted(indices, key=_last_if_unknown(table.columns["reward"], 1))
        case "best":
            return sorted(indices, key=_last_if_unknown(table.columns["reward"], -1))
        case "advantage":
            return sorted(indices, key=_last_if_unknown(table.columns["advantage"], -1))
        case "longest":
            return sorted(indices, key=_last_if_unknown(table.columns["output_tokens"], -1))
        case "group":
            return sorted(indices, key=table.columns["group"].__getitem__)
        case "arrival":
            return indices


def _last_if_unknown(column: array[Any], sign: int) -> Callable[[int], float]:
    def key(index: int) -> float:
        value: float = column[index] * sign
        return value if math.isfinite(value) else math.inf

    return key


def filter_samples(table: SampleTable, only: Only) -> list[int]:
    """Return the indices of the samples, ascending."""
    match only:
        case "":
            return list(range(len(table)))
        case "flat":
            return [index for group in table.groups() if group.is_flat for index in group.indices]
        case _:
            column = table.columns[only]
            return [index for index in range(len(table)) if column[index]]


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. All text is as the model or a tool wrote it: untrusted."""

    role: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    sampled: bool = False
    """The model made it, in this rollout."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One path through a rollout: of an agent, or of a branch of it."""

    title: str
    """Name of the agent or branch, if there are several."""
    messages: tuple[Message, ...]

    @property
    def prompt(self) -> tuple[Message, ...]:
        """Messages before the model's first one."""
        first = next(
            (index for index, message in enumerate(self.messages) if message.sampled), len(self.messages)
        )
        return self.messages[:first]

    @property
    def completion(self) -> tuple[Message, ...]:
        """The model's first message and all after it."""
        return self.messages[len(self.prompt) :]


@dataclass(frozen=True, slots=True)
class Transcript:
    sample: Sample
    conversations: tuple[Conversation, ...]
    facts: tuple[tuple[str, str], ...] = ()
    """Further details, name and value: components of the reward, the expected answer, staleness."""
    errors: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All text of it, for searching."""
        return "\n".join(
            text
            for conversation in self.conversations
            for message in conversation.messages
            for text in (
                message.reasoning,
                message.text,
                *(f"{call.name} {call.arguments}" for call in message.calls),
            )
            if text
        )


def prompt_text(transcript: Transcript) -> str:
    messages = [message for conversation in transcript.conversations[:1] for message in conversation.prompt]
    return "\n".join(message.text for message in messages if message.text)


class RolloutSource(Protocol):
    """The rollouts of a run, or of a folder. Every call may block: not for the event loop."""

    problem: str
    """Unreadable data in words; empty while all is well."""

    def poll(self, shown: BatchKey | None = None, budget_s: float = 0.05) -> bool:
        """Check for changes, and read on in the batch `shown`, for about `budget_s`.

        True: there is more to read. Call it again, and the newest comes first.
        """

    def batches(self) -> list[Batch]:
        """Live ones first, then the newest step; evaluations without a step last."""

    def table(self, key: BatchKey) -> SampleTable:
        """The samples that were read of a batch: it grows by `poll`. Empty if there is no such batch."""

    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        """The sample in full.

        Raises:
            RltuiError: if it cannot be read, or is gone.
        """

    def search(self, key: BatchKey, samples: Iterable[Sample], pattern: Pattern[str]) -> Iterator[bool]:
        """Yields for each of the samples whether its text matches."""

    def same_prompt(self, key: BatchKey, transcript: Transcript) -> Iterator[tuple[BatchKey, Sample | None]]:
        """The prompt in other batches, the nearest step first: a sample of it, or `None` if it is not there.

        A batch that takes long comes several times, with `None`.
        """

    def export(self, transcripts: Sequence[Transcript], path: Path) -> None:
        """Write transcripts into a new file: as Markdown if its name ends in `.md`, else as JSONL.

        Raises:
            RltuiError: if it exists, or cannot be written.
        """

    def keep(self, transcripts: Sequence[Transcript], ending: str) -> Path:
        """Like `export`, into a new file in the working folder, whose path is returned.

        Raises:
            RltuiError: if it cannot be written.
        """


def same_prompt_in(
    source: RolloutSource, key: BatchKey, transcript: Transcript
) -> Iterator[tuple[BatchKey, Sample | None]]:
    """The prompt of a sample in the batches of another run, the nearest step first: a sample of it, or `None`
    if it is not there. A batch that takes long comes several times, with `None`. Blocks between two items.

    The prompts themselves are compared: two runs may number different prompts alike.
    """
    prompt = prompt_text(transcript)
    while source.poll():
        yield key, None
    batches = [batch.key for batch in source.batches() if batch.key.kind == key.kind]
    batches = [other for other in batches if other.part == key.part or other.step == NO_STEP]
    for other in sorted(batches, key=lambda other: abs(other.step - key.step)) if prompt else ():
        while source.poll(other):
            yield other, None
        seen_groups: set[str] = set()
        match = None
        for sample in source.table(other):
            name = sample.group or sample.task
            if name and name in seen_groups:
                continue
            seen_groups.add(name)
            if prompt_text(source.open(other, sample)) == prompt:
                match = sample
                break
        yield other, match
