"""`rollouts`: what the model wrote, by step, with its rewards."""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rltui.base.text import group_digits, truncate, untrusted_text
from rltui.base.times import Period
from rltui.cli.arguments import RUN, count, listing, moment_of_step
from rltui.cli.choosing import names_run, show_runs
from rltui.cli.command import Arguments, argument, command, exclusive, flag
from rltui.cli.dashboard import DASHBOARD, show_place
from rltui.cli.output import print_rows
from rltui.cli.progress import working
from rltui.cli.table import print_table, print_view, view_cells, view_shapes
from rltui.core.experiment.dashboard import DashboardPlace, place_of_rollout
from rltui.core.logs.query import pattern_of
from rltui.core.rollouts.batches import (
    ALL,
    NO_STEP,
    Batch,
    BatchKey,
    BatchSummary,
    Message,
    RolloutSource,
    SampleTable,
    Transcript,
    histogram,
    sort_samples,
)
from rltui.errors import UsageError
from rltui.frameworks.rollouts import ELSEWHERE, WRITERS
from rltui.services.experiment.files import ExperimentRecord, same_folder
from rltui.services.experiment.registry import experiment_above
from rltui.services.redaction import without_secrets
from rltui.views.rollout import (
    BATCHES,
    GROUP_WIDTH,
    SAMPLES,
    ListedBatch,
    ListedSample,
    no_rollouts_text,
    sample_summary,
)

_LISTED_BATCHES, _MOST_BATCHES = 20, 200
"""Steps that are listed by default, and as JSON."""
_BINS = 10
_NAMED_GROUPS = 8
_READ_S = 1.0

_BATCHES = BATCHES.named(
    ("step", "samples", "reward", "std", "rewards", "groups", "zero std", "truncated", "failed")
)
_SAMPLES = SAMPLES.named(
    ("#", "reward", "advantage", "in", "out", "turns", "ended", "group", "env", "agents")
)
_LONGEST_TEXT = 4000
"""Characters of a message; of a longer one stand its beginning and its end."""
_WHOLE = "--full, or --export FILE"


@command(
    "rollouts",
    RUN,
    argument("--step", "STEP", "the rollouts of this step (default: list the steps)", type=count),
    argument("--since", "STEP", "start at this step", type=moment_of_step),
    argument("--until", "STEP", "end at this step", type=moment_of_step),
    flag("--eval", "the rollouts of evaluations"),
    flag("--live", "the rollouts in progress"),
    flag("--all", "also rollouts that no batch used"),
    DASHBOARD,
    exclusive(
        argument("--worst", "NUMBER", "print the rollouts with the lowest rewards", type=count),
        argument("--best", "NUMBER", "print the rollouts with the highest rewards", type=count),
        argument("--random", "NUMBER", "print randomly chosen rollouts", type=count),
    ),
    argument("--grep", "PATTERN", "print the rollouts whose text matches"),
    argument("--group", "ID", "only the rollouts of this group"),
    argument(
        "--export",
        "FILE",
        "write the rollouts to a new file: Markdown (.md) or JSONL",
        completes="files",
    ),
    *listing(f"list only the newest steps (default: {_LISTED_BATCHES})"),
    examples=(
        "rollouts demo --worst 2",
        "rollouts demo --step 24 --best 1 --full",
        "rollouts demo --random 2 --json",
    ),
    epilog="RUN may also be the folder of an evaluation, or a file of rollouts.",
)
def rollouts(arguments: Arguments) -> int:
    """Print the steps; with a step or a group, its samples; with a selection, those in full."""
    if arguments.run is not None and (path := _path_of_rollouts(arguments.run)) is not None:
        return _show(arguments, path)
    return show_runs(arguments, lambda target: _show(arguments, Path(target.record.run_dir), target.record))


