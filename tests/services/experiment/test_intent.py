"""What a supervisor has in hand, as the next one finds it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from rltui.core.experiment.api import Down
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.services.experiment.intent import IntentFile, intent_of


def test_failures_are_kept_by_the_clock_that_outlives_a_supervisor() -> None:
    life = Lifecycle(kind="job", failures=(time.monotonic() - 60.0, time.monotonic()))
    intent = intent_of({"trainer": life, "other": Lifecycle(kind="job")}, None, None, None)
    assert intent.failed_at == {"trainer": pytest.approx((time.time() - 60.0, time.time()), abs=1.5)}


def test_it_is_written_when_it_changes_and_over_a_damaged_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "intent.json"
    file, intent = IntentFile(path), intent_of({}, None, None, None)
    for _ in range(2):
        file.write(intent)
        assert caplog.text.count("cannot write") == 1, "the same trouble is told once"
    path.parent.mkdir()
    file.write(intent)
    assert IntentFile(path).read() == intent
    inode = path.stat().st_ino
    file.write(intent)
    assert path.stat().st_ino == inode
    path.write_text("{")
    with caplog.at_level(logging.ERROR):
        assert file.read() == type(intent)(), "nothing is known"
    file.write(intent)
    assert file.read() == intent


def test_after_a_restart_of_the_machine_only_who_took_it_down_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`status` did not say it any more after a reboot."""
    file, down = IntentFile(tmp_path / "intent.json"), Down(by="ada", at=1.0, left=("pid 9",))
    file.write(intent_of({}, None, None, down).replace(waiting=("trainer",)))
    monkeypatch.setattr("rltui.services.experiment.intent.boot_identity", lambda: "another boot")
    after = file.read()
    assert (after.waiting, after.down) == ((), Down(by="ada", at=1.0, complete=True))
