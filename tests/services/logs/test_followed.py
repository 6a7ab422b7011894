"""Which file a log pane follows, and when clients are told."""

from __future__ import annotations

import os
from pathlib import Path

from rltui.core.experiment.layout import LogSpec
from rltui.services.logs.followed import NOTIFY_AFTER_S, SWITCH_AFTER_S, FollowedLogs

T = 1_800_000_000.0


def write(path: Path, at: float = T, text: str = "line\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def follow(run: Path, *files: str) -> FollowedLogs:
    logs = FollowedLogs(run, [LogSpec(id="trainer", files=files, title="the trainer")])
    logs.poll()
    return logs


def test_no_file_yet_then_one(tmp_path: Path) -> None:
    logs = follow(tmp_path, "logs/trainer.log")
    (log,) = logs.logs
    assert (log.id, log.title, log.path) == ("trainer", "the trainer", None)
    assert log.wanted == ("logs/trainer.log",)
    assert logs.paths == {}
    assert not logs.poll()
    path = write(tmp_path / "logs" / "trainer.log")
    assert logs.poll()
    (log,) = logs.logs
    assert (log.path, log.name, log.size_bytes, log.changed_at) == (str(path), "logs/trainer.log", 5, T)
    assert logs.paths == {"trainer": path}
    path.unlink()
    assert logs.poll()
    assert logs.paths == {}


def test_first_pattern_that_leads_to_a_file_counts(tmp_path: Path) -> None:
    newest = write(tmp_path / "logs" / "trainer.log", at=T + 1000)
    wanted = write(tmp_path / "logs" / "attempt_2" / "trainer.log")
    (tmp_path / "logs" / "latest").symlink_to("attempt_2")
    names = ("logs/latest/trainer.log", "logs/trainer.log")
    assert follow(tmp_path, *names).logs[0].name == "logs/latest/trainer.log"
    wanted.unlink()
    assert follow(tmp_path, *names).paths["trainer"] == newest


def test_of_two_files_that_grow_the_same_is_kept(tmp_path: Path) -> None:
    one = write(tmp_path / "envs" / "one.log", at=T + 1)
    two = write(tmp_path / "envs" / "two.log", at=T)
    logs = follow(tmp_path, "envs/*.log")
    write(two, at=T + 2)
    logs.poll()
    assert logs.paths["trainer"] == one
    write(two, at=T + 2 + SWITCH_AFTER_S)
    assert logs.poll()
    assert logs.paths["trainer"] == two


def test_growth_is_told_now_and_then(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log")
    logs = follow(tmp_path, "a.log")
    write(path, at=T + NOTIFY_AFTER_S / 2, text="two\nlines\n")
    assert not logs.poll()
    write(path, at=T + NOTIFY_AFTER_S, text="now\nthree\nlines\n")
    assert logs.poll()
    assert logs.logs[0].changed_at == T + NOTIFY_AFTER_S
    write(path, at=T + NOTIFY_AFTER_S + 1, text="cut\n")
    assert logs.poll()


def test_only_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()
    os.mkfifo(tmp_path / "b.log")  # opening it would wait for a writer
    assert follow(tmp_path, "*.log").paths == {}


def test_strange_names_are_taken_as_they_are(tmp_path: Path) -> None:
    run = tmp_path / "run[1]*"
    write(tmp_path / "run[1]x" / "envs[x]" / "another.log", at=T + 99)
    path = write(run / "envs[x]" / "a b.log")
    assert follow(run, "envs[x]/*.log").paths["trainer"] == path
    beside = write(tmp_path / ".rltui" / "attempt-1" / "output.log")
    found = follow(run, "../.rltui/attempt-*/output.log")
    assert found.paths["trainer"] == beside
    assert found.logs[0].name == "../.rltui/attempt-1/output.log"