def _path_of_rollouts(reference: str) -> Path | None:
    """The folder or file of that path; `None` if there is none, or it is a run's output folder."""
    path = Path(reference).expanduser()
    if not path.exists() or ("/" not in reference and names_run(reference)):
        return None
    record = experiment_above(path.absolute())
    return None if record is not None and same_folder(record.output_dir, str(path)) else path


def _show(arguments: Arguments, folder: Path, record: ExperimentRecord | None = None) -> int:
    """Show the rollouts of a folder, or of a file; `record`: of the run that it belongs to."""
    from rltui.services.rollouts import open_rollouts

    source = open_rollouts(folder)
    pattern = pattern_of(arguments.grep)
    with working("reading rollouts"):
        while source.poll(budget_s=_READ_S):
            pass
    if record is not None and record.framework in ELSEWHERE and not source.batches():
        raise UsageError(no_rollouts_text(record.framework))
    if arguments.dashboard and record is None:
        raise UsageError("--dashboard shows rollouts of a run", hint="name the run, not a folder")
    is_list = arguments.step is None and arguments.group is None and not arguments.live
    if is_list and not _selects(arguments):
        if arguments.dashboard and record is not None:
            return show_place(arguments, record, DashboardPlace(tab="traces"))
        _list_batches(source, [batch.key for batch in _candidates(source, arguments)], arguments)
        return 0
    key = _batch_key(source, arguments)
    _read(source, key)
    table = source.table(key)
    indices = _indices(source, key, table, arguments, pattern)
    longest = None if arguments.full else _LONGEST_TEXT
    if arguments.dashboard and record is not None:
        if not indices:
            raise UsageError(f"no rollout of {_batch_text(key)} matches")
        place = place_of_rollout(key, source.open(key, table[indices[0]]).raw)
        return show_place(arguments, record, place)
    if arguments.export is not None:
        source.export([source.open(key, table[index]) for index in indices], Path(arguments.export))
        print(f"{len(indices)} samples of {key.label} written to {arguments.export}")
    elif arguments.json:
        document = _document(source, key, table, indices, longest, is_full=_selects(arguments))
        samples = document.pop("samples")
        print_rows(arguments, "samples", samples, head=document, hides_secrets=True)
    elif _selects(arguments):
        cut = 0
        for index in indices:
            transcript, omitted_count = _shorten(source.open(key, table[index]), longest)
            _print_transcript(transcript)
            cut += omitted_count
        if cut:
            print(f"{group_digits(cut)} characters of long messages are left out: {_WHOLE}", file=sys.stderr)
    else:
        _print_samples(key, table, indices)
    return 0


def _selects(arguments: Arguments) -> bool:
    selections = (arguments.worst, arguments.best, arguments.random, arguments.grep, arguments.export)
    return any(value is not None for value in selections)


def _batch_text(key: BatchKey) -> str:
    return f"{'step ' if key.kind == 'train' else ''}{key.label}"


def _read(source: RolloutSource, key: BatchKey) -> None:
    with working(f"reading rollouts of {_batch_text(key)}"):
        while source.poll(key, _READ_S):
            pass


def _candidates(source: RolloutSource, arguments: Arguments) -> list[Batch]:
    """The batches that the options allow, the newest first."""
    kind = "live" if arguments.live else "eval" if arguments.eval else None
    period = Period(arguments.since, arguments.until)
    batches = source.batches()
    if period != Period():
        batches = [batch for batch in batches if period.holds(0.0, max(batch.key.step, 0))]
    if kind is not None:
        batches = [batch for batch in batches if batch.key.kind == kind]
    elif any(batch.key.kind == "train" for batch in batches) and arguments.step is not None:
        batches = [batch for batch in batches if batch.key.kind == "train"]
    batch_parts = (ALL,) if arguments.all else ("",)
    matches = [batch for batch in batches if batch.key.part in batch_parts or batch.key.step == NO_STEP]
    return matches or batches


