"""The quick reading of the queue says what the queue itself says, also after a restart of the machine."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tests.fakes.experiment import NOW
from tests.fakes.runs import run_row

from rltui import paths
from rltui.core.experiment.states import ENTRY_STATES
from rltui.core.runs.queue import QueueEntry, RunQueue
from rltui.core.runs.state import Verdict
from rltui.services.own_files import make_folder
from rltui.services.processes import boot_identity
from rltui.services.runs.queue_file import read_queue
from rltui.services.runs.queue_states import row_beside_entry, saved_entries


def test_the_quick_reading_says_what_the_queue_says(own_user: Path) -> None:
    make_folder(paths.queue_folder(), mode=0o700)
    entries = [
        QueueEntry(
            id=f"{state}-{retries}", name=state, folder="/o", added_at=NOW, state=state, retries=retries,
            outcome="failed" if state == "stopping" else None, why="w",
        )
        for state, retries in product(ENTRY_STATES, (0, 1))
    ]  # fmt: skip
    rows = [run_row(entry.id, state="failed", entry=entry.id) for entry in entries]
    after_reboot: set[str] = set()
    for boot in (boot_identity(), "another", ""):
        queue = RunQueue(entries=tuple(entries), boot=boot)
        paths.queue_file().write_text(queue.to_json().decode())
        saved = saved_entries()
        listed = [row_beside_entry(row, saved[row.entry]) for row in rows]
        for entry, row in zip(read_queue().entries, listed, strict=True):
            expected = Verdict("failed", rows[0].reason).in_queue(entry.state, entry.why)
            assert Verdict(row.state, row.reason) == expected, (boot, entry)
            after_reboot |= {row.state} if boot == "another" else set()
    assert after_reboot == {"queued", "failed"}
