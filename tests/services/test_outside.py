from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from tests.waiting import retry_until

from rltui.errors import RltuiError
from rltui.services.processes.identity import read_stat
from rltui.services.processes.subprocesses import MAX_ERRORS_BYTES, check_output, follow, run

TELL = (
    "import json, os, sys; told = {'stdin': sys.stdin.read(), 'env': dict(os.environ), 'args': sys.argv[2:],"
    "'group': os.getpgrp() == os.getpid()}; open(sys.argv[1], 'w').write(json.dumps(told))"
)


def starts_child(folder: Path) -> str:
    return f"sleep 60 & echo $! > {folder}/child"


def assert_child_is_gone(folder: Path) -> None:
    pid = int((folder / "child").read_text())
    retry_until(lambda: (stat := read_stat(pid)) is None or stat.is_dead, timeout_s=2.0)


async def test_the_command_gets_document_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/private,1,0")
    monkeypatch.setenv("TOKEN", "kept")
    command = [sys.executable, "-c", TELL, str(tmp_path / "told"), "$HOME", "a b"]
    document = b'{"title": "x"}\n'
    await run(command, stdin=document, variables={"RLTUI_ALERT_TITLE": "it's; $down"}, timeout_s=10)
    told = json.loads((tmp_path / "told").read_text())
    assert told["stdin"] == '{"title": "x"}\n'
    assert told["args"] == ["$HOME", "a b"]
    assert told["group"], "a process group of its own"
    assert told["env"]["RLTUI_ALERT_TITLE"] == "it's; $down"
    assert (told["env"]["TOKEN"], told["env"].get("TMUX")) == ("kept", None)


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (["sh", "-c", "echo starts >&2; echo 'curl: no route' >&2; exit 7"], "exited 7: curl: no route"),
        (["sh", "-c", "kill -9 $$"], "was killed by SIGKILL"),
        (["sh", "-c", "kill -40 $$"], "was killed by signal 40"),
        (["sh", "-c", "yes 'too much' | head -n 30000 >&2; exit 1"], "exited 1: too much"),
    ],
)
async def test_a_failure_says_why(command: list[str], fault: str) -> None:
    done = await run(command, timeout_s=10)
    assert done.failure == fault
    assert len(done.failure) < MAX_ERRORS_BYTES


async def test_a_command_that_is_not_there() -> None:
    with pytest.raises(RltuiError, match=r"^cannot run /no/such/notifier: No such file or directory$"):
        await run(["/no/such/notifier"], timeout_s=10)
    with pytest.raises(RltuiError, match=r"^cannot run /no/such/notifier: No such file or directory$"):
        check_output(["/no/such/notifier"], timeout_s=10)


async def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    done = await run(["sh", "-c", f"{starts_child(tmp_path)}; sleep 60"], timeout_s=0.3)
    assert (done.code, done.failure) == (None, None)
    assert_child_is_gone(tmp_path)


@pytest.mark.slow
async def test_what_it_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    script = f"(sleep 2; touch {tmp_path}/late) &"
    done = await run(["sh", "-c", script], stdin=b"x" * 200_000, timeout_s=5)
    assert (done.code, time.monotonic() - began < 2.0) == (0, True)
    retry_until((tmp_path / "late").exists, timeout_s=5)


async def test_what_it_leaves_in_the_background_ends_where_it_is_to_leave_nothing(tmp_path: Path) -> None:
    script = f"{starts_child(tmp_path)}; echo out; echo err >&2"
    done = await run(["sh", "-c", script], timeout_s=5, mixed=True, leaves_nothing=True)
    assert (done.output, done.errors) == (b"out\nerr\n", b"")
    assert_child_is_gone(tmp_path)


async def test_output_is_given_while_it_runs() -> None:
    pieces: list[bytes] = []
    failure = await follow(["sh", "-c", "echo 1; sleep 0.3; echo 2; echo why >&2; exit 3"], pieces.append)
    assert (pieces, failure) == ([b"1\n", b"2\n"], "exited 3: why")


def test_a_question_has_an_answer_or_a_failure(tmp_path: Path) -> None:
    assert check_output(["echo", "it"], timeout_s=5) == b"it\n"
    with pytest.raises(RltuiError, match=r"^sh exited 2: why$"):
        check_output(["sh", "-c", "echo why >&2; exit 2"], timeout_s=5)
    with pytest.raises(RltuiError, match=r"^sh took longer than 0\.2 s and was ended$"):
        check_output(["sh", "-c", f"{starts_child(tmp_path)}; sleep 60"], timeout_s=0.2)
    assert_child_is_gone(tmp_path)