def _batch_key(source: RolloutSource, arguments: Arguments) -> BatchKey:
    keys = [batch.key for batch in _candidates(source, arguments)]
    if not arguments.live and not arguments.eval:
        keys = [key for key in keys if key.kind == "train"] or keys
    if arguments.step is not None:
        steps = sorted({key.step for key in keys if key.step != NO_STEP})
        keys = [key for key in keys if key.step == arguments.step]
        if not keys and steps:
            raise UsageError(
                f"step {arguments.step} has no rollouts",
                hint=f"{len(steps)} steps have rollouts, from {steps[0]} to {steps[-1]}",
            )
    if not keys:
        raise UsageError(
            "no rollouts" if not arguments.live else "no rollout is in progress",
            hint=WRITERS,
        )
    return keys[0]


def _indices(
    source: RolloutSource,
    key: BatchKey,
    table: SampleTable,
    arguments: Arguments,
    pattern: re.Pattern[str] | None,
) -> list[int]:
    indices: Sequence[int] = range(len(table))
    if arguments.group is not None:
        indices = [index for index in indices if table.text("group", index) == arguments.group]
        if not indices:
            groups = list(dict.fromkeys(table.text("group", index) for index in range(len(table))))
            named_groups = ", ".join(
                truncate(group, GROUP_WIDTH) for group in groups[:_NAMED_GROUPS] if group
            )
            raise UsageError(
                f"{_batch_text(key)} has no group {arguments.group!r}",
                hint=f"its groups: {named_groups}{' …' if groups[_NAMED_GROUPS:] else ''}"
                if named_groups
                else "it has none",
            )
    if pattern is not None:
        matches = source.search(key, (table[index] for index in indices), pattern)
        with working(f"searching {len(indices):,} rollouts of {_batch_text(key)}"):
            indices = [index for index, is_match in zip(indices, matches, strict=True) if is_match]
    if arguments.worst is not None:
        return sort_samples(table, "worst", indices)[: arguments.worst]
    if arguments.best is not None:
        return sort_samples(table, "best", indices)[: arguments.best]
    if arguments.random is not None:
        return random.sample(indices, min(arguments.random, len(indices)))
    return list(indices)


def _list_batches(source: RolloutSource, keys: Sequence[BatchKey], arguments: Arguments) -> None:
    most = arguments.limit or (_MOST_BATCHES if arguments.json and not arguments.full else None)
    visible_keys = keys[:most] if arguments.json else keys[: arguments.limit or _LISTED_BATCHES]
    summaries = []
    for key in visible_keys:
        _read(source, key)
        summaries.append((key, BatchSummary.of(source.table(key))))
    if arguments.json:
        documents = [_batch_document(source, key, summary) for key, summary in summaries]
        left_out = {"batches": len(keys) - len(summaries)}
        print_rows(arguments, "batches", documents, left_out=left_out)
        return
    if not keys:
        print("no rollouts yet")
        return
    lows = [summary.low for _, summary in summaries if math.isfinite(summary.low)]
    highs = [summary.high for _, summary in summaries if math.isfinite(summary.high)]
    low, high = min([0.0, *lows]), max([1.0, *highs])
    batches = [
        ListedBatch(key, summary, histogram(source.table(key).columns["reward"], _BINS, low, high))
        for key, summary in summaries
    ]
    shapes = [
        shape._replace(heading=f"{low:g} … {high:g}") if column.name == "rewards" else shape
        for column, shape in zip(_BATCHES, view_shapes(_BATCHES), strict=True)
    ]
    print_table(shapes, view_cells(_BATCHES, batches, 0.0))
    if len(keys) > len(visible_keys):
        print(f"… and {len(keys) - len(visible_keys)} earlier steps: --limit NUMBER")


