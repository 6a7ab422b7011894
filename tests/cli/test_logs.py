"""`rltui logs` over all components and attempts."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, planned
from tests.fakes.past_run import write_attempt, write_finished_run

from rltui.base.times import Period
from rltui.cli import main
from rltui.cli.arguments import moment
from rltui.core.logs.period import LogPeriod
from rltui.services.logs.tail import follow_lines

LAYOUT = """\
framework = "generic"
[[component]]
id = "server"
command = ["true"]
[[component]]
id = "trainer"
command = ["true"]
[[log]]
id = "extra"
files = ["extra.log"]
"""
OUTPUT = {
    ("server", 1): "12:00:00    INFO ready\n12:00:03   ERROR CUDA out of memory\n  in worker 3\n",
    ("trainer", 1): "12:00:01    INFO Step 1 | Loss: 0.5\n12:00:02    INFO step 2\n",
    ("trainer", 2): "12:01:01    INFO Step 1 | Loss: 0.4\n\x1b[31m12:01:02 ERROR\x1b[0m \x1b]0;x\x07memory\n",
}


@pytest.fixture
def experiment(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text("max_steps = 20\n")
    (tmp_path / "own.toml").write_text(LAYOUT)
    record = planned(tmp_path / "run.toml", layout="./own.toml")
    control = record.control
    for (component, attempt), text in OUTPUT.items():
        assert control.new_attempt(component) == attempt
        control.log_file(component, attempt).write_text(text)
    Path(record.run_dir).mkdir(exist_ok=True)
    Path(record.run_dir, "extra.log").write_text("nothing but memory\n")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["--all", "--grep", "memory"],
            [
                "server#1   12:00:03   ERROR CUDA out of memory",
                "trainer#2  12:01:02 ERROR memory",
                "extra      nothing but memory",
            ],
        ),
        (["-c", "trainer", "--all", "--grep", "step 2", "-i"], ["trainer#1  12:00:02    INFO step 2"]),
        (["--grep", "Step", "--limit", "1"], ["trainer#2  12:01:01    INFO Step 1 | Loss: 0.4"]),
        (["-c", "server", "-c", "trainer#1", "--grep", "step 2"], ["trainer#1  12:00:02    INFO step 2"]),
        (
            ["-c", "server", "--all", "--level", "error"],
            ["server#1   12:00:03   ERROR CUDA out of memory", "server#1     in worker 3"],
        ),
        (["-c", "trainer#1", "--limit", "1"], ["12:00:02    INFO step 2"]),
        (["one/trainer", "--grep", "nowhere"], []),
    ],
    ids=lambda value: "-".join(value[:4]),
)
def test_logs_are_searched(experiment: None, cli: CommandLine, words: list[str], lines: list[str]) -> None:
    found = cli("logs", *words).splitlines()
    assert [line.split() for line in found] == [line.split() for line in lines]


def test_what_is_found_is_one_document(experiment: None, cli: CommandLine) -> None:
    text = "12:00:03   ERROR CUDA out of memory"
    line = {"component": "server", "attempt": 1, "untrusted": text, "level": "error"}
    assert cli.json("logs", "--all", "--grep", "CUDA")["lines"] == [line]
    document = cli.json("logs", "-c", "trainer#1", "--limit", "1")
    assert document["lines"] == [{"untrusted": "12:00:02    INFO step 2", "level": "info"}]
    assert document["path"].endswith("output.log")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--all"], "--grep PATTERN"),
        (["-f"], "which component"),
        (["--all", "--grep", "x", "-f"], "-f and --raw take one log"),
        (["-c", "trianer", "--all", "--grep", "x"], "did you mean trainer?"),
        (["-c", "trainer#3", "--grep", "x"], "trainer has no attempt 3\n→ its attempts: 1, 2"),
        (["-c", "trainer#3", "--all", "--grep", "x"], "trainer has no attempt 3\n→ its attempts: 1, 2"),
        (["trianer"], "did you mean rltui logs -c trainer?"),
        (["trainer#1"], "trainer#1 is a component, not a run\n→ rltui logs -c trainer#1"),
        (["-c", "trainer", "--grep", "("], "not a regular expression"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_says_what_to_do(experiment: None, cli: CommandLine, words: list[str], told: str) -> None:
    assert told in cli("logs", *words, code=2)


def test_of_a_long_log_the_newest_lines_are_shown(
    experiment: None, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Path("out/.rltui/components/trainer/attempt-2/output.log")
    log.write_text("".join(f"line {number}\n" for number in range(1_500)))
    assert main(["logs", "-c", "trainer"]) == 0
    text, note = capsys.readouterr()
    assert (text.splitlines()[0], len(text.splitlines())) == ("line 500", 1000)
    assert note.startswith("the newest 1000 lines of 14 KiB; --full prints all")
    assert cli.json("logs", "-c", "trainer")["omitted"] == note.rstrip()
    with Path("all").open("w") as file, contextlib.redirect_stdout(file):
        assert main(["logs", "-c", "trainer"]) == 0
    assert (len(Path("all").read_text().splitlines()), capsys.readouterr().err) == (1500, "")
    for words, count in ((("--full",), 1500), (("--limit", "1200"), 1200), (("--grep", "line"), 1500)):
        assert main(["logs", "-c", "trainer", *words]) == 0
        text, note = capsys.readouterr()
        assert (len(text.splitlines()), note) == (count, "")


def test_a_cursor_continues_where_an_answer_ended(experiment: None, cli: CommandLine) -> None:
    components = Path("out/.rltui/components")
    newest, cursor = components / "trainer/attempt-2/output.log", cli.json("logs", "-c", "trainer")["cursor"]
    of_all = cli.json("logs")["cursor"]

    def new(*words: str) -> list[str]:
        return [line["untrusted"] for line in cli.json("logs", "--since", *words)["lines"]]

    assert new(cursor) == []
    with newest.open("a") as file:
        file.write("one\nunfin")
    assert new(cursor) == ["one", "unfin"]
    with newest.open("a") as file:
        file.write("ished\n")
    later = cli.json("logs", "--since", cursor, "--grep", "one")["cursor"]
    (components / "trainer/attempt-3").mkdir()
    (components / "trainer/attempt-3/output.log").write_text("again\n")
    assert new(cursor, "-c", "trainer") == ["one", "unfinished", "again"]
    assert new(later) == ["again"], "the attempt that began since"
    assert new(of_all) == ["one", "unfinished", "again"]
    assert cli("logs", "--since", later) == "trainer#3  again\n"
    assert "do not continue at a cursor" in cli("logs", "-c", "trainer", "-f", "--since", cursor, code=2)
    assert "the cursor is of other logs" in cli("logs", "-c", "server", "--since", cursor, code=2)
    assert "a cursor of events, not of logs" in cli("logs", "--since", "events@", code=2)
    newest.write_text("another\n")
    assert "trainer#2 was truncated or replaced" in cli("logs", "--since", cursor, code=2)


TIMED = """\
starting
12:00:00    INFO Step 1 | Loss: 0.5
12:10:00    INFO Step 2 | Loss: 0.4
Traceback (most recent call last):
12:20:00    INFO saved
12:30:00    INFO Step 3 | Loss: 0.3
"""
DAY = "2026-11-22"
PERIODS: tuple[tuple[list[str], list[int]], ...] = (
    (["--since", f"{DAY}T12:10"], [2, 3, 4, 5]),
    (["--since", "12:10"], [2, 3, 4, 5]),
    (["--since", "25m"], [2, 3, 4, 5]),
    (["--since", "20m"], [4, 5]),
    (["--until", f"{DAY} 12:09"], [0, 1]),
    (["--since", "12:05", "--until", "12:15"], [2, 3]),
    (["--since", "2"], [2, 3, 4, 5]),
    (["--since", "2", "--until", "2"], [2, 3, 4]),
    (["--since", "2", "--grep", "Loss"], [2, 5]),
    (["--since", "12:10", "--limit", "2"], [4, 5]),
    (["--since", "40"], []),
)
"""Options at 12:35, and the numbers of the lines that they choose."""


def test_lines_of_a_period(
    own_user: Path, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same meaning as in `events`: what has no time or step has that of what came before."""
    now = time.mktime(time.strptime(f"{DAY} 12:35", "%Y-%m-%d %H:%M"))
    monkeypatch.setattr(time, "time", lambda: now)
    record = write_finished_run(tmp_path / "out" / "one")
    attempt = record.control.attempt_dir("trainer", 1)
    write_attempt(attempt, started_at=now - 2200.0, ended_at=now - 60.0, exit_code=0)
    path = record.control.log_file("trainer", 1)
    path.write_text(TIMED)
    lines = TIMED.splitlines()
    for options, numbers in PERIODS:
        expected = [lines[number] for number in numbers]
        assert cli("logs", "one/trainer", *options).splitlines() == expected, options
        of_all = cli("logs", "one", "-c", "trainer", "-c", "inference", *options).splitlines()
        assert of_all == [f"trainer#1    {line}" for line in expected], options
        stop = threading.Event()
        stop.set()
        if "--limit" not in options and "--grep" not in options:
            since, until = (
                moment(options[options.index(name) + 1]) if name in options else None
                for name in ("--since", "--until")
            )
            period = LogPeriod(Period(since, until), now - 2200.0)
            assert [*follow_lines(path, None, stop, period=period)] == expected, options
    assert "leave out all other options" in cli("logs", "one/trainer", "--raw", "--since", "1", code=2)
    path.write_text("".join(f"12:{n // 60:02}:{n % 60:02} INFO x {'y' * 90}\n" for n in range(3600)))
    chosen = cli("logs", "one/trainer", "--since", "12:20", "--until", "12:21").splitlines()
    assert (chosen[0][:8], chosen[60][:8]) == ("12:20:00", "12:21:00")
