"""Rollouts as people browse them: batches of samples, how their rewards are spread, and one of them in full.

A sample is one rollout: a prompt, what the model made of it, its reward. A batch is all samples of a step, or
of an evaluation. A transcript is a sample opened. Samples are kept in columns: 100,000 of them take 8 MB.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from re import Pattern
from typing import Any, Literal, NamedTuple, Protocol

Kind = Literal["train", "eval", "live"]
NO_STEP = -1
ALL = "all"
"""Part of a step: every sample that was collected for it, those included that no batch took."""
ABANDONED = "abandoned"
"""Part of a step: what an attempt trained on that a later one went back behind."""


class BatchKey(NamedTuple):
    kind: Kind
    step: int = NO_STEP
    part: str = ""
    """`ALL`, `ABANDONED`, the folder of an evaluation; empty: what the step was trained or evaluated on."""

    @property
    def label(self) -> str:
        """`12`, `eval 12`, `12 all`, `reverse-text--qwen/1a2b`, `live`."""
        words = ["" if self.kind == "train" else self.kind, "" if self.step == NO_STEP else str(self.step)]
        if self.kind == "eval" and self.part and self.step == NO_STEP:
            words = []
        return " ".join(word for word in [*words, self.part] if word)


class Batch(NamedTuple):
    key: BatchKey
    samples: int | None
    """How many; `None` until its file was read."""
    size_bytes: int = 0
    """To be read before its samples can be listed; 0 where they are known."""


class Sample(NamedTuple):
    """A rollout as it is listed. NaN and -1 where it is not told."""

    where: int
    """Where its reader finds it."""
    group: str = ""
    """Samples of one group answer one prompt, and are compared with one another."""
    task: str = ""
    """What tells the prompt again at another step; empty where only the opened sample says it."""
    env: str = ""
    reward: float = math.nan
    advantage: float = math.nan
    input_tokens: int = -1
    output_tokens: int = -1
    turns: int = -1
    stop: str = ""
    """Why it ended; of a live one its stage."""
    truncated: bool = False
    failed: bool = False
    at: float = math.nan
    """When it arrived, epoch seconds."""


_NUMBERS = {"where": "q", "reward": "d", "advantage": "d", "input_tokens": "q", "output_tokens": "q",
            "turns": "i", "truncated": "b", "failed": "b", "at": "d"}  # fmt: skip
_TEXTS = ("group", "task", "env", "stop")
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
        for text in (sample.group, sample.task, sample.env, sample.stop):
            if text not in numbers:
                self._texts.append(text)  # before its number is known: another thread may read
                numbers[text] = len(self._texts) - 1
        put = self._appends
        put[0](sample.where)
        put[1](numbers[sample.group])
        put[2](numbers[sample.task])
        put[3](numbers[sample.env])
        put[4](sample.reward)
        put[5](sample.advantage)
        put[6](sample.input_tokens)
        put[7](sample.output_tokens)
        put[8](sample.turns)
        put[9](numbers[sample.stop])
        put[10](sample.truncated)
        put[11](sample.failed)
        put[12](sample.at)

    @property
    def texts(self) -> Sequence[str]:
        """What the columns of texts have the places of; it gets longer as the table does."""
        return self._texts

    def extend(self, columns: Mapping[str, array[Any]], texts: Iterable[str]) -> None:
        """More samples, as columns of one length, and texts behind those that there are.

        Raises:
            ValueError: for columns of other lengths, or a text that is not there. Then nothing is changed.
        """
        new = [*texts]
        count = len(self._texts) + len(new)
        lengths = {len(columns[name]) for name in self.columns}
        places = [place for name in _TEXTS for place in columns[name]]
        if len(lengths) != 1 or not all(0 <= place < count for place in places):
            raise ValueError("samples that do not belong together")
        self._numbers.update(zip(new, range(len(self._texts), count), strict=True))
        self._texts += new
        for name in Sample._fields:  # the last one counts them: another thread may read
            self.columns[name].extend(columns[name])

    def text(self, name: str, at: int) -> str:
        """Column `name`, one of the texts, of the sample at `at`."""
        return self._texts[int(self.columns[name][at])]

    def __len__(self) -> int:
        """Those that are whole: another thread may be about to append one."""
        return len(self.columns["at"])

    def __getitem__(self, at: int) -> Sample:
        return Sample._make(self._value(name, self.columns[name][at]) for name in Sample._fields)

    def _value(self, name: str, held: float) -> object:
        if name in _TEXTS:
            return self._texts[int(held)]
        return bool(held) if name in _FLAGS else held

    def __iter__(self) -> Iterator[Sample]:
        return (self[at] for at in range(len(self)))

    def groups(self) -> list[SampleGroup]:
        """In the order in which they begin. Samples without a group are none."""
        members: dict[int, list[int]] = {}
        numbers = self.columns["group"]
        for at in range(len(self)):
            members.setdefault(numbers[at], []).append(at)
        rewards = self.columns["reward"]
        return [
            SampleGroup(self._texts[number], tuple(places), [rewards[at] for at in places])
            for number, places in members.items()
            if self._texts[number]
        ]


def bounded(count: float) -> int:
    """A count as the columns hold it."""
    return int(max(-1, min(count, _LARGEST))) if math.isfinite(count) else -1


class SampleGroup:
    """The samples of one prompt."""

    __slots__ = ("mean", "name", "places", "spread")

    def __init__(self, name: str, places: tuple[int, ...], rewards: Sequence[float]) -> None:
        """`places`: of its samples in the table. `rewards`: theirs."""
        self.name, self.places = name, places
        self.mean, self.spread = mean_and_spread(rewards)

    @property
    def is_flat(self) -> bool:
        """All rewards are alike: it teaches nothing."""
        return len(self.places) > 1 and self.spread == 0.0


def mean_and_spread(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation of those that are finite; NaN where there is none.

    The spread of equal values is just 0.
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
        mean, spread = mean_and_spread(rewards)
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
    """How many lie in each of `bins` equal parts of `low` … `high`; those outside count at the ends."""
    counts = [0] * bins
    width = (high - low) / bins
    for reward in rewards:
        if math.isfinite(reward):
            at = 0 if width <= 0 else int((reward - low) / width)
            counts[max(0, min(bins - 1, at))] += 1
    return counts


Order = Literal["arrival", "worst", "best", "advantage", "longest", "group"]
ORDERS: tuple[Order, ...] = ("arrival", "worst", "best", "advantage", "longest", "group")
Only = Literal["", "truncated", "failed", "flat"]
ONLY: tuple[Only, ...] = ("", "truncated", "failed", "flat")
"""What a list can be narrowed to; `flat`: samples of groups without spread."""


def ordered(table: SampleTable, order: Order, places: Iterable[int] | None = None) -> list[int]:
    """Places in the table in that order; unknown figures come last, equal ones as they arrived."""
    found = list(range(len(table))) if places is None else list(places)
    match order:
        case "worst":
            return sorted(found, key=_last_if_unknown(table.columns["reward"], 1))
        case "best":
            return sorted(found, key=_last_if_unknown(table.columns["reward"], -1))
        case "advantage":
            return sorted(found, key=_last_if_unknown(table.columns["advantage"], -1))
        case "longest":
            return sorted(found, key=_last_if_unknown(table.columns["output_tokens"], -1))
        case "group":
            return sorted(found, key=table.columns["group"].__getitem__)
        case "arrival":
            return found


def _last_if_unknown(column: array[Any], sign: int) -> Callable[[int], float]:
    def key(at: int) -> float:
        value: float = column[at] * sign
        return value if math.isfinite(value) else math.inf

    return key


def drawn(places: Sequence[int], count: int, seed: int | None = None) -> list[int]:
    return random.Random(seed).sample(places, min(count, len(places)))


def narrowed(table: SampleTable, only: Only) -> list[int]:
    """Places of the samples that `only` lets through."""
    match only:
        case "":
            return list(range(len(table)))
        case "flat":
            return [at for group in table.groups() if group.is_flat for at in group.places]
        case _:
            column = table.columns[only]
            return [at for at in range(len(table)) if column[at]]


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One of a conversation. All text is as the model or a tool wrote it: untrusted."""

    role: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    sampled: bool = False
    """The model made it, in this rollout."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One way through a rollout: of an agent, or of a branch of it."""

    title: str
    """Which one, where there are several."""
    messages: tuple[Message, ...]

    @property
    def prompt(self) -> tuple[Message, ...]:
        """What came before the model's first message."""
        first = next((at for at, each in enumerate(self.messages) if each.sampled), len(self.messages))
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
    """What else is known of it, name and value: parts of the reward, the expected answer, staleness."""
    errors: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All that was said, for searching."""
        return "\n".join(
            part
            for conversation in self.conversations
            for message in conversation.messages
            for part in (
                message.reasoning,
                message.text,
                *(f"{call.name} {call.arguments}" for call in message.calls),
            )
            if part
        )


def prompt_text(transcript: Transcript) -> str:
    messages = [message for each in transcript.conversations[:1] for message in each.prompt]
    return "\n".join(message.text for message in messages if message.text)


class RolloutSource(Protocol):
    """The rollouts of a run, or of a folder. Every call may block: not for the event loop."""

    problem: str
    """What cannot be read, in words; empty while all is well."""

    def look(self, shown: BatchKey | None = None, budget_s: float = 0.05) -> bool:
        """Look for news, and read on in the batch `shown`, for about so long.

        True: there is more to read. Call it again, and the newest comes first.
        """

    def batches(self) -> list[Batch]:
        """Live ones first, then the newest step; evaluations without a step last."""

    def table(self, key: BatchKey) -> SampleTable:
        """The samples that were read of a batch: it gets longer by `look`. Empty where there is no such."""

    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        """The sample in full.

        Raises:
            RltuiError: if it cannot be read, or is gone.
        """

    def search(self, key: BatchKey, samples: Iterable[Sample], pattern: Pattern[str]) -> Iterator[bool]:
        """For each of the samples, whether its text matches."""

    def same_prompt(self, key: BatchKey, transcript: Transcript) -> Iterator[tuple[BatchKey, Sample | None]]:
        """The prompt in other batches, the nearest step first: a sample of it, or `None` where it is not.

        A batch that takes long comes several times, with `None`.
        """

    def export(self, transcripts: Sequence[Transcript], path: Path) -> None:
        """Write them into a new file: as Markdown where its name ends in `.md`, else as JSONL.

        Raises:
            RltuiError: if it exists, or cannot be written.
        """

    def keep(self, transcripts: Sequence[Transcript], ending: str) -> Path:
        """As `export`, into a file of its own in the working folder: its path.

        Raises:
            RltuiError: if it cannot be written.
        """


def same_prompt_in(
    source: RolloutSource, key: BatchKey, transcript: Transcript
) -> Iterator[tuple[BatchKey, Sample | None]]:
    """The prompt of a sample in the batches of another run, the nearest step first: a sample of it, or `None`
    where it is not. A batch that takes long comes several times, with `None`. Blocks, between two of them.

    The prompts themselves are compared: what two runs number alike need not be the same.
    """
    wanted = prompt_text(transcript)
    while source.look():
        yield key, None
    batches = [batch.key for batch in source.batches() if batch.key.kind == key.kind]
    batches = [other for other in batches if other.part == key.part or other.step == NO_STEP]
    for other in sorted(batches, key=lambda other: abs(other.step - key.step)) if wanted else ():
        while source.look(other):
            yield other, None
        asked: set[str] = set()
        found = None
        for sample in source.table(other):
            name = sample.group or sample.task
            if name and name in asked:
                continue
            asked.add(name)
            if prompt_text(source.open(other, sample)) == wanted:
                found = sample
                break
        yield other, found
