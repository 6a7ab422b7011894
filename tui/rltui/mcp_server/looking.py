"""The tools that change nothing: which runs there are, how they do, why, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from rltui.base.shorten import pick_evenly, rounded, without_empty
from rltui.base.text import untrusted_text
from rltui.client import agents
from rltui.client.reader import ExperimentReader
from rltui.client.series import current_series
from rltui.client.statuses import brief, read_status, rows_of
from rltui.client.statuses import row_of as status_row
from rltui.client.transports.unix import CONNECT_TIMEOUT_S
from rltui.client.waiting import awaited, wait_until
from rltui.client.why import explain, explain_entry
from rltui.core.experiment.cursor import parse_cursor
from rltui.core.experiment.why import Why
from rltui.core.logs.query import pattern_of
from rltui.core.metrics.selection import requested_lines, rows_by_step
from rltui.core.rollouts.batches import BatchSummary, Transcript, sort_samples
from rltui.core.runs.conditions import parse_condition
from rltui.core.runs.row import RunRow
from rltui.core.runs.verdict import Ground, verdict_of
from rltui.errors import UsageError
from rltui.frameworks.rollouts import WRITERS
from rltui.mcp_server.actions import Document
from rltui.mcp_server.runs import all_runs, record_of, row_of
from rltui.services.actor import actor
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.redaction import without_secrets
from rltui.services.rollouts import open_rollouts
from rltui.services.runs import catalog
from rltui.services.runs.bench_file import read_bench, read_benches
from rltui.services.runs.queue_file import read_queue
from rltui.views.bench import ledger_rows

_MOST_LISTED, _MOST_VALUES = 20, 200
_TEXT_CHARS = 3000
"""Number of characters of the texts of all rollouts together, each cut alike."""
_READ_S = 1.0


def overview(alive: bool = True) -> Document:
    """List the runs, by default the living ones, with step, reward, health; queue and benches. Begin here."""
    rows = [row for row in all_runs().rows() if row.trashed_at is None and row.archived_at is None]
    rows.sort(key=lambda row: (row.is_alive, row.started_at or row.created_at), reverse=True)
    listed = [row for row in rows if row.is_alive or not alive][:_MOST_LISTED]
    records = {row.id: catalog.record_of(row) for row in listed if row.is_alive and not row.is_unreadable}
    statuses = zip(records.items(), rows_of([*records.values()]), strict=True)
    living = {id_: brief(record, status) for (id_, record), status in statuses}
    queue = read_queue()
    waiting = [entry.part("name", "state", "why", "group") for entry in queue.entries if entry.is_open]
    return {
        "runs": [living.get(row.id) or _ended(row) for row in listed],
        "not_listed": len(rows) - len(listed),
        "queue": waiting[:_MOST_LISTED],
        "queue_paused": queue.paused,
        "benches": [{"name": item.name, "state": item.state} for item in read_benches()[:_MOST_LISTED]],
    }


def _ended(row: RunRow) -> Document:
    figures = {"step": row.step, "max_steps": row.max_steps, "reward": rounded(row.reward)}
    return {"run": row.name, "state": row.state, "reason": row.reason.code, **figures}


# --- one run ------------------------------------------------------------------------------------------------

_COMPONENT = ("id", "state", "stalled", "reason", "pid", "attempt", "exit_code", "signal", "uptime_s", "log")
_CONCERN = ("word", "text", "since", "last_good", "edits", "back")
_KNOB = ("key", "value", "running", "default", "readers")
_CHECKPOINT = ("step", "complete", "size_bytes", "reward", "evals", "notes")
_EVAL = ("id", "label", "env", "step", "mean", "stderr", "num_examples", "verdict")
Side = Literal["summary", "parts", "concerns", "curve", "config", "checkpoints", "evals"]


def look(run: str = "", what: Side = "summary") -> Document:
    """Show a side of a run: summary; parts, its components in detail; concerns, what is wrong with the
    training and where to go back to; curve of the reward; config, the keys that are set; checkpoints; evals.

    run, here and elsewhere: name, its beginning, id, folder, or -1, the newest; empty: the one that is alive.
    """
    record = record_of(run)
    return {"run": record.name, **_side(record, what)}


def _side(record: ExperimentRecord, what: Side) -> Document:
    reader = ExperimentReader(record)
    match what:
        case "summary":
            return brief(record, status_row(record, timeout_s=CONNECT_TIMEOUT_S))
        case "config":
            table = reader.knobs()
            knobs = [knob for knob in (*table.knobs, *table.others) if knob.is_set or knob.changed]
            return {"config": [knob.part(*_KNOB) for knob in knobs], "undo": table.undo}
        case "checkpoints":
            return {"checkpoints": [item.part(*_CHECKPOINT) for item in reader.checkpoints().checkpoints]}
    status = read_status(record)
    progress = status.get("progress") or {}
    match what:
        case "parts":
            return {"parts": [_part(item, _COMPONENT) for item in status["components"]]}
        case "concerns":
            return {"concerns": [_part(item, _CONCERN) for item in progress.get("concerns") or ()]}
        case "curve":
            return {"curve": rounded(pick_evenly(progress.get("curve") or (), _MOST_LISTED))}
        case "evals":
            newest = [item.part(*_EVAL) for item in reader.evals().evaluations[-_MOST_LISTED:]]
            return {"evals": rounded(newest), "waiting": len(status.get("evals", ()))}


def _part(document: Mapping[str, Any], names: Iterable[str]) -> Document:
    """Keep the fields that are not empty."""
    return without_empty({name: document.get(name) for name in names})


def metrics(
    run: str = "", names: list[str] | None = None, around: int | None = None, window: int = 10
) -> Document:
    """Metrics as a table by step: spread over the run, or the steps within window of around.

    names: reward, loss, entropy, kl, lr …, a program's own name, or a pattern; none: those with a chart.
    """
    record = record_of(run)
    reader = current_series(record)
    lines = [*requested_lines(reader, names or (), record.name, all_series=False)]
    lines = [line for line in lines if line.has_steps]
    rows = [
        [step, *rounded(values)]
        for step, _, values in rows_by_step(lines)
        if around is None or abs(step - around) <= window
    ]
    listed = pick_evenly(rows, max(_MOST_LISTED, _MOST_VALUES // (len(lines) + 1)))
    columns = ["step", *(line.label for line in lines)]
    return {"run": record.name, "columns": columns, "rows": listed, "all_rows": len(rows)}


def rollouts(
    run: str = "",
    step: int | None = None,
    pick: Literal["worst", "best"] = "worst",
    n: Annotated[int, Field(ge=1, le=8)] = 3,
    grep: str = "",
) -> Document:
    """What the model wrote at a step, by default the newest: figures of the batch, and its worst or best
    rollouts with the last messages. grep: only those whose text matches the pattern.
    """
    row, pattern = row_of(run), pattern_of(grep or None)
    source = open_rollouts(Path(row.run_dir or row.folder))
    while source.poll(budget_s=_READ_S):
        pass
    keys = [batch.key for batch in source.batches() if batch.key.kind == "train" and not batch.key.part]
    key = next((key for key in keys if step in (None, key.step)), None)
    if key is None:
        steps = sorted(key.step for key in keys)
        hint = f"steps with rollouts: {steps[0]} to {steps[-1]}" if steps else WRITERS
        raise UsageError("no rollouts" if step is None else f"step {step} has no rollouts", hint=hint)
    while source.poll(key, _READ_S):
        pass
    table = source.table(key)
    indices: Sequence[int] = range(len(table))
    if pattern is not None:
        matches = source.search(key, (table[index] for index in indices), pattern)
        indices = [index for index, is_match in zip(indices, matches, strict=True) if is_match]
    transcripts = [source.open(key, table[index]) for index in sort_samples(table, pick, indices)[:n]]
    samples = [_sample(transcript, _TEXT_CHARS // len(transcripts)) for transcript in transcripts]
    return {
        "run": row.name,
        "step": key.step,
        "batch": rounded(asdict(BatchSummary.of(table))),
        "samples": samples,
    }


def _sample(transcript: Transcript, most: int) -> Document:
    sample = transcript.sample
    messages = [message for conversation in transcript.conversations for message in conversation.messages][
        -3:
    ]
    texts = [(message.role, message.text or message.reasoning) for message in messages]
    facts = [fact for fact in transcript.facts if fact[0] != "step"]  # which the batch has
    texts += [*facts, *(("error", error) for error in transcript.errors)]
    figures = {"reward": sample.reward, "output_tokens": sample.output_tokens, "ended": sample.stop}
    return {
        **rounded(figures),
        "untrusted": [[name, _cut(text, most // len(texts))] for name, text in texts],
    }


def _cut(text: str, most: int) -> str:
    return untrusted_text(without_secrets(text), max(60, most))


def compare(a: list[str], b: list[str], on: Ground | None = None) -> Document:
    """Whether the runs b are better or worse than the runs a, or undistinguishable, by evaluations or else by
    the reward; and the config keys that differ. Give runs of several seeds.
    """
    ids = [row_of(name).id for name in (*a, *b)]
    if not a or not b or len({*ids}) < len(ids):
        raise UsageError(
            "each side needs runs, and no run twice", hint="overview with alive=false lists them"
        )
    comparison = all_runs().compare(ids)
    keys = [[key.key, *key.values] for key in comparison.differing]
    return {**rounded(verdict_of(comparison, len(a), on).to_plain()), "differing_keys": keys}


def why(run: str = "", component: str | None = None) -> Document:
    """Why a run, one of its components or what is queued is in its state: code, cause, evidence, the edit
    that may be the cause and what speaks against that, and a command that helps.
    """
    try:
        record = record_of(run)
    except UsageError as error:
        with suppress(UsageError):
            if run:
                return _explained(explain_entry(run))
        raise error
    return _explained(explain(record, component))


def _explained(answer: Why) -> Document:
    return without_empty({**answer.to_plain(), "reason": without_empty(answer.reason.to_plain())})


def bench(name: str) -> Document:
    """The ledger of a bench: each trial with its change, score, difference to the best, verdict and cost."""
    ledger = read_bench(name)
    head = {"bench": name, "state": ledger.state, "metric": ledger.metric, "best": ledger.winning_edits}
    return {**head, "ledger": ledger_rows(ledger, time.time())}


def budget() -> Document:
    """What agents may do on this machine, what each of them uses, its GPU hours included, and their acts that
    wait for a person.
    """
    report = agents.report()
    fields = ("id", "verb", "text", "reason")
    proposals = [{"run": item.run, **item.proposal.part(*fields)} for item in report.proposals]
    queued = [entry.name for entry in report.entries]
    head = {"you": actor().name, **report.part("level", "source", "limits", "agents")}
    gpu_hours = [user.part("name", "gpu_hours", "left_hours") for user in agents.budget().agents]
    return {**head, "gpu_hours": gpu_hours, "proposals": proposals, "proposed_entries": queued}


async def wait(
    until: str, run: str = "", timeout_s: Annotated[float, Field(ge=0, le=600)] = 300, since: str = ""
) -> Document:
    """Return once a run is where until says, or cannot get there. It costs less than to look.

    until: ready, done, failed, settled, alert, step>=200, reward>0.9, proposal:ID, joined by and, or. since:
    a cursor of an answer.
    """
    cursor = parse_cursor(since)
    if since and cursor is None:
        raise UsageError(f"not a cursor: {since}", hint="leave since out; the answer has a cursor")
    condition, target = parse_condition(until), await asyncio.to_thread(awaited, run, record_of)
    return (await wait_until([target], condition, timeout_s=timeout_s, since=cursor)).to_plain()


TOOLS: tuple[Callable[..., Any], ...] = (overview, look, why, wait, rollouts, metrics, compare, bench, budget)