def _print_samples(key: BatchKey, table: SampleTable, indices: Sequence[int]) -> None:
    flat = {group.name for group in table.groups() if group.is_flat}
    samples = [ListedSample(index, table[index], table[index].group in flat) for index in indices]
    has_agents = any(sample.sample.agents for sample in samples)
    print_view(_SAMPLES if has_agents else _SAMPLES[:-1], samples, 0.0)
    if flat:
        print(f"= all rewards of the group are equal, so no gradient: {len(flat)} groups of {key.label}")


def _print_transcript(transcript: Transcript) -> None:
    print(f"── {sample_summary(transcript.sample)}")
    for error in transcript.errors:
        print(f"   ✗ {without_secrets(error)}")
    for conversation in transcript.conversations:
        if conversation.title:
            print(f"   ─ {conversation.title}")
        for message in conversation.messages:
            _print_section(f"{message.role}, thinking", message.reasoning)
            _print_section(
                message.role, message.text or ("" if message.reasoning or message.calls else "(nothing)")
            )
            for call in message.calls:
                _print_section(f"{message.role} calls {call.name}", call.arguments)
    print()


def _print_section(title: str, text: str) -> None:
    if text:
        print(f"{title}:")
        print("\n".join(f"    {line}" for line in without_secrets(text).splitlines()))


def _document(
    source: RolloutSource,
    key: BatchKey,
    table: SampleTable,
    indices: Sequence[int],
    longest: int | None,
    *,
    is_full: bool,
) -> dict[str, Any]:
    """`{"batch": {…}, "samples": [{…}]}`. Samples in full have their conversations and errors as well, and
    how many characters of them are left out.
    """
    samples = []
    for index in indices:
        row = _known_fields(table[index]._asdict()) | {"number": index}
        del row["where"]
        if is_full:
            transcript, omitted_count = _shorten(source.open(key, table[index]), longest)
            row |= {"left_out": {"characters": omitted_count, "all": _WHOLE}} if omitted_count else {}
            row["untrusted"] = {
                "conversations": [*_conversations(transcript)],
                "errors": transcript.errors,
                "facts": transcript.facts,
            }
        samples.append(row)
    return {"batch": _batch_document(source, key, BatchSummary.of(table)), "samples": samples}


def _shorten(transcript: Transcript, longest: int | None) -> tuple[Transcript, int]:
    """Cut long texts; returns how many characters that leaves out."""
    cut = 0

    def short(text: str) -> str:
        nonlocal cut
        text = untrusted_text(text)
        cut += 0 if longest is None else max(0, len(text) - longest)
        return untrusted_text(text, longest)

    def of_message(conversation: Message) -> Message:
        return replace(
            conversation,
            text=short(conversation.text),
            reasoning=short(conversation.reasoning),
            calls=tuple(replace(call, arguments=short(call.arguments)) for call in conversation.calls),
        )

    conversations = tuple(
        replace(conversation, messages=tuple(map(of_message, conversation.messages)))
        for conversation in transcript.conversations
    )
    facts = tuple((name, short(text)) for name, text in transcript.facts)
    errors = tuple(map(short, transcript.errors))
    return replace(transcript, conversations=conversations, facts=facts, errors=errors), cut


def _conversations(transcript: Transcript) -> Iterator[dict[str, Any]]:
    for conversation in transcript.conversations:
        yield {
            "title": conversation.title,
            "prompt": [asdict(message) for message in conversation.prompt],
            "completion": [asdict(message) for message in conversation.completion],
        }


def _batch_document(source: RolloutSource, key: BatchKey, summary: BatchSummary) -> dict[str, Any]:
    rewards = source.table(key).columns["reward"]
    bins = histogram(rewards, _BINS, summary.low, summary.high) if math.isfinite(summary.low) else []
    return {
        "kind": key.kind,
        "step": None if key.step == NO_STEP else key.step,
        "part": key.part,
        **_known_fields(asdict(summary)),
        "histogram": bins,
    }


def _known_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Replace what is unknown by null."""
    return {
        name: None if (isinstance(value, float) and not math.isfinite(value)) or value == -1 else value
        for name, value in row.items()
    }
