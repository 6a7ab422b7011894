"""How the queue and its entries are told."""

from __future__ import annotations

from tests.fakes.experiment import NOW
from tests.fakes.runs import run_row

from rltui.core.runs.queue import QueueEntry, RunQueue
from rltui.core.runs.row import RunRow
from rltui.views.queue_entry import VIEW, QueuedRun, entry_details, queue_counts, queued_runs


def entry(name: str, **fields: object) -> QueueEntry:
    values = {"id": name, "name": name, "folder": f"/out/{name}", "added_at": NOW - 60, **fields}
    return QueueEntry.from_plain(values)


QUEUE = RunQueue(
    entries=(
        entry("old", state="done", ended_at=NOW - 90),
        entry("late"),
        entry("urgent", priority=5),
        entry("new", state="failed", ended_at=NOW - 10),
        entry("job", state="running", is_job=True, why="in the queue of SLURM"),
        entry("live", state="running"),
    )
)


def test_what_runs_comes_first_then_what_waits_then_what_has_ended() -> None:
    questions: list[str] = []

    def run_of(entry: QueueEntry) -> RunRow | None:
        questions.append(entry.name)
        return None

    names = [queued.entry.name for queued in queued_runs(QUEUE, run_of)]
    assert names == ["job", "live", "urgent", "late", "new", "old"]
    assert "late" not in questions, "it has no run yet"
    assert queue_counts(queued_runs(QUEUE, run_of)) == [
        "2 queued",
        "1 starting",
        "1 running",
        "1 done",
        "1 failed",
    ]


def test_an_entry_in_columns() -> None:
    run = run_row("live", step=83, max_steps=200)
    cells = [
        column.cell(QueuedRun(entry("live", state="running", told="lr=1"), run), NOW)
        for column in VIEW.columns
    ]
    assert [cell.text for cell in cells[:4]] == ["●", "live", "running", "83/200"]
    assert cells[0].role == "good"
    (why,) = VIEW.named(["why"])
    again = entry("again", why="trainer: exited 1; retrying", not_before=NOW + 90)
    assert why.cell(QueuedRun(again, None), NOW).text == "trainer: exited 1; retrying in 1m30s"
    paused = again.replace(why="the queue is paused")
    assert why.cell(QueuedRun(paused, None), NOW).text == "the queue is paused"


def test_the_details_say_what_starts_it_and_what_it_needs() -> None:
    queued_run = entry("big", words=["rl.toml"], overrides=["--lr=1"], gpus=4, retries=2, stop_if=["kl > 10"])
    assert {label: texts for label, texts in entry_details(queued_run, NOW) if any(texts)} == {
        "needs": ["4 GPUs", "3 tries"], "stops if": ("kl > 10",), "added": ["1m00s ago"],
        "command": ["rltui up rl.toml -- --lr=1"], "folder": ["/out/big"],
    }  # fmt: skip
