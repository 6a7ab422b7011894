"""The shim's own terminal shows the log, and can neither slow nor stop anything."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.shim_harness import Attempt, Screen, attempt, program
from tests.waiting import retry_until


@pytest.fixture
def screen() -> Iterator[Screen]:
    fake = Screen()
    yield fake
    fake.close()


def show(run: Attempt, screen: Screen) -> None:
    run.start(stdout=screen.shim, stderr=screen.shim)


def test_the_pane_shows_output_and_exit(tmp_path: Path, screen: Screen) -> None:
    with attempt(tmp_path, ["sh", "-c", "echo hällo; echo bad >&2; exit 3"]) as run:
        show(run, screen)
        run.wait()
    text = screen.read()
    assert text.startswith("hällo\r\nbad\r\n")
    assert re.search(r"\r\n— exited 3 at \d\d:\d\d:\d\d —\r\n$", text)


@pytest.mark.parametrize(
    ("argv", "last"),
    [(["sh", "-c", "kill -KILL $$"], "ended by SIGKILL"), (["no-such"], "cannot run 'no-such'")],
)
def test_the_pane_says_how_it_ended(tmp_path: Path, screen: Screen, argv: list[str], last: str) -> None:
    with attempt(tmp_path, argv) as run:
        show(run, screen)
        run.wait()
    assert last in screen.read()


def test_the_pane_names_what_is_kept(tmp_path: Path, screen: Screen) -> None:
    stop = {"signal": "SIGTERM", "grace_s": 1.0, "leftovers": "keep"}
    with attempt(tmp_path, ["sh", "-c", "sleep 1000 & echo last words; exit 3"], stop=stop) as run:
        show(run, screen)
        screen.wait_for("a stop ends")
        [child] = run.record.descendants
        text = screen.read()
        assert text.startswith("last words\r\n")
        assert re.search(
            rf"— exited 3 at \d\d:\d\d:\d\d; still running: pid {child.pid}; a stop ends them, too —", text
        )
        run.signal(signal.SIGTERM)
        run.wait()
    last = screen.read().splitlines()[-1]
    assert re.fullmatch(r"— exited 3 at \d\d:\d\d:\d\d; leftovers have ended —", last)


def test_the_pane_says_that_the_record_cannot_be_written(tmp_path: Path, screen: Screen) -> None:
    with attempt(tmp_path, ["sleep", "1000"]) as run:
        (tmp_path / "attempt.json").mkdir()
        show(run, screen)
        screen.wait_for("attempt.json: Is a directory")
        (tmp_path / "attempt.json").rmdir()
        run.running()
    assert screen.read().count("cannot write") == 1


def test_the_pane_follows_while_it_runs(tmp_path: Path, screen: Screen) -> None:
    with attempt(
        tmp_path, ["sh", "-c", "echo one; until [ -e go ]; do sleep 0.02; done; echo two; sleep 1000"]
    ) as run:
        show(run, screen)
        screen.wait_for("one")
        (tmp_path / "go").touch()
        screen.wait_for("two")


def test_a_flood_is_cut_short_in_the_pane_and_whole_in_the_log(tmp_path: Path, screen: Screen) -> None:
    lines = 100_000
    with attempt(tmp_path, program("flood.py", lines)) as run:
        show(run, screen)
        retry_until(lambda: screen.read() and run.process is not None and run.process.poll() is not None)
    assert run.log.read_bytes() == b"".join(b"line %d\n" % number for number in range(lines))
    text = screen.read()
    assert f"see {run.log}" in text
    skipped = sum(map(int, re.findall(r"skipped (\d+) bytes", text)))
    visible = re.sub(r"\r\n… skipped .*\r\n", "", text).replace("\r\n", "\n").partition("—")[0].rstrip("\r\n")
    assert skipped + len(visible) == pytest.approx(run.log.stat().st_size, abs=4)
    assert f"line {lines - 1}\r\n" in text


def test_a_terminal_that_nobody_reads_stops_nothing(tmp_path: Path, screen: Screen) -> None:
    """Scroll lock (ctrl+s) in an attached pane does this."""
    with attempt(tmp_path, program("flood.py", 100_000)) as run:
        show(run, screen)
        record = run.wait()
    assert record.exit_code == 0
    assert run.log.read_bytes().endswith(b"line 99999\n")


def test_a_terminal_that_hangs_up_stops_nothing(tmp_path: Path, screen: Screen) -> None:
    script = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 4"
    with attempt(tmp_path, ["sh", "-c", script]) as run:
        show(run, screen)
        screen.wait_for("one")
        os.close(screen.leader)
        run.signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        assert run.wait().exit_code == 4
    assert run.log.read_text() == "one\ntwo\n"


def test_a_truncated_log_is_followed_from_its_new_end(tmp_path: Path, screen: Screen) -> None:
    with attempt(
        tmp_path, ["sh", "-c", "echo a long first line; until [ -e go ]; do sleep 0.02; done; echo new"]
    ) as run:
        show(run, screen)
        screen.wait_for("first line")
        os.truncate(run.log, 0)
        (tmp_path / "go").touch()
        run.wait()
    assert run.log.read_text() == "new\n"


def test_without_a_terminal_it_runs_all_the_same(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", "exit 3"]) as run:
        run.start(stdout=None, preexec_fn=lambda: os.closerange(1, 3))
        assert run.wait().exit_code == 3
