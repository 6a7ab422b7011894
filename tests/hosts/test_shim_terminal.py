"""A component in a terminal of its own: keys, size, log; and that nothing there can slow or end it."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hosts.shim_harness import Attempt, Screen, attempt, program
from tests.waiting import retry_until


@contextmanager
def in_terminal(folder: Path, argv: list[str], **spec: object) -> Iterator[tuple[Attempt, Screen]]:
    screen = Screen()
    termios.tcsetwinsize(screen.shim, (40, 132))
    stop = {"signal": "SIGHUP", "grace_s": 5.0}
    with attempt(folder, argv, tty=True, stop=stop, env={"PS1": "$ ", "ENV": None}, **spec) as run:
        run.start(stdout=screen.shim, stderr=screen.shim)
        yield run, screen
        screen.close()


def test_a_shell_is_typed_into_and_its_output_logged(tmp_path: Path) -> None:
    with in_terminal(tmp_path, ["sh", "-i"]) as (run, screen):
        screen.type("stty size; test -t 0 && test -t 2 && echo all thre'e'\r")
        screen.wait_for("all three")
        assert "40 132\r\n" in screen.read()
        termios.tcsetwinsize(screen.shim, (10, 60))
        run.signal(signal.SIGWINCH)
        screen.type("while ! stty size | grep '^10 60'; do :; done\r")
        screen.wait_for("\n10 60\r\n")
        screen.type("echo re'a'ding; cat\r")
        screen.wait_for("reading\r\n")
        screen.type("\x03")  # to what runs there, neither to the shim nor to the shell
        retry_until(lambda: "^C" in screen.read() and screen.text.endswith(b"$ "))
        screen.type("echo still $((40+2))\r")
        screen.wait_for("still 42")
        screen.type("exit 7\r")
        record = run.wait()
        assert (record.exit_code, record.signal, record.stop_requested) == (7, None, False)
        assert "— exited 7 at" in screen.read()
        logged = run.log.read_bytes()
        assert b"all three" in logged
        assert b"still 42" in logged
        assert b"exited 7" not in logged
        assert termios.tcgetattr(screen.shim)[3] & termios.ECHO  # as it was


def test_a_stop_ends_a_shell_that_ignores_sigterm_with_its_jobs(tmp_path: Path) -> None:
    with in_terminal(
        tmp_path, ["sh", "-c", "trap '' TERM; trap 'exit 0' HUP; sleep 1000 & echo on; wait"]
    ) as (
        run,
        screen,
    ):
        screen.wait_for("on\r\n")
        run.signal(signal.SIGTERM)
        record = run.wait()
    assert record.stop_requested
    assert (record.exit_code, record.descendants) == (0, ())


def test_a_terminal_that_hangs_up_ends_nothing(tmp_path: Path) -> None:
    script = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 4"
    with in_terminal(tmp_path, ["sh", "-c", script]) as (run, screen):
        screen.wait_for("one")
        os.close(screen.leader)
        run.signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        assert run.wait().exit_code == 4
    assert run.log.read_bytes() == b"one\r\ntwo\r\n"


def test_a_screen_that_nobody_reads_slows_nothing(tmp_path: Path) -> None:
    lines = 30_000
    with in_terminal(tmp_path, program("flood.py", lines)) as (run, screen):
        assert run.wait().exit_code == 0
        screen.read()
    assert run.log.read_bytes() == b"".join(b"line %d\r\n" % number for number in range(lines))
    assert re.match(rb"line 0\r\nline 1\r\n", screen.text)


def test_a_log_that_cannot_be_written_is_told_and_ends_nothing(tmp_path: Path) -> None:
    with in_terminal(tmp_path, ["sh", "-c", "echo one; read x; exit 5"], log="/dev/full") as (run, screen):
        screen.wait_for("cannot write the log: No space left on device")
        screen.wait_for("one")
        screen.type("\r")
        assert run.wait().exit_code == 5


def test_much_typed_at_once_arrives_whole(tmp_path: Path) -> None:
    code = "import sys, tty; tty.setraw(0); print('raw', flush=True); print(len(sys.stdin.read(300_000)))"
    with in_terminal(tmp_path, [sys.executable, "-c", code]) as (run, screen):
        screen.wait_for("raw")
        os.set_blocking(screen.leader, True)
        for _ in range(300):
            screen.type("x" * 1000)
        assert run.wait().exit_code == 0
    assert run.log.read_bytes().endswith(b"300000\n")


def test_what_a_killed_program_left_on_is_undone(tmp_path: Path) -> None:
    with in_terminal(tmp_path, ["sh", "-c", "printf '\\033[?1049h\\033[?25lfull'; kill -KILL $$"]) as (
        run,
        screen,
    ):
        run.wait()
        assert "— ended by SIGKILL at" in screen.read()
    last = screen.text.rpartition(b"full")[2]
    assert b"\x1b[?1049l" in last
    assert b"\x1b[?25h" in last


def test_without_a_terminal_at_the_other_end_it_runs_all_the_same(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", "stty size; echo ${TMUX:-no tmux}; exit 3"], tty=True) as run:
        run.start(env={**os.environ, "TMUX": "/tmp/rltui,1,0"})
        assert run.wait().exit_code == 3
    assert run.log.read_bytes() == b"24 80\r\nno tmux\r\n"
