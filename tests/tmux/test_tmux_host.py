from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import retry_until

from rltui import paths
from rltui.errors import ConflictError, RltuiError
from rltui.services import processes, tmux
from rltui.services.tmux import TmuxHost

pytestmark = pytest.mark.tmux

TELL = (
    "import json, os, sys; from pathlib import Path;"
    "told = Path(sys.argv[1]); part = told.with_suffix('.part');"
    "part.write_text(json.dumps({'argv': sys.argv[2:], 'cwd': os.getcwd(), 'env': dict(os.environ)}));"
    "part.rename(told)"
)
"""A program that writes how it was called."""

NASTY = [
    "sp ace", "q'u\"o`te", "$HOME", ";", "a;", "b\\;", "new\nline", "-dash", "--", "#{pane_id}", "#S", "%H%%",
    "##", "", "é", "\t", "~", "*", "a=b", "{", "\\",
]  # fmt: skip


def tell(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-c", TELL, str(folder / "told"), *words]


def told(folder: Path) -> dict[str, Any]:
    retry_until((folder / "told").exists)
    facts: dict[str, Any] = json.loads((folder / "told").read_text())
    return facts


def start(host: TmuxHost, session: str = "s", **env: str) -> None:
    host.start_supervisor(session, ["sleep", "1000"], cwd="/", env=env)


def test_asking_without_a_server_finds_nothing(host: TmuxHost) -> None:
    assert host.list_windows("s") == ()
    assert host.list_sessions() == ()
    assert not host.has_session("s")
    host.kill_session("s")


def test_start_supervisor_makes_window_zero(host: TmuxHost) -> None:
    window = host.start_supervisor("s", ["sleep", "1000"], cwd="/", env={})
    assert host.list_windows("s") == (window,)
    assert window.name == "supervisor"
    assert not window.dead
    assert host.has_session("s")
    with pytest.raises(ConflictError):
        start(host)
    assert host.list_windows("s") == (window,)
    assert Path(f"/proc/{window.pane_pid}/cmdline").read_text() == "sleep\x001000\x00"


def test_nasty_words_arrive_unchanged(host: TmuxHost, tmp_path: Path) -> None:
    folder = tmp_path / "a #{pane_id} ##S %H;"
    folder.mkdir()
    start(host)
    host.start_window("s", "talk #S;", tell(tmp_path, *NASTY), cwd=str(folder))
    assert told(tmp_path)["argv"] == NASTY
    assert told(tmp_path)["cwd"] == str(folder)
    assert host.list_windows("s")[1].name == "talk #S;"


def test_a_lone_word_is_no_shell_line(host: TmuxHost, tmp_path: Path) -> None:
    start(host)
    for number, name in enumerate(("my prog", "a$b", "x;", "-q")):
        program, ran = tmp_path / name, tmp_path / f"ran{number}"
        program.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
        program.chmod(0o755)
        host.start_window("s", f"w{number}", [str(program)], cwd="/")
        retry_until(ran.exists)


def test_environment_is_the_callers_and_stays_out_of_ps(
    host: TmuxHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLD", "first shell")
    start(host, "first")
    monkeypatch.delenv("OLD")
    monkeypatch.setenv("FRESH", "from the caller")
    monkeypatch.setenv("RLTUI_EXPERIMENT", "outer")
    secret = "s3cret; #{pane_id} %H\nline"
    host.start_supervisor("second", tell(tmp_path), cwd="/", env={"TOKEN": secret})
    env = told(tmp_path)["env"]
    assert (env["TOKEN"], env["FRESH"]) == (secret, "from the caller")
    assert not {"OLD", "RLTUI_EXPERIMENT"} & env.keys()
    assert (os.environ["RLTUI_EXPERIMENT"], os.environ.get("TOKEN")) == ("outer", None)
    command_lines = subprocess.run(["ps", "axww", "-o", "args"], check=True, capture_output=True, text=True)
    assert "s3cret" not in command_lines.stdout


def test_windows_inherit_the_sessions_environment(host: TmuxHost, tmp_path: Path) -> None:
    start(host, CHOSEN="yes")
    host.start_window("s", "w", tell(tmp_path), cwd="/")
    assert told(tmp_path)["env"]["CHOSEN"] == "yes"


def test_a_big_environment_passes(host: TmuxHost, tmp_path: Path) -> None:
    host.start_supervisor("s", tell(tmp_path), cwd="/", env={f"V{i:04}": "x" * 100 for i in range(1000)})
    env = told(tmp_path)["env"]
    assert all(env[f"V{i:04}"] == "x" * 100 for i in range(1000))


def test_only_a_dead_window_is_replaced(host: TmuxHost) -> None:
    start(host)
    first = host.start_window("s", "trainer", ["true"], cwd="/")
    retry_until(lambda: host.list_windows("s")[1].dead)
    second = host.start_window("s", "trainer", ["sleep", "1000"], cwd="/")
    assert first.id != second.id
    assert host.list_windows("s")[1:] == (second,)
    with pytest.raises(ConflictError):
        host.start_window("s", "trainer", ["sleep", "1000"], cwd="/")
    assert host.list_windows("s")[1:] == (second,)


def test_a_supervisor_that_ends_at_once_leaves_nothing(host: TmuxHost) -> None:
    host.start_supervisor("s", ["true"], cwd="/", env={})
    retry_until(lambda: not host.list_sessions())


def test_windows_of_other_sessions_are_not_listed(host: TmuxHost) -> None:
    start(host, "run")
    start(host, "run-2")
    host.start_window("run-2", "w", ["sleep", "1000"], cwd="/")
    assert len(host.list_windows("run")) == 1
    host.kill_session("run")
    assert host.list_sessions() == ("run-2",)


def test_a_refusal_names_the_tmux_command(host: TmuxHost) -> None:
    start(host)
    with pytest.raises(RltuiError, match="new-window") as caught:
        host.start_window("s", "a\nb" * 9000, ["true"], cwd="/")
    assert "too long" in str(caught.value)
    with pytest.raises(RltuiError, match="16 KiB"):
        host.start_window("s", "w", ["x" * 20_000], cwd="/")


def kill_server(host: TmuxHost, window_pid: int) -> None:
    """SIGKILL, as the OOM killer would."""
    server = int(Path(f"/proc/{window_pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert b"tmux" in Path(f"/proc/{server}/cmdline").read_bytes()
    os.kill(server, signal.SIGKILL)
    retry_until(lambda: not host.list_sessions())


def test_a_window_after_the_server_was_killed_makes_the_session_anew(
    host: TmuxHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOSEN", "yes")
    monkeypatch.setenv("RLTUI_EXPERIMENT", "outer")
    first = host.start_supervisor("s", ["sleep", "1000"], cwd="/", env={})
    show_options = ["tmux", "-L", host.socket_name, "show-options", "-g"]
    options = subprocess.run(show_options, check=True, capture_output=True).stdout
    kill_server(host, first.pane_pid)
    window = host.start_window("s", "trainer", tell(tmp_path), cwd=str(tmp_path))
    env = told(tmp_path)["env"]
    assert (env["CHOSEN"], told(tmp_path)["cwd"]) == ("yes", str(tmp_path))
    assert "RLTUI_EXPERIMENT" not in env
    retry_until(lambda: host.list_windows("s")[0].dead)
    assert [other.id for other in host.list_windows("s")] == [window.id], "it stays when it ends"
    again = host.start_window("s", "supervisor", ["sleep", "1000"], cwd="/")
    assert [other.name for other in host.list_windows("s")] == ["trainer", "supervisor"]
    assert again.pane_pid != first.pane_pid
    assert options == subprocess.run(show_options, check=True, capture_output=True).stdout


@contextmanager
def attached(argv: list[str], **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A client, and the terminal it is in, once that shows what the window says."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **variables}
    client = subprocess.Popen(argv, stdin=follower, stdout=follower, stderr=follower, env=env)
    os.close(follower)
    shown = b""
    try:
        while b"here-I-am" not in shown:
            shown += os.read(leader, 4096)
        yield client, leader
    finally:
        client.kill()
        client.wait()
        os.close(leader)


def test_attach_readonly_passes_no_keys_on(host: TmuxHost, tmp_path: Path) -> None:
    start(host)
    typed = tmp_path / "typed"
    host.start_window("s", "w", ["sh", "-c", f"echo here-I-am; head -n 1 > {typed}; sleep 1000"], cwd="/")
    with attached(host.attach_argv("s", "w", readonly=True)) as (client, leader):
        os.write(leader, b"from the reader\r")
        # One by one, since tmux takes keys that come at once for a paste. ctrl-b d still leaves.
        for key in (b"\x02", b"d"):
            time.sleep(0.05)
            os.write(leader, key)
        client.wait(timeout=10)
    assert typed.read_text() == ""


def test_attach_shows_the_window_from_within_tmux(host: TmuxHost) -> None:
    start(host)
    host.start_window("s", "w", ["sh", "-c", "echo here-I-am; sleep 1000"], cwd="/")
    with attached(host.attach_argv("s", "w"), TMUX="/tmp/users-own,1,0"):
        pass
    with pytest.raises(RltuiError, match="no window"):
        host.attach_argv("s", "absent")


def test_check_judges_versions(host: TmuxHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "tmux"
    for version in ("3.2", "3.2a", "3.7b", "next-3.8", "master", "2.9", "3.1c"):
        program.write_text(f"#!/bin/sh\necho tmux {version}\n")
        program.chmod(0o755)
        with nullcontext() if version not in ("2.9", "3.1c") else pytest.raises(RltuiError, match=version):
            host.check()
    program.unlink()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        for call in (host.check, lambda: host.list_windows("s")):
            with pytest.raises(RltuiError, match="not installed"):
                call()


def test_what_a_loader_complains_of_does_not_keep_tmux_from_working(
    host: TmuxHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = f"{shutil.which('tmux')}: libtinfo.so.6: no version information available"
    (tmp_path / "tmux").write_text(f'#!/bin/sh\necho {complaint!r} >&2\nexec {shutil.which("tmux")} "$@"\n')
    (tmp_path / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    host.check()
    assert host.list_windows("s") == ()
    start(host)
    host.start_window("s", "w", ["sleep", "100"], cwd="/")
    assert [window.name for window in host.list_windows("s")] == ["supervisor", "w"]
    host.kill_session("s")
    assert host.list_sessions() == ()


def test_session_name_keeps_names_apart() -> None:
    names = ["a.b", "a:b", "a_b", "a b", "-a", "a", "ü", "", "x" * 300, "x" * 301, "=a", "@1", "$1"]
    sessions = [paths.tmux_session(name) for name in names]
    assert len(set(sessions)) == len(names)
    for name in ("a", "reverse-text", "A_b-9"):
        assert paths.tmux_session(name) == name
    assert not any(set(session) & set(".:") or session.startswith("-") for session in sessions)


def test_programs_cannot_rename_their_window_or_touch_the_clipboard(host: TmuxHost) -> None:
    start(host)
    host.start_window("s", "w", ["printf", "\\033kevil\\033\\\\done"], cwd="/")
    retry_until(lambda: host.list_windows("s")[1].dead)
    assert host.list_windows("s")[1].name == "w"
    assert ("-s", "set-clipboard", "off") in tmux.SERVER_OPTIONS


def test_sessions_can_follow_each_other_at_once(host: TmuxHost) -> None:
    """The server exits with its last session, just when the next one asks for it."""
    for _ in range(4):
        start(host)
        host.kill_session("s")


def test_calls_from_within_the_users_tmux_do_not_see_it(
    host: TmuxHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("tmux")
    (tmp_path / "tmux").write_text(f'#!/bin/sh\nenv >> {tmp_path}/seen\nexec {real} "$@"\n')
    (tmp_path / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TMUX", "/tmp/users-own,1,0")
    monkeypatch.setenv("TMUX_PANE", "%77")
    start(host)
    host.start_window("s", "w", ["sleep", "1000"], cwd="/")
    host.list_windows("s")
    host.kill_session("s")
    assert "TMUX" not in (tmp_path / "seen").read_text()
    assert os.environ["TMUX"] == "/tmp/users-own,1,0"


def test_a_stopped_server_is_named_and_not_waited_for(host: TmuxHost) -> None:
    """Finding H22: a start was `waiting`, without a reason or a limit."""
    host.start_supervisor("s", ["sleep", "1000"], cwd="/", env={})
    (line,) = host._run(("display-message", "-p", "#{pid}"))
    server = processes.read_process_id(int(line))
    assert server is not None
    os.kill(int(line), signal.SIGSTOP)
    try:
        retry_until(lambda: processes.is_stopped(server) or None)  # not before it is out of the kernel
        with pytest.raises(RltuiError, match=rf"pid {line}, is stopped") as caught:
            host.start_window("s", "trainer", ["sleep", "1000"], cwd="/")
        assert caught.value.hint == f"resume it: kill -CONT {line}"
    finally:
        os.kill(int(line), signal.SIGCONT)
    assert host.start_window("s", "trainer", ["sleep", "1000"], cwd="/").name == "trainer"
